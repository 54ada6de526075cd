"""Whether there are the tasks, makers of inputs and parameters that a plan's DAGs name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.trial import TrialFields
from stepbench.errors import Problem
from stepbench.experiments.dataflow.tasks.application import (
    ApplicationError,
    faults_of,
    find_maker,
    find_task,
    parameters_of,
)
from stepbench.experiments.dataflow.tasks.application_parameters import Given
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepbench.contracts.dataflow.dag import Dag, Stage
    from stepbench.planning.expansion import Expanded

_REMEDY = "Name one that there is, or add a module with it to experiments/dataflow/tasks/applications."


class _Named(NamedTuple):
    """A task or a maker, where a plan names it, and what it is to be given."""

    name: str
    path: str
    field: str
    find: Callable[[str], object]
    given: Given


def application_problems(trials: Iterable[Expanded]) -> list[Problem]:
    """
    Return a problem for each task, maker and parameter that no application has, or not with such a value.

    Of a matrix each combination counts; what is wrong in several is reported once.
    """
    by_source = sorted((each for each in trials if each.repeat == 0), key=lambda each: each.source)
    return list(dict.fromkeys(problem for named in _names(by_source) for problem in _problems(named)))


def _names(trials: Iterable[Expanded]) -> Iterator[_Named]:
    for trial in trials:
        for number, dag in enumerate(trial.plan.dags if isinstance(trial.plan, TrialFields) else ()):
            path = f"trials[{trial.source}].dags[{number}]"
            for place, stage in enumerate(dag.stages):
                yield _Named(stage.task, f"{path}.stages[{place}]", "task", find_task, _given(dag, stage))
            if dag.input is not None and dag.input.maker is not None:
                yield _Named(dag.input.maker, f"{path}.input", "maker", find_maker, Given(dag.input.parameters))


def _given(dag: Dag, stage: Stage) -> Given:
    return Given(stage.parameters, bool(stage.inputs) or dag.input is not None, stage.timeout_s)


def _problems(named: _Named) -> Iterator[Problem]:
    try:
        named.find(named.name)
    except ApplicationError as error:
        yield Problem(f"{named.path}.{named.field}", shown(named.name), str(error), _REMEDY)
        return
    known = parameters_of(named.name)
    for name, value in named.given.parameters.items():
        if known is not None and name not in known:
            remedy = f"It has {', '.join(sorted(known)) or 'none'}."
            yield Problem(f"{named.path}.parameters.{name}", shown(value), f"is no parameter of {named.name}", remedy)
    for fault in faults_of(named.name, named.given):
        value = shown(named.given.parameters[fault.name])
        yield Problem(f"{named.path}.parameters.{fault.name}", value, fault.message, fault.remedy)
