"""Presets, and plans that are checked without being run."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepbench.contracts.api import PlanInfo, PlanList, Validation
from stepbench.errors import PlanError
from stepbench.planning import questions
from stepbench.planning.presets import find_preset
from stepbench.planning.reading import parse_expanded
from stepbench.planning.requests import admitted, check_plan
from stepbench.planning.wall_time import expected

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan
    from stepbench.contracts.runs import RunRequest
    from stepbench.planning import Expanded
    from stepbench.settings import Settings


@lru_cache(maxsize=2)
def list_presets(settings: Settings) -> PlanList:
    """Return all presets, by the order of their questions; of each that this stack does not run, why."""
    found = []
    for question in questions():
        for name in question.presets:
            plan, trials = parse_expanded(find_preset(name))
            known = expected([trial.plan for trial in trials], settings)
            found.append(
                PlanInfo(
                    name=name,
                    question=question.question,
                    trials=known.trials,
                    events=known.events,
                    expected_s=known.expected_s,
                    estimate_usd=known.estimate_usd,
                    refused=_refusal(plan, trials, settings),
                )
            )
    return PlanList(plans=tuple(found))


def _refusal(plan: Plan, trials: tuple[Expanded, ...], settings: Settings) -> str:
    """Return why a stack does not run a plan, as its first problem has it; empty where it does."""
    try:
        check_plan(plan, trials, settings)
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
    found = admitted(request, settings)
    known = expected([trial.plan for trial in found.trials], settings)
    return Validation(plan=found.plan.name, budget_usd=found.plan.budget_usd, **known._asdict())
