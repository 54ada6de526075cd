"""
Results: what one trial found, and the summary of a run (`summary.json`, a published, versioned contract).

Times inside are integer nanoseconds, except in fields whose names end in `_ms`, `_s`, `_usd`: the summary is the
report, and speaks its units.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract

SUMMARY_SCHEMA = 1


class Caveat(Contract):
    """A doubt about a number, printed beside it."""

    kind: Literal[
        "emulated",
        "saturated_generator",
        "short_sample",
        "clock_unmeasured",
        "clock_drift",
        "lost_events",
        "unknown_outcomes",
        "unrecorded",
        "unsent",
        "duplicates",
        "malformed_events",
        "missing_writer",
        "missing_logs",
        "t4_in_fallback",
        "incomplete",
        "filtered",
        "batching_window_ignored",
        "skipped",
        "cold_starts",
        "canaries_lost",
        "log_disagreement",
    ]
    text: str
    remedy: str


class Estimate(Contract):
    """
    A number with its 95 % confidence interval, or the reason why there is none.

    `value` is None (with a `reason`) where the sample is too small, or where the quantile falls in the mass that
    had not arrived by the drain limit; then `reason` begins with "> drain limit".
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Latency(Contract):
    """One latency measure over one window, in milliseconds. `missing` of the `n` events have no finite value."""

    n: int = Field(ge=0)
    missing: int = Field(default=0, ge=0)
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate
    p999: Estimate
    min: float | None
    mean: float | None
    max: float | None


class Accounting(Contract):
    """
    Where every event went. offered = sent + unsent + unrecorded; sent = ok + failed + unknown.

    `*_arrived` say how many of each arrived by the drain limit; lost = ok - ok_arrived.
    `received` = ok_arrived + failed_arrived + unknown_arrived + unrecorded_arrived (each event once).
    """

    offered: int = Field(ge=0)
    sent: int = Field(ge=0)
    unsent: int = Field(ge=0)
    unrecorded: int = Field(ge=0)
    ok: int = Field(ge=0)
    failed: int = Field(ge=0)
    unknown: int = Field(ge=0)
    ok_arrived: int = Field(ge=0)
    failed_arrived: int = Field(ge=0)
    unknown_arrived: int = Field(ge=0)
    unrecorded_arrived: int = Field(ge=0)
    received: int = Field(ge=0)
    lost: int = Field(ge=0)
    duplicates: int = Field(ge=0, description="Arrivals of an event after its first, Lambda retries included.")
    retried: int = Field(default=0, ge=0, description="Of the duplicates: same request id, so Lambda's own retry.")
    out_of_order: int = Field(ge=0, description="First arrivals with a smaller sequence than one before, per writer.")
    late: int = Field(default=0, ge=0, description="Arrived, but after the drain limit: counted as not arrived.")
    unmatched: int = Field(default=0, ge=0, description="Arrivals that name no event of this trial.")
    malformed: int = Field(default=0, ge=0)
    canaries: int = Field(default=0, ge=0)


class WindowResult(Contract):
    """One measured window of one phase."""

    name: str
    phase: str
    n: int = Field(ge=0, description="Acknowledged events whose t0 lies in the window.")
    offered_per_s: float
    achieved_per_s: float
    latency_ms: Latency = Field(description="Trigger latency, t4 - t1.")
    after_ack_ms: Latency = Field(description="t4 - t2; may be negative.")
    response_write_ms: Latency = Field(description="t2 - t0.")
    response_trigger_ms: Latency = Field(description="t4 - t0.")
    service_ms: Latency = Field(description="t2 - t1.")
    lateness_ms: Latency = Field(description="t1 - t0.")


class Clock(Contract):
    """Receiver clock minus writer clock, with its error bound; None where unmeasured."""

    offset_ms: float | None
    bound_ms: float | None
    text: str = ""


class Cost(Contract):
    """US dollars from request counts and the dated price table."""

    estimate: float = Field(ge=0)
    actual: float | None = Field(default=None, ge=0)


class Invocations(Contract):
    """What the REPORT lines and the receivers themselves say of one function during the trial."""

    function: str
    invocations: int = Field(ge=0)
    cold_starts: int = Field(ge=0)
    init_ms_p50: float | None = None
    init_ms_max: float | None = None
    duration_ms_p50: float | None = None
    duration_ms_max: float | None = None
    billed_ms: float = Field(default=0, ge=0)
    max_memory_mb: int | None = None


class Failure(Contract):
    """Why a trial ended badly: the error's class name, and its message."""

    error: str
    cause: str


class TrialSummary(Contract):
    """One trial, as `summary.json` shows it."""

    name: str
    index: int
    store: str
    provider: str
    emulated: bool
    incomplete: bool
    failure: Failure | None = None
    accounting: Accounting | None = Field(description="Of the measured phases; None if none of them began.")
    warm_up: Accounting | None = Field(default=None, description="The same of the phases with `measured: false`.")
    windows: tuple[WindowResult, ...]
    clock: Clock
    caveats: tuple[Caveat, ...]
    invocations: tuple[Invocations, ...] = ()
    cost_usd: Cost
    floor_ms: Latency | None = Field(
        default=None, description="Locally: the emulator's asynchronous-invoke floor, measured in the same run."
    )


class SkippedTrial(Contract):
    """A trial of the plan that was left out, because its store could not start where the run was started."""

    name: str
    store: str
    reason: str


class SkippedTrials(Contract):
    """`runs/<run>/skipped.json`."""

    trials: tuple[SkippedTrial, ...]


class SeriesPoint(Contract):
    """One second of a phase, by t0: how many events were due, and what became of them."""

    second: float = Field(description="Where it begins: seconds from the trial's first t0.")
    phase: str
    offered: int
    acknowledged: int
    arrived: int
    p50_ms: float | None
    p90_ms: float | None
    max_ms: float | None


class PhaseSpan(Contract):
    """Where a phase lies on the trial's time axis, in seconds from the trial's first t0."""

    name: str
    measured: bool
    from_s: float
    to_s: float


class EcdfCurve(Contract):
    """
    Empirical distribution of a window's trigger latency, thinned to at most some hundred points.

    `latency_ms` ascends; `probability[i]` is the share of *all* acknowledged events at or below it, so a curve
    with losses ends below 1.
    """

    window: str
    phase: str
    latency_ms: tuple[float, ...]
    probability: tuple[float, ...]


class TrialResult(Contract):
    """Everything that the report shows of one trial. Stored as `runs/<run>/trials/<n>/result.json`."""

    summary: TrialSummary
    series: tuple[SeriesPoint, ...]
    phases: tuple[PhaseSpan, ...]
    ecdf: tuple[EcdfCurve, ...]


class RunSummary(Contract):
    """`summary.json`."""

    schema_: int = Field(default=SUMMARY_SCHEMA, alias="schema")
    run_id: str
    plan: str
    status: Literal["succeeded", "failed", "stopped"]
    started_at: str = Field(description="ISO 8601, UTC.")
    finished_at: str
    trials: tuple[TrialSummary, ...]


class Manifest(Contract):
    """`manifest.json`: what a reader needs to trust or repeat the run."""

    run_id: str
    stepbench_version: str
    code_sha256: str
    libraries: dict[str, str]
    region: str
    runtime: str
    architecture: str
    emulated: bool
    price_table_date: str
    functions: dict[str, dict[str, str | int]]
    stores: dict[str, str]
    sandboxes: int
