"""Whether a plan's applications need X-Ray, and what is said where there is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.contracts.problem import Problem
from stepbench.errors import PlanError

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan


def refuse_traces(plan: Plan, where: str) -> None:
    """
    Refuse what cannot be answered where nothing plays X-Ray.

    Args:
        plan: any.
        where: what has no X-Ray: "MiniStack 1.4.3".

    Raises:
        PlanError: an application has a duration that only its traces tell.
    """
    problems = [
        Problem(
            path=f"applications[{index}].traces",
            value=json.dumps(application.traces.name),
            message=f"needs X-Ray, which {where} does not have",
            remedy="Give the functions with their duration_ms, or run the plan on a deployed stack.",
        )
        for index, application in enumerate(plan.applications)
        if application.traces is not None and application.needs_traces
    ]
    if problems:
        raise PlanError(problems)
