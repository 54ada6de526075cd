"""A plan against its own limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.problem import Problem
from stepbench.costs import PRICE_TABLE_DATE, estimate
from stepbench.errors import PlanError
from stepbench.planning.expansion import expanded

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan
    from stepbench.planning.expansion import Expanded


def check_budget(plan: Plan) -> float:
    """
    The plan's estimated cost on AWS, in US dollars.

    Raises:
        PlanError: it is above `budget_usd`; names both numbers and the biggest line.
    """
    trials = expanded(plan)
    estimates = [estimate(trial.plan) for trial in trials]
    total_usd = sum(each.total_usd for each in estimates)
    if total_usd <= plan.budget_usd:
        return total_usd
    lines = [(trial, line) for trial, each in zip(trials, estimates, strict=True) for line in each.lines]
    trial, biggest = max(lines, key=lambda entry: entry[1].usd)
    problem = Problem(
        path="budget_usd",
        value=f"{plan.budget_usd:g}",
        message=f"is below the estimate of ${total_usd:,.2f} (price table of {PRICE_TABLE_DATE}); the biggest line is "
        f"{biggest.quantity:,.0f} {biggest.item} in {_place(plan, trial)}, ${biggest.usd:,.2f}",
        remedy=f"Set budget_usd to at least {_ceil_cents(total_usd):.2f}, or offer fewer events.",
    )
    raise PlanError([problem])


def _place(plan: Plan, trial: Expanded) -> str:
    """`trials[0]`, with the name of which of them where it is expanded into several."""
    place = f"trials[{trial.source}]"
    return place if plan.trials[trial.source].copies == 1 else f"{trial.name} of {place}"


def _ceil_cents(usd: float) -> float:
    """Rounded up, so that the advice, once followed, is enough."""
    return (int(usd * 100) + 1) / 100
