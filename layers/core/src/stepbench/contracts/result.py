"""
Results: what one trial found, and the summary of a run (`summary.json`, a published, versioned contract).

Times inside are integer nanoseconds, except in fields whose names end in `_ms`, `_s`, `_usd`: the summary is the
report, and speaks its units.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from stepbench.contracts.across_trials import ClockCheck, GroupResult, ScalingCurve, TriggerShare, Verdict
from stepbench.contracts.base import Contract, drop_field
from stepbench.contracts.chart_data import (
    BoxStats,
    EcdfCurve,
    HandlerPoint,
    PhaseSpan,
    RateBins,
    SeriesPoint,
    StallSpan,
    WindowSample,
)
from stepbench.contracts.cost import Cost, PerDollar, RunCost
from stepbench.contracts.dataflow.report import DagReplication, DataflowChartData, MediumAnswer
from stepbench.contracts.dataflow.result import DataflowFindings
from stepbench.contracts.documents import Failure
from stepbench.contracts.experiment import ExperimentName
from stepbench.contracts.findings import (
    ChangePoint,
    Clock,
    Comparison,
    FoundRate,
    Modality,
    Replication,
    SlowSpells,
    StoppedPhase,
    TrialReplication,
)
from stepbench.contracts.invocations import FunctionMetrics, Invocations
from stepbench.contracts.measures import Latency, WindowResult
from stepbench.contracts.thresholds import Judge, ThresholdResult
from stepbench.contracts.transfer.result import TransferChartData, TransferFindings

SUMMARY_SCHEMA = 2
Scalar = str | int | float | bool | None


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
        "filter_leaked",
        "rate_not_found",
        "utilisation_unknown",
        "utilisation_missed",
        "not_sure",
        "other_sandbox",
        "stalls_hidden",
        "failed_outcomes",
        "store_stalled",
        "host_jitter",
        "watch_gap",
        "platform_times",
        "coarse_times",
        "unpaired_events",
        "setting_without_effect",
        "failed_executions",
        "missing_objects",
        "retried_tasks",
        "slow_machine",
        "fell_behind",
        "latency_drift",
        "dependent_sample",
        "left_in_store",
        "handler_errors",
        "never_processed",
        "processed_twice",
        "throttled",
    ]
    text: str
    remedy: str
    windows: tuple[int, ...] | None = Field(
        default=None, description="Places, in the trial's `windows`, of those that it is about; None: of all of them."
    )
    setting: str = Field(default="", description="Dotted path of the setting that took no effect, if it is about one.")

    def is_about(self, place: int) -> bool:
        """Return whether it is about the window at this place."""
        return self.windows is None or place in self.windows


class Accounting(Contract):
    """
    Where every event went. offered = sent + unsent + unrecorded; sent = ok + failed + unknown.

    `*_arrived` say how many of each arrived by the drain limit; lost = ok - ok_arrived - held_back - cut_off.
    `received` = ok_arrived + failed_arrived + unknown_arrived + unrecorded_arrived (each event once).
    Of a measured function: received = processed + failed_in_handler + cut_off_in_handler; None and 0 of others.
    Operations have nothing to arrive: all that is about arrivals is 0 for them, `lost` too.
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
    held_back: int = Field(
        default=0, ge=0, description="Acknowledged, not to pass the trigger's filter, and not arrived: as it should be."
    )
    leaked: int = Field(default=0, ge=0, description="Of those that arrived: not to pass the filter.")
    cut_off: int = Field(default=0, ge=0, description="Acknowledged, not arrived when a stopped trial ended.")
    watch_gap: int = Field(default=0, ge=0, description="Of those that arrived: acknowledged while nobody watched.")
    unpaired: int = Field(
        default=0,
        ge=0,
        description="Of those that arrived: by one of several invocations, nobody knows which, so without a latency.",
    )
    duplicates: int = Field(
        ge=0,
        description="Arrivals of an event after its first, Lambda retries included; in a measured function only those "
        "that processed it again.",
    )
    retried: int = Field(default=0, ge=0, description="Of the duplicates: same request id, so Lambda's own retry.")
    out_of_order: int = Field(ge=0, description="First arrivals with a smaller sequence than one before, per writer.")
    late: int = Field(default=0, ge=0, description="Arrived, but after the drain limit: counted as not arrived.")
    processed: int | None = Field(
        default=None,
        ge=0,
        description="Of those that arrived: a measured function had processed them by the drain limit.",
    )
    failed_in_handler: int = Field(
        default=0, ge=0, description="Of those that arrived: it had not processed them by the drain limit."
    )
    cut_off_in_handler: int = Field(
        default=0, ge=0, description="Of those that arrived: not processed when a stopped trial ended."
    )
    processed_twice: int = Field(default=0, ge=0, description="Processings of an event after its first.")
    unmatched: int = Field(default=0, ge=0, description="Arrivals that name no event of this trial.")
    malformed: int = Field(default=0, ge=0)
    canaries: int = Field(default=0, ge=0)
    awaited: bool = Field(default=True, description="Whether what is acknowledged has to arrive: not of operations.")


