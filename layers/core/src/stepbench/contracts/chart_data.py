"""The data of a trial's charts: series, curves, boxes, samples, and positions of phases on the time axis."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract


class BoxStats(Contract):
    """What a box plot draws of a window's latency, in ms; None where it lies in the missing mass."""

    window: str
    phase: str
    n: int
    p1: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p99: float | None


class RateBins(Contract):
    """A phase's events in bins of `bin_s` from its first t0: due (by t0), sent (by t1), acknowledged (by t2)."""

    phase: str
    bin_s: float
    offered: tuple[int, ...]
    sent: tuple[int, ...]
    acknowledged: tuple[int, ...]


class SeriesPoint(Contract):
    """One second of a phase, by t0: how many events were due, and what became of them."""

    second: float = Field(description="Where it begins: seconds from the trial's first t0.")
    phase: str
    offered: int
    acknowledged: int
    not_matching: int = Field(default=0, ge=0, description="Of the acknowledged: not to pass the trigger's filter.")
    watch_gap: int = Field(
        default=0, ge=0, description="Of those to pass: without latency, since nobody watched or they are not paired."
    )
    arrived: int
    p50_ms: float | None
    p90_ms: float | None
    max_ms: float | None


class HandlerPoint(Contract):
    """One second of a measured function: invocations that ran at once, at most, and those that began in it."""

    second: float = Field(description="Where it begins: seconds from the trial's first t0.")
    at_once: int
    began: int
    failed: int = Field(description="Of those that began: not all of their records were processed.")


class StepSpan(Contract):
    """One load step of a phase, in seconds from the phase's start."""

    rate_per_s: float
    from_s: float
    to_s: float


class WindowSpan(Contract):
    """One window of a phase, in seconds from the phase's start."""

    name: str
    from_s: float
    to_s: float


class PhaseSpan(Contract):
    """Where a phase lies on the trial's time axis, in seconds from the trial's first t0."""

    name: str
    measured: bool
    from_s: float
    to_s: float
    steps: tuple[StepSpan, ...] = Field(default=(), description="Its load, one step after the other.")
    windows: tuple[WindowSpan, ...] = Field(default=(), description="What is analysed of it.")


class StallSpan(Contract):
    """A stretch in which the store answered nothing, in seconds from the trial's first t0."""

    phase: str
    from_s: float
    to_s: float
    in_flight: int = Field(ge=0, description="Requests that waited at its end.")
    events: int = Field(ge=0, description="These, and what was due and could not be sent.")


class EcdfCurve(Contract):
    """
    Empirical distribution of a window's latency, thinned to at most some hundred points.

    `latency_ms` ascends; `probability[i]` is the share of *all* acknowledged events at or below it, so a curve
    with losses ends below 1.
    """

    window: str
    phase: str
    latency_ms: tuple[float, ...]
    probability: tuple[float, ...]


class WindowSample(Contract):
    """
    A small window's values, one by one, by ascending t0; None = not arrived by the drain limit.

    at_s: seconds from the window's start. same_sandbox: whether the sandbox that wrote also received, where known.
    """

    window: str
    phase: str
    length_s: float
    at_s: tuple[float, ...]
    latency_ms: tuple[float | None, ...]
    after_ack_ms: tuple[float | None, ...]
    same_sandbox: tuple[bool, ...] | None = None
