"""
Results: what one trial found, and the summary of a run (`summary.json`, a published, versioned contract).

Times inside are integer nanoseconds, except in fields whose names end in `_ms`, `_s`, `_usd`: the summary is the
report, and speaks its units.
"""

from __future__ import annotations

from typing import Any, Literal

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


class Comparison(Contract):
    """
    Trigger latency of window `b` against window `a` of the same trial: across a scaling step, what the step did.

    Intervals are from resampling blocks of time in both windows; where that cannot be had, the estimates say why.
    """

    phase_a: str
    a: str
    phase_b: str
    b: str
    median_shift_ms: Estimate = Field(description="Median of b minus median of a.")
    median_ratio: Estimate
    iqr_ratio: Estimate = Field(description="Interquartile range of b over that of a.")
    tail_ratio: Estimate = Field(description="(p90 / median) of b over the same of a: whether the tail grew more.")


class ChangePoint(Contract):
    """
    Where one series of a phase changes its level most, with the probability of so large a change by chance.

    `achieved_per_s` is what was acknowledged, by t2, in bins of 100 ms; `latency_ms` is trigger latency, medians of
    bins of a second by t0. `at_s` is seconds from the phase's first t0; its value is None where no change is seen.
    """

    phase: str
    series: Literal["achieved_per_s", "latency_ms"]
    at_s: Estimate
    p_value: float | None = Field(default=None, ge=0, le=1, description="None: not judged; `at_s` says why.")
    before: float | None = Field(default=None, description="The series' median before the change.")
    after: float | None = None


class Modality(Contract):
    """Whether a window's trigger latency has more than one mode, on a logarithmic axis (Silverman's test)."""

    window: str
    phase: str
    p_value: float | None = Field(default=None, description="Of one mode; None where `reason` says why it is not told.")
    modes_ms: tuple[float, ...] = Field(default=(), description="Where the modes lie; one if unimodality stands.")
    reason: str | None = None


class BoxStats(Contract):
    """What a box plot draws of a window's trigger latency, in ms; None where it lies in the missing mass."""

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


class Replication(Contract):
    """
    A published number beside ours, for both readings of what the paper measured.

    `ratio` is ours over the published number; its interval is that of ours.
    """

    metric: str = Field(description="As in the plan's `published`: p50, p90, ...")
    window: str
    phase: str
    published_ms: float
    source: str
    latency_ms: Estimate = Field(description="Ours, t4 - t1.")
    after_ack_ms: Estimate = Field(description="Ours, t4 - t2.")
    ratio: Estimate
    ratio_after_ack: Estimate


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
    incomplete: bool = Field(description="Whether anything of the trial is missing; `failure` says why.")
    failure: Failure | None = None
    accounting: Accounting | None = Field(description="Of the measured phases; None if none of them began.")
    warm_up: Accounting | None = Field(default=None, description="The same of the phases with `measured: false`.")
    windows: tuple[WindowResult, ...]
    clock: Clock
    caveats: tuple[Caveat, ...]
    invocations: tuple[Invocations, ...] = ()
    comparisons: tuple[Comparison, ...] = Field(default=(), description="Each measured window against the one before.")
    change_points: tuple[ChangePoint, ...] = Field(default=(), description="Of phases with more than one load step.")
    modality: tuple[Modality, ...] = ()
    replication: tuple[Replication, ...] = ()
    cost_usd: Cost
    floor_ms: Latency | None = Field(
        default=None, description="Locally: the emulator's asynchronous-invoke floor, measured in the same run."
    )
    group: str = Field(default="", description="What the repeats of one trial have in common; empty for its name.")
    repeat: int = Field(default=0, ge=0, description="Number within the group, from 0.")
    point: dict[str, Any] = Field(default={}, description="The matrix values of this trial, by dotted path.")


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
    boxes: tuple[BoxStats, ...] = ()
    rates: tuple[RateBins, ...] = Field(default=(), description="Of phases with more than one load step.")


class GroupWindow(Contract):
    """
    Trigger latency in ms of one window over the repeats of a trial: geometric means of the runs' own quantiles.

    `median_ratio` is the median over that of the first group with such a window, which has none itself.
    """

    window: str
    phase: str
    runs: int = Field(ge=0, description="How many repeats went through whole; the others are not in it.")
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate
    median_ratio: Estimate | None = None


class GroupResult(Contract):
    """The repeats of one trial, or of one point of its matrix."""

    name: str
    trials: tuple[int, ...] = Field(description="Their indexes.")
    point: dict[str, Any] = Field(default={}, description="Their matrix values, by dotted path.")
    windows: tuple[GroupWindow, ...]


class RunSummary(Contract):
    """`summary.json`."""

    schema_: int = Field(default=SUMMARY_SCHEMA, alias="schema")
    run_id: str
    plan: str
    status: Literal["succeeded", "failed", "stopped"]
    started_at: str = Field(description="ISO 8601, UTC.")
    finished_at: str
    trials: tuple[TrialSummary, ...]
    shares: tuple[TriggerShare, ...] = Field(default=(), description="Of the plan's `applications`.")
    groups: tuple[GroupResult, ...] = Field(default=(), description="Of plans with repeats or a matrix; as listed.")


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
