"""A run that is asked for: whether the stack takes its plan, what it is expected to be, and its entry as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.runs import RunRecord
from stepbench.errors import raise_problems
from stepbench.planning.limits import check_budget
from stepbench.planning.requests import requested_plan
from stepbench.planning.stack import check_stack
from stepbench.planning.wall_time import expected
from stepbench.tuning.models import model_problems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.runs import RunRequest
    from stepbench.planning.expansion import Expanded
    from stepbench.settings import Settings


class Admitted(NamedTuple):
    """A plan that a stack takes, with its trials in the order of execution, and what they may cost."""

    plan: Plan
    trials: tuple[Expanded, ...]
    at_most_usd: float


def admitted(request: RunRequest, settings: Settings) -> Admitted:
    """
    Return the plan that a request asks for.

    Raises:
        PlanError: it is none, or the stack cannot run it within its budget.
    """
    plan, trials = requested_plan(request)
    return Admitted(plan, trials, check_plan(plan, trials, settings))


def check_plan(plan: Plan, trials: Sequence[Expanded], settings: Settings) -> float:
    """
    Return what a valid plan may cost, in US dollars.

    Raises:
        PlanError: what the stack lacks for it or does not permit; else models that do not ship; else its budget is too
            small.
    """
    check_stack(trials, settings)
    raise_problems(model_problems(plan))
    return check_budget(plan, trials)


def run_record(
    run_id: str, request: RunRequest, found: Admitted, submitted_at: datetime, settings: Settings
) -> RunRecord:
    """Return what the register says of a run that was asked for, and may begin."""
    known = expected([trial.plan for trial in found.trials], settings)
    return RunRecord(
        run_id=run_id,
        plan=found.plan.name,
        state="submitted",
        submitted_at=submitted_at,
        trials=known.trials,
        estimate_usd=known.estimate_usd,
        at_most_usd=found.at_most_usd,
        expected_s=known.expected_s,
        **request.model_dump(include={"team", "caller", "source", "confirms"}),
    )
