"""A store's capacity, the metric that says how busy it is, and the delays that the reference store draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, Contract, RuledContract

if TYPE_CHECKING:
    from collections.abc import Iterator


class ConstantDelay(Contract):
    """Always the same."""

    kind: Literal["constant"]
    ms: float = Field(ge=0, le=60_000)


class BimodalDelay(Contract):
    """One of two, with a normal scatter of 2 % around each."""

    kind: Literal["bimodal"]
    low_ms: float = Field(ge=0, le=60_000)
    high_ms: float = Field(ge=0, le=60_000)
    high_share: float = Field(gt=0, lt=1)


class ParetoDelay(Contract):
    """A heavy tail: at least `scale_ms`, with P(delay > x) = (scale / x) ** shape, cut at 10 s."""

    kind: Literal["pareto"]
    scale_ms: float = Field(gt=0, le=10_000)
    shape: float = Field(gt=0.5, le=20)


class StallDelay(Contract):
    """`base_ms`, but the store stands still for `stall_ms` every `every_s`: what falls into it comes at its end."""

    kind: Literal["stalls"]
    base_ms: float = Field(ge=0, le=60_000)
    stall_ms: float = Field(gt=0, le=60_000)
    every_s: float = Field(gt=0, le=3_600)


Delay = Annotated[ConstantDelay | BimodalDelay | ParetoDelay | StallDelay, Field(discriminator="kind")]


SHORT_PERIODS_S = (1, 5, 10, 20, 30)
"""That metrics of high resolution may have; all others are of whole minutes."""


class Metric(RuledContract):
    """
    A metric in CloudWatch; its averages over whole periods count.

    With several sets of dimensions (one a server of a cluster) the busiest counts.
    """

    namespace: str = Field(min_length=1, max_length=255)
    metric: str = Field(min_length=1, max_length=255)
    dimensions: tuple[dict[str, str], ...] = Field(min_length=1, max_length=30)
    period_s: int = Field(default=60, ge=1, le=3_600)
    full: float = Field(default=100, gt=0, description="The value at which all of it is used.")

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.period_s not in SHORT_PERIODS_S and self.period_s % 60:
            remedy = f"Make it one of {', '.join(map(str, SHORT_PERIODS_S))}, or whole minutes."
            yield BrokenRule("period_s", f"is {self.period_s}, which CloudWatch has no statistics for", remedy)


class ProvisionedCapacity(Contract):
    """Read and write units that the table is created with, or scaled to."""

    mode: Literal["provisioned"] = "provisioned"
    read_units: int = Field(default=5, ge=1, le=40_000)
    write_units: int = Field(ge=1, le=40_000)


class OnDemandCapacity(Contract):
    """Pay per request, optionally pre-warmed."""

    mode: Literal["on_demand"] = "on_demand"
    warm_write_units: int | None = Field(default=None, ge=4_000, le=1_000_000)


class AutoscaledCapacity(RuledContract):
    """Provisioned write units that Application Auto Scaling moves between two bounds; read units stay."""

    mode: Literal["autoscaled"]
    read_units: int = Field(default=5, ge=1, le=40_000)
    min_write_units: int = Field(ge=1, le=40_000)
    max_write_units: int = Field(ge=1, le=40_000)
    target_utilisation_percent: int = Field(default=70, ge=20, le=90)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        return _bound_rules("write_units", self.min_write_units, self.max_write_units)


class ServerlessCapacity(RuledContract):
    """Between which bounds Aurora Serverless v2 moves, in ACU (halves). Torn down to what it was before."""

    mode: Literal["serverless_v2"]
    min_acu: float = Field(ge=0.5, le=256, multiple_of=0.5)
    max_acu: float = Field(ge=1, le=256, multiple_of=0.5)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        return _bound_rules("acu", self.min_acu, self.max_acu)


def _bound_rules(of: str, low: float, high: float) -> Iterator[BrokenRule]:
    if high < low:
        yield BrokenRule(f"max_{of}", f"is below min_{of} ({low:g})", f"Raise max_{of} or lower min_{of}.")


TableCapacity = Annotated[ProvisionedCapacity | OnDemandCapacity | AutoscaledCapacity, Field(discriminator="mode")]


Capacity = Annotated[
    ProvisionedCapacity | OnDemandCapacity | AutoscaledCapacity | ServerlessCapacity, Field(discriminator="mode")
]