class TrialSummary(Contract):
    """One trial, as `summary.json` shows it."""

    name: str
    index: int
    experiment: ExperimentName = "trigger"
    store: str
    provider: str
    load_hosts: tuple[str, ...] = Field(
        default=(), description="What writers ran on; empty where they ran in Lambda's sandboxes, or none began."
    )
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
    found_rate: FoundRate | None = None
    stopped: tuple[StoppedPhase, ...] = Field(default=(), description="Of phases with `until`.")
    cost_usd: Cost
    floor_ms: Latency | None = Field(
        default=None,
        description="Locally: of a bare trigger (etcd: a put and its watch), before the trials; no lower bound.",
    )
    slow_spells: SlowSpells | None = Field(
        default=None,
        description="Of what the load came from: locally this machine's first and last core before the trials, on AWS "
        "the writers' sandboxes before their slices; None where nobody looked.",
    )
    group: str = Field(default="", description="What the repeats of one trial have in common; empty for its name.")
    base: str = Field(
        default="",
        description="Its name in the plan, before matrix and repeats, or its store's; empty where that varies.",
    )
    repeat: int = Field(default=0, ge=0, description="Number within the group, from 0.")
    function: str = Field(default="", description="Of a measured function: its name, or its handler.")
    function_metrics: FunctionMetrics | None = Field(
        default=None, description="Of a measured function, by CloudWatch; None where that has none, as on emulators."
    )
    removed: tuple[str, ...] = Field(default=(), description="What its tear-down has removed from the store.")
    point: dict[str, Any] = Field(default={}, description="The matrix values of this trial, by dotted path.")
    transfers: TransferFindings | None = Field(default=None, description="Of the experiment `transfer` only.")
    dataflow: DataflowFindings | None = Field(default=None, description="Of the experiment `dataflow` only.")
    stand_ins: dict[str, str] = Field(
        default={},
        description="What was measured in place of AWS's: of `transfer` by platform and source, of a real store whose "
        "events ended in an emulator's functions as `lambda`.",
    )
    setup: dict[str, Scalar] = Field(
        default={},
        description="What of its plan can make its numbers differ from another trial's, by dotted path, measured "
        "phases by name; what has its default is left out, save TLS, cluster, region, reuse, writers and arrivals.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Pass over published numbers of transfers as the plan has them, which findings have with ours beside."""
        return drop_field(fields, "published_transfers")

    @property
    def sides(self) -> str:
        """Name the store, and what loaded it where that was a host."""
        return f"{self.provider}; load from {' and '.join(self.load_hosts)}" if self.load_hosts else self.provider

    @property
    def skipped(self) -> bool:
        """Return whether it was not to run where the run was started."""
        return any(caveat.kind == "skipped" for caveat in self.caveats)


class TrialResult(Contract):
    """Everything that the report shows of one trial. Stored as `runs/<run>/trials/<n>/result.json`."""

    summary: TrialSummary
    series: tuple[SeriesPoint, ...]
    phases: tuple[PhaseSpan, ...]
    ecdf: tuple[EcdfCurve, ...]
    stalls: tuple[StallSpan, ...] = Field(default=(), description="Of the store; of very many the longest.")
    boxes: tuple[BoxStats, ...] = ()
    rates: tuple[RateBins, ...] = Field(default=(), description="Of phases with more than one load step.")
    samples: tuple[WindowSample, ...] = Field(default=(), description="Of DynamoDB's windows up to 1,000 events.")
    handler: tuple[HandlerPoint, ...] = Field(default=(), description="Of a measured function.")
    transfers: TransferChartData | None = Field(default=None, description="Of the experiment `transfer` only.")
    dataflow: DataflowChartData | None = Field(default=None, description="Of the experiment `dataflow` only.")


class RunSummary(Contract):
    """`summary.json`."""

    schema_: int = Field(default=SUMMARY_SCHEMA, alias="schema")
    run_id: str
    plan: str
    question: str = Field(default="", description="As the plan asks it; empty where it does not.")
    description: str = Field(default="", description="The plan's.")
    status: Literal["succeeded", "failed", "stopped"]
    verdict: Literal["passed", "failed", "undecided"] | None = Field(
        default=None,
        description="`failed` if a threshold was missed or the run did not succeed, otherwise `undecided` if one is "
        "undecidable, or else `passed`; None: of an older version.",
    )
    thresholds: tuple[ThresholdResult, ...] = Field(
        default=(),
        description="Of each in the plan every window that it is about: missed ones first, the worst of them before "
        "the others, then the undecidable ones.",
    )
    judge: Judge | None = Field(
        default=None, description="What the plan is judged by; None: by latency's quantiles, the median first."
    )
    started_at: str = Field(description="ISO 8601, UTC.")
    finished_at: str
    trials: tuple[TrialSummary, ...]
    shares: tuple[TriggerShare, ...] = Field(default=(), description="Of the plan's `applications`.")
    clock_checks: tuple[ClockCheck, ...] = Field(default=(), description="Of pairs with and without same_sandbox.")
    groups: tuple[GroupResult, ...] = Field(default=(), description="Of plans with repeats or a matrix; as listed.")
    scaling: tuple[ScalingCurve, ...] = Field(
        default=(), description="Of operations trials that differ in clients only, and what grows with them."
    )
    verdicts: tuple[Verdict, ...] = Field(
        default=(), description="Of each comparison that the plan makes: settings, stores, trials by name, windows."
    )
    cost_usd: RunCost | None = Field(default=None, description="None in summaries of older versions.")
    per_dollar: tuple[PerDollar, ...] = Field(
        default=(), description="Of windows whose store's and trigger's dollars are known, and whose median is."
    )
    media: tuple[MediumAnswer, ...] = Field(default=(), description="Of DAGs that several stores had.")
    published_dags: tuple[DagReplication, ...] = Field(default=(), description="What was published of DAGs.")
    published_ratios: tuple[TrialReplication, ...] = Field(
        default=(), description="What was published of one trial's latency over another's."
    )
    not_compared: str = Field(
        default="", description="Which stores there is no verdict about, since an emulator played them; empty: none."
    )
    verdicts_left_out: int = Field(default=0, ge=0, description="How many further comparisons have no verdict here.")

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Pass over comparisons of settings, which verdicts have instead; what is undecided had passed once."""
        found = drop_field(fields, "settings")
        if isinstance(found, dict) and found.get("verdict") == "passed":
            judged = (each for each in found.get("thresholds", ()) if isinstance(each, dict))
            if any(each.get("state") == "undecidable" for each in judged):
                return {**found, "verdict": "undecided"}
        return found
