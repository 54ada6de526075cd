"""What a plan may cost, and what emulators do not play."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.contracts.capacity import AutoscaledCapacity
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs.price_table import table_date
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.experiments.estimates import budgeted
from stepbench.planning.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.runs import RunRecord
    from stepbench.planning.expansion import Expanded
    from stepbench.records.storage.run_register import OverBudgetError


def check_budget(plan: Plan, trials: Sequence[Expanded] | None = None) -> float:
    """
    Return what the plan may cost on AWS, in US dollars: with as many events, and as long reads, as it allows.

    trials: the plan's, where they are known.

    Raises:
        PlanError: the cost is above `budget_usd`; names both numbers and the biggest line.
    """
    trials = expanded(plan) if trials is None else trials
    estimates = [budgeted(trial.plan) for trial in trials]
    total_usd = sum(each.total_usd for each in estimates)
    if total_usd <= plan.budget_usd:
        return total_usd
    lines = [(trial, line) for trial, each in zip(trials, estimates, strict=True) for line in each.lines]
    trial, biggest = max(lines, key=lambda entry: entry[1].usd)
    problem = Problem(
        path="budget_usd",
        value=f"{plan.budget_usd:g}",
        message=f"is below what the plan may cost, ${total_usd:,.2f} (price table of {table_date()}); the biggest line "
        f"is {biggest.quantity:,.0f} {biggest.item} in {_name_trial(plan, trial)}, ${biggest.usd:,.2f}",
        remedy=f"Set budget_usd to at least {_ceil_cents(total_usd):.2f}, or offer fewer events.",
    )
    raise PlanError([problem])


def budget_problem(record: RunRecord, error: OverBudgetError) -> Problem:
    """Return why a run costs more than its team, or all teams together, have left of its month's budget."""
    whose, parameter = ("team " + record.team, "TeamBudgetUsd") if error.whose == "team" else ("all teams", "")
    left = max(0.0, error.budget_usd - error.spent_usd)
    message = (
        f"may cost ${record.spent_usd:,.2f}, and of ${error.budget_usd:,.2f} that {whose} may spend in "
        f"{record.month}, ${left:,.2f} are left"
    )
    remedy = f"Offer fewer events, wait for the next month, or deploy with a higher {parameter or 'AccountBudgetUsd'}."
    return Problem("budget_usd", f"${record.spent_usd:,.2f}", message, remedy)


def _name_trial(plan: Plan, trial: Expanded) -> str:
    """Return `trials[0]`, and the name of one of its trials where it is expanded into several."""
    path = f"trials[{trial.source}]"
    return path if plan.trials[trial.source].copies == 1 else f"{trial.name} of {path}"


def _ceil_cents(usd: float) -> float:
    """Round up, so that the advice, once followed, is enough."""
    return (int(usd * 100) + 1) / 100


def refuse_on_emulator(plan: Plan, where: str) -> None:
    """
    Refuse what no emulator plays: applications whose durations only X-Ray knows, and tables that scale themselves.

    Args:
        plan: any.
        where: what does not play it: "MiniStack 1.4.3".

    Raises:
        PlanError: names each.
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
    problems += [
        Problem(
            path=f"{at}.mode",
            value="autoscaled",
            message=f"needs Application Auto Scaling, which {where} does not have",
            remedy=f'Run the plan on a deployed stack, or change it: --set \'{at}={{"mode": "on_demand"}}\'.',
        )
        for at in _autoscaled(plan)
    ]
    raise_problems(problems)


def _autoscaled(plan: Plan) -> Iterator[str]:
    """Yield the places of capacities that scale themselves, as often as a trial is repeated."""
    for trial in expanded(plan):
        at = f"trials[{trial.source}]"
        if isinstance(trial.plan.target, DynamoDbTarget) and isinstance(trial.plan.target.capacity, AutoscaledCapacity):
            yield f"{at}.target.capacity"
        for index, phase in enumerate(trial.plan.phases):
            if phase.scale and isinstance(phase.scale.capacity, AutoscaledCapacity):
                yield f"{at}.phases[{index}].scale.capacity"
