"""What a run finds across its trials: groups of repeats, curves over the number of clients, shares of applications."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract, drop_field
from stepbench.contracts.measures import Estimate


class TriggerShare(Contract):
    """
    How much of an application's time its triggers take, each at its median; the functions take `compute_ms`.

    Estimates: share from 0 to 1; trigger latency of the whole chain in ms.
    """

    application: str
    source: str
    trial: str = Field(description="The trial whose latency stands for `measured` triggers; empty for none.")
    trials: tuple[str, ...] = Field(default=(), description="All trials whose latencies are in it.")
    triggers: int = Field(ge=1)
    compute_ms: float = Field(gt=0)
    trigger_ms: Estimate
    share: Estimate


class GroupWindow(Contract):
    """Latency in ms of one window over the repeats of a trial: geometric means of the runs' own quantiles."""

    window: str
    phase: str
    runs: int = Field(ge=0, description="How many repeats went through whole; the others are not in it.")
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Pass over the ratio to the first group, which verdicts have instead."""
        return drop_field(fields, "median_ratio")


class GroupResult(Contract):
    """The repeats of one trial, or of one point of its matrix."""

    name: str
    trials: tuple[int, ...] = Field(description="Their indexes.")
    point: dict[str, Any] = Field(default={}, description="Their matrix values, by dotted path.")
    windows: tuple[GroupWindow, ...]


class ScalingPoint(Contract):
    """One number of clients of a scaling curve; throughput in acknowledged operations a second."""

    clients: int
    trials: tuple[int, ...] = Field(description="Their indexes.")
    throughput_per_s: float
    fitted_per_s: float | None
    kept_runs: int = Field(
        ge=0, description="In how many of them the generator did not hold its clients back: those fitted."
    )
    saturated: bool = Field(description="In none of them, so that the point is the generator's as much as the store's.")


class ScalingCurve(Contract):
    """
    Throughput over the number of clients, with the Universal Scalability Law fitted to it.

    X(N) = rate N / (1 + contention (N - 1) + coherency N (N - 1)). `knee`: where it is largest. Estimates are None with
    a reason where there are too few points.
    """

    name: str = Field(
        description="What the trials' names have in common, with what distinguishes them from another curve's."
    )
    window: str
    phase: str
    points: tuple[ScalingPoint, ...]
    rate_per_s: Estimate = Field(description="Of one client.")
    contention: Estimate
    coherency: Estimate
    knee_clients: Estimate
    peak_per_s: Estimate
    generator_limit_per_s: float | None = Field(
        description="The most that was achieved beyond the last number of clients with a run in which the generator "
        "did not hold them back; None where nothing lies beyond, or such a run achieved more."
    )
