"""What a rehearsal may cost, held against a budget: before anything is made, and by the clock while it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.errors import PlanError, Problem
from stepbench.experiments.estimates import budgeted
from stepbench.planning import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.plan import Plan

OVERHEAD_USD = 0.05
"""Artefacts and their requests, controlling functions, sweeps, what deploying and deleting logs, Cost Explorer."""
DELETE_H = 1.0
"""Deletion takes so long at most, by CloudFormation's own limits; interfaces of functions in a network take most."""
NETWORK_HOURLY_USD = 0.15
"""Interface endpoints: five in three zones at most."""


@dataclass(frozen=True)
class Round:
    """
    A deployment of the stack and the plans that are run on it; what the former one made is turned off with it.

    Attributes:
        name: of what it tries.
        plans: to be run, the last `to_be_stopped` of them to be stopped.
        parameters: of the template, beside those of all rounds.
        hourly_usd: list price of what it makes, by the hour.
        limit_h: it is ended after so long.
        in_network: whether it makes a network with interface endpoints, which transfers do without.
    """

    name: str
    plans: tuple[Plan, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    hourly_usd: float = 0
    limit_h: float = 1.0
    in_network: bool = False
    to_be_stopped: int = 0

    @property
    def plans_usd(self) -> float:
        """Return the estimate of all its plans."""
        return sum(plan_usd(plan) for plan in self.plans)

    @property
    def bound_usd(self) -> float:
        """Return what it costs at most."""
        return self.plans_usd + self.hourly_usd * self.limit_h


def plan_usd(plan: Plan) -> float:
    """Return what a plan may cost."""
    return sum(budgeted(trial.plan).total_usd for trial in expanded(plan))


def total_usd(rounds: Sequence[Round]) -> float:
    """Return what rounds cost at most, one after the other, the deletion of the dearest's resources included."""
    reserve = max((each.hourly_usd for each in rounds), default=0) * DELETE_H
    return OVERHEAD_USD + sum(each.bound_usd for each in rounds) + reserve


def choose(first: Round, others: Sequence[Round], budget_usd: float) -> tuple[list[Round], dict[str, str]]:
    """
    Return the rounds that the budget allows, the least expensive first, and for each other one why it is left out.

    Raises:
        PlanError: not even the first is within the budget.
    """
    chosen, left_out = [first], dict[str, str]()
    if (least := total_usd(chosen)) > budget_usd:
        message = f"is below the ${least:.2f} that S3 and DynamoDB alone may cost"
        raise PlanError([Problem("BUDGET", f"{budget_usd:g}", message, f"Give at least {least + 0.005:.2f}.")])
    for each in sorted(others, key=lambda other: other.bound_usd):
        needed = total_usd([*chosen, each])
        if needed <= budget_usd:
            chosen.append(each)
        else:
            left_out[each.name] = f"with it the rehearsal might cost ${needed:.2f}, above the budget of ${budget_usd:g}"
    return chosen, left_out


@dataclass
class Meter:
    """The meter adds up what is spent by estimate: plans when they are started, resources by the clock."""

    budget_usd: float
    fixed_usd: float = OVERHEAD_USD
    hourly_usd: float = 0
    _since_s: float = 0

    def begin(self, hourly_usd: float, now_s: float) -> None:
        """Count from now on at this price, as long as no other is told; while one is deployed, the dearer counts."""
        self.fixed_usd = self.spent_usd(now_s)
        self.hourly_usd, self._since_s = hourly_usd, now_s

    def add(self, usd: float) -> None:
        """Count the estimate of a plan that is started."""
        self.fixed_usd += usd

    def spent_usd(self, now_s: float) -> float:
        """Return what is spent by now."""
        return self.fixed_usd + self.hourly_usd * (now_s - self._since_s) / 3_600

    def seconds_left(self, now_s: float) -> float:
        """Return after how long everything has to be deleted, so that the deletion is within the budget as well."""
        if not self.hourly_usd:
            return float("inf")
        reserve_usd = self.hourly_usd * DELETE_H
        return (self.budget_usd - reserve_usd - self.spent_usd(now_s)) / self.hourly_usd * 3_600

    def allows(self, usd: float, now_s: float) -> bool:
        """Tell whether a plan of this estimate may be started."""
        return self.spent_usd(now_s) + usd + self.hourly_usd * DELETE_H <= self.budget_usd
