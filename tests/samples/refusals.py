"""Plans that are refused, and what their authors are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from stepbench.errors import PlanError
from stepbench.planning import parse_plan

if TYPE_CHECKING:
    from stepbench.errors import Problem


class Refused(NamedTuple):
    """A plan or a trial that is refused: its problem's path, and words of its value, remedy and message."""

    document: Any
    path: str
    value: str = ""
    remedy: str = ""
    message: str = ""


def problems_of_plan(plan: Any) -> tuple[Problem, ...]:  # noqa: ANN401 -- whatever is given as a plan
    """Return what a refused plan's author is told."""
    with pytest.raises(PlanError) as refused:
        parse_plan(plan)
    return refused.value.problems


def check_plan(refused: Refused) -> None:
    """Check that a plan is refused, and with this problem only."""
    (problem,) = problems_of_plan(refused.document)
    assert problem.path == refused.path
    assert refused.value in problem.value
    assert refused.remedy in problem.remedy
    assert problem.message
    assert refused.message in problem.message


def plan_of(trial: dict[str, Any]) -> dict[str, Any]:
    """Return a plan of one trial."""
    return {"name": "plan", "trials": [trial]}


def check_trial(refused: Refused) -> None:
    """Check that a trial is refused as `check_plan` does; the path is below it."""
    check_plan(refused._replace(document=plan_of(refused.document), path=f"trials[0].{refused.path}"))
