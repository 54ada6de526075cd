"""A plan against its own budget, and against what there is where it is to run: servers, X-Ray."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.contracts.target import AutoscaledCapacity, DynamoDbTarget
from stepbench.costs.price_table import table_date
from stepbench.errors import PlanError, Problem
from stepbench.experiments.estimates import budgeted
from stepbench.planning.expansion import expanded
from stepbench.planning.problems import NOTHING
from stepbench.tuning.models import model_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.plan import Plan
    from stepbench.planning.expansion import Expanded


def check_models(plan: Plan) -> None:
    """
    Refuse a plan that needs a model of a tuned store which does not ship.

    Raises:
        PlanError: names the model, and what makes one.
    """
    if problems := model_problems(plan):
        raise PlanError(problems)


def check_budget(plan: Plan) -> float:
    """
    Return what the plan may cost on AWS, in US dollars: with as many events, and as long reads, as it allows.

    Raises:
        PlanError: the cost is above `budget_usd`; names both numbers and the biggest line.
    """
    trials = expanded(plan)
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


def _name_trial(plan: Plan, trial: Expanded) -> str:
    """Return `trials[0]`, and the name of one of its trials where it is expanded into several."""
    path = f"trials[{trial.source}]"
    return path if plan.trials[trial.source].copies == 1 else f"{trial.name} of {path}"


def _ceil_cents(usd: float) -> float:
    """Round up, so that the advice, once followed, is enough."""
    return (int(usd * 100) + 1) / 100


def require_servers(plan: Plan, has_server: Callable[[str], bool], where: str, remedy: str) -> None:
    """
    Refuse trials on stores that nobody runs, which would find out only after others have run.

    Args:
        plan: any.
        has_server: tells of a store's name whether a server of it runs there.
        where: whose servers these are: "this stack".
        remedy: what to do other than naming a server in the plan.

    Raises:
        PlanError: a store needs a server, there is none, and the plan names none; each trial and store once.
    """
    missing = dict.fromkeys(
        (trial.source, trial.plan.target.store)
        for trial in expanded(plan)
        if trial.plan.target.needs_endpoint and trial.plan.target.endpoint is None
        if not has_server(trial.plan.target.store)
    )
    problems = [
        Problem(
            path=f"trials[{source}].target.endpoint",
            value=NOTHING,
            message=f"is missing, and {where} has no server of {store}",
            remedy=f"Give the endpoint of a server of your own, remove the trial, or {remedy}.",
        )
        for source, store in missing
    ]
    if problems:
        raise PlanError(problems)


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
        for at in dict.fromkeys(_autoscaled(plan))
    ]
    if problems:
        raise PlanError(problems)


def _autoscaled(plan: Plan) -> Iterator[str]:
    """Yield the places of capacities that scale themselves, as often as a trial is repeated."""
    for trial in expanded(plan):
        at = f"trials[{trial.source}]"
        if isinstance(trial.plan.target, DynamoDbTarget) and isinstance(trial.plan.target.capacity, AutoscaledCapacity):
            yield f"{at}.target.capacity"
        for index, phase in enumerate(trial.plan.phases):
            if phase.scale and isinstance(phase.scale.capacity, AutoscaledCapacity):
                yield f"{at}.phases[{index}].scale.capacity"
