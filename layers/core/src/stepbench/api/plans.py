"""Presets, and plans that are checked without being run."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepbench.contracts.api import PlanInfo, PlanList, Validation
from stepbench.costs import estimate
from stepbench.planning import expanded, parse_plan, questions
from stepbench.planning.presets import find_preset
from stepbench.planning.requests import requested_plan
from stepbench.planning.wall_time import AWS, LOCAL, run_s
from stepbench.stages.validate_plan import check_against_stack

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.contracts.runs import RunRequest
    from stepbench.settings import Settings


@lru_cache(maxsize=2)
def list_presets(*, emulated: bool) -> PlanList:
    """Return all presets, by the order of their questions."""
    found = []
    for question in questions():
        for name in question.presets:
            trials = _trials(parse_plan(find_preset(name)))
            found.append(
                PlanInfo(
                    name=name,
                    question=question.question,
                    trials=len(trials),
                    events=sum(trial.events for trial in trials),
                    expected_s=_wall_s(trials, emulated=emulated),
                    estimate_usd=_usd(trials),
                )
            )
    return PlanList(plans=tuple(found))


def preset(name: str) -> dict[str, Any]:
    """Return a preset as its author wrote it; raises PlanError if there is none."""
    document: dict[str, Any] = json.loads(find_preset(name))
    return document


def validate(request: RunRequest, settings: Settings) -> Validation:
    """
    Return what a plan would do on this stack.

    Raises:
        PlanError: it is refused; with every problem.
    """
    plan = requested_plan(request)
    check_against_stack(plan, settings)
    trials = _trials(plan)
    return Validation(
        plan=plan.name,
        trials=len(trials),
        events=sum(trial.events for trial in trials),
        load_s=sum(trial.length_s for trial in trials),
        expected_s=_wall_s(trials, emulated=bool(settings.emulator)),
        estimate_usd=_usd(trials),
        budget_usd=plan.budget_usd,
    )


def _trials(plan: Plan) -> list[AnyTrial]:
    return [trial.plan for trial in expanded(plan)]


def _wall_s(trials: list[AnyTrial], *, emulated: bool) -> float:
    return run_s(trials, LOCAL if emulated else AWS)


def _usd(trials: list[AnyTrial]) -> float:
    return sum(estimate(trial).total_usd for trial in trials)
