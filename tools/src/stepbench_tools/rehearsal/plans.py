"""The parts of a rehearsal, by the template's parameters (`plans.yaml`), and what all of them may cost."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from stepbench.costs.prices import bill
from stepbench.costs.standing import DEFAULT_TYPES, Deployment, standing
from stepbench.errors import PlanError, Problem
from stepbench.experiments.estimates import budgeted
from stepbench.planning import expanded, parse_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.plan import Plan

FIRST, STOPPING, TRANSFERS = "s3-and-dynamodb", "stopping", "transfers"
OVERHEAD_USD = 0.05
"""Artefacts and their requests, controlling functions, sweeps, what deploying and deleting logs."""
LEAST_H, MOST_H, DELETE_H = 1.0, 3.0, 1.0
"""How long a rehearsal goes on; its deletion takes an hour more at most, by CloudFormation's own limits."""


def read_parts() -> dict[str, Any]:
    """Return each part by name, in the order in which they are run: its `trials`, and the `parameters` that ask."""
    text = files("stepbench_tools.rehearsal").joinpath("plans.yaml").read_text("utf-8")
    parts: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return {name: part for name, part in parts.items() if not name.startswith("_")}


def find_plans(parameters: Mapping[str, str]) -> dict[str, Plan]:
    """Return the plan of each part that the template's parameters ask for."""

    def has(name: str, wanted: str) -> bool:
        value = parameters.get(name, "")
        return value == wanted or (wanted == "ANY" and value not in {"", "off"})

    parts = read_parts().items()
    asked = {name: part for name, part in parts if all(has(*each) for each in part.get("parameters", {}).items())}
    return {name: parse_plan({"name": f"rehearse-{name}", "trials": part["trials"]}) for name, part in asked.items()}


def budget_hours(plans: Mapping[str, Plan], parameters: Mapping[str, str], budget_usd: float) -> tuple[float, float]:
    """
    Return how many hours the budget allows before everything is deleted, and what that may cost, deletion included.

    Prices are us-east-1's list prices.

    Raises:
        PlanError: that is less than an hour.
    """
    fixed_usd = OVERHEAD_USD
    fixed_usd += sum(budgeted(trial.plan).total_usd for plan in plans.values() for trial in expanded(plan))
    amounts = standing(Deployment(options={**DEFAULT_TYPES, **parameters})).values()
    hour_usd = bill(*(amount for each in amounts for amount in each)).total_usd
    if (least_usd := fixed_usd + hour_usd * (LEAST_H + DELETE_H)) > budget_usd:
        message = f"is below the ${least_usd:.2f} that these parameters may cost in an hour and that of their deletion"
        raise PlanError([Problem("BUDGET", f"{budget_usd:g}", message, f"Give at least {least_usd + 0.005:.2f}.")])
    hours = min(MOST_H, (budget_usd - fixed_usd) / hour_usd - DELETE_H) if hour_usd else MOST_H
    return hours, fixed_usd + hour_usd * (hours + DELETE_H)
