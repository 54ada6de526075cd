"""Whether there are the tasks, and the makers of inputs, that a plan's DAGs name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.trial import TrialFields
from stepbench.dataflow.application import ApplicationError, find_maker, find_task
from stepbench.errors import Problem
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.plan import Plan

_REMEDY = "Name one that there is, or add a module with it to dataflow/applications."


def application_problems(plan: Plan) -> list[Problem]:
    """Return a problem for each task and each maker that no application has."""
    return [problem for name, path, find in _names(plan) if (problem := _problem(name, path, find))]


def _names(plan: Plan) -> Iterator[tuple[str, str, Callable[[str], object]]]:
    for index, trial in enumerate(plan.trials):
        for number, dag in enumerate(trial.dags if isinstance(trial, TrialFields) else ()):
            path = f"trials[{index}].dags[{number}]"
            for place, stage in enumerate(dag.stages):
                yield stage.task, f"{path}.stages[{place}].task", find_task
            if dag.input is not None:
                yield dag.input.maker, f"{path}.input.maker", find_maker


def _problem(name: str, path: str, find: Callable[[str], object]) -> Problem | None:
    try:
        find(name)
    except ApplicationError as error:
        return Problem(path, shown(name), str(error), _REMEDY)
    return None
