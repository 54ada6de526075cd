"""Presets, and plans that are checked without being run."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepbench.contracts.api import PlanInfo, PlanList, Validation
from stepbench.errors import PlanError
from stepbench.experiments.estimates import estimate
from stepbench.planning import expanded, parse_plan, questions
from stepbench.planning.presets import find_preset
from stepbench.planning.requests import requested_plan
from stepbench.planning.wall_time import AWS, LOCAL, offered_load_s, run_s
from stepbench.stages.validate_plan import check_against_stack

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.contracts.runs import RunRequest
    from stepbench.planning.wall_time import Overheads
    from stepbench.settings import Settings


@lru_cache(maxsize=2)
def list_presets(settings: Settings) -> PlanList:
    """Return all presets, by the order of their questions; of each that this stack does not run, why."""
    found, overheads = [], LOCAL if settings.emulator else AWS
    for question in questions():
        for name in question.presets:
            plan = parse_plan(find_preset(name))
            trials = _trials(plan)
            found.append(
                PlanInfo(
                    name=name,
                    question=question.question,
                    trials=len(trials),
                    events=sum(trial.events for trial in trials),
                    expected_s=run_s(trials, overheads),
                    estimate_usd=_usd(trials, overheads),
                    refused=_refusal(plan, settings),
                )
            )
    return PlanList(plans=tuple(found))


def _refusal(plan: Plan, settings: Settings) -> str:
    """Return why a stack does not run a plan, as its first problem has it; empty where it does."""
    try:
        check_against_stack(plan, settings)
    except PlanError as error:
        return f"{error.problems[0].path} {error.problems[0].message}"
    return ""


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
    trials, overheads = _trials(plan), LOCAL if settings.emulator else AWS
    return Validation(
        plan=plan.name,
        trials=len(trials),
        events=sum(trial.events for trial in trials),
        load_s=sum(offered_load_s(trial, overheads) for trial in trials),
        expected_s=run_s(trials, overheads),
        estimate_usd=_usd(trials, overheads),
        budget_usd=plan.budget_usd,
    )


def _trials(plan: Plan) -> list[AnyTrial]:
    return [trial.plan for trial in expanded(plan)]


def _usd(trials: list[AnyTrial], overheads: Overheads) -> float:
    return sum(estimate(trial, overheads.assumed).total_usd for trial in trials)
