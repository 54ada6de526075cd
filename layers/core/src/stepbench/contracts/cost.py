"""What a trial and a run cost: an estimate, what was counted afterwards, and what could not be known."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract

Part = Literal["store", "trigger", "load", "control", "records"]
"""
What dollars are spent on: what the store bills; invocations that its trigger makes, or watchers; writers; the functions
and states around them; the results table, the results bucket and logs.
"""
PARTS: tuple[Part, ...] = ("store", "trigger", "load", "control", "records")


class CostItem(Contract):
    """A number of units of one thing at its list price."""

    part: Part
    item: str
    unit: str
    quantity: float = Field(ge=0)
    unit_price_usd: float = Field(ge=0)
    usd: float = Field(ge=0, description="quantity x unit_price_usd.")
    note: str = Field(default="", description="What the quantity rests on, where it is not a plain count.")


class Cost(Contract):
    """US dollars at list prices: before the trial from its plan, after it from what was counted."""

    estimate: float = Field(ge=0)
    actual: float | None = Field(default=None, ge=0, description="Sum of the items; None where nothing was counted.")
    charged: float | None = Field(
        default=None,
        ge=0,
        description="What counts against budgets: the actual cost or, where something that the stack pays is not "
        "known, the estimate if that is more. None where nothing was counted: the estimate.",
    )
    items: tuple[CostItem, ...] = Field(default=(), description="Of `actual`; empty in summaries of older versions.")
    left_out: tuple[str, ...] = Field(default=(), description="What was spent beside the items, and is not known.")
    incomplete: tuple[Part, ...] = Field(default=(), description="Parts of which something is left out.")
    emulated: bool = Field(default=False, description="On an emulator: prices of AWS, for what was done there.")
    prices: str = Field(default="", description="Region and date of the prices.")

    def of(self, *parts: Part) -> float:
        """Return the dollars of some parts."""
        return sum(item.usd for item in self.items if item.part in parts)


class RunCost(Cost):
    """All trials' costs, and what belongs to the run alone."""

    idle: tuple[CostItem, ...] = Field(
        default=(),
        description="Of what the stack pays by the hour: the hours of the run in which none of its trials held it. "
        "Not in `actual`: they would have been paid without the run.",
    )


class PerDollar(Contract):
    """
    Performance per dollar of one window: 1 / latency / dollars, in 1 / (seconds x dollars).

    It is compared only within `group`: trials of the run with the same work, all on emulators or none.
    """

    trial: int
    phase: str
    window: str
    latency_s: float = Field(gt=0, description="The window's median.")
    usd: float = Field(gt=0, description="Of the store and its trigger, in the whole trial.")
    value: float
    low: float = Field(description="From the upper end of the median's 95 % interval.")
    high: float
    group: int
    times_worst: float | None = Field(
        default=None,
        description="Its trial's repeats over those with the lowest value of its group; None where nothing else did "
        "the same work, and 1 of the lowest themselves.",
    )
    times_low: float | None = Field(default=None, description="95 % interval of `times_worst`, unless that is 1.")
    times_high: float | None = None
