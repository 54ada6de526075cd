"""Whether there are the tasks, makers of inputs and parameters that a plan's DAGs name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.trial import TrialFields
from stepbench.dataflow.application import ApplicationError, find_maker, find_task, parameters_of
from stepbench.errors import Problem
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stepbench.contracts.dataflow import Parameter
    from stepbench.contracts.plan import Plan

_REMEDY = "Name one that there is, or add a module with it to dataflow/applications."


class _Named(NamedTuple):
    """A task or a maker, where a plan names it, and what it is to be given."""

    name: str
    path: str
    field: str
    find: Callable[[str], object]
    parameters: Mapping[str, Parameter]


def application_problems(plan: Plan) -> list[Problem]:
    """Return a problem for each task, maker and parameter that no application has."""
    return [problem for named in _names(plan) for problem in _problems(named)]


def _names(plan: Plan) -> Iterator[_Named]:
    for index, trial in enumerate(plan.trials):
        for number, dag in enumerate(trial.dags if isinstance(trial, TrialFields) else ()):
            path = f"trials[{index}].dags[{number}]"
            for place, stage in enumerate(dag.stages):
                yield _Named(stage.task, f"{path}.stages[{place}]", "task", find_task, stage.parameters)
            if dag.input is not None and dag.input.maker is not None:
                yield _Named(dag.input.maker, f"{path}.input", "maker", find_maker, dag.input.parameters)


def _problems(named: _Named) -> Iterator[Problem]:
    try:
        named.find(named.name)
    except ApplicationError as error:
        yield Problem(f"{named.path}.{named.field}", shown(named.name), str(error), _REMEDY)
        return
    known = parameters_of(named.name)
    for name, value in named.parameters.items():
        if known is not None and name not in known:
            remedy = f"It has {', '.join(sorted(known)) or 'none'}."
            yield Problem(f"{named.path}.parameters.{name}", shown(value), f"is no parameter of {named.name}", remedy)
