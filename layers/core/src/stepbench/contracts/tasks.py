"""
What goes into and comes out of each Task state and entry point, one pair per function.

States pass keys, never data: everything big lives in the results bucket under `TrialRef`'s keys.
"""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract
from stepbench.contracts.custom_resource import BootstrapDsqlInput, BootstrapDsqlOutput  # noqa: F401 -- see there
from stepbench.contracts.result import Failure

FLAGS_LIVE_S = 90 * 86_400
"""Longer than any trial: a flag that expired under a running writer would set it free."""


class TrialRef(Contract):
    """Names one trial of one run; `tag` is its namespace (see `identity`)."""

    run_id: str
    trial: int = Field(ge=0, le=0xFFFF)
    tag: str


class StateError(Contract):
    """What a Catch stores (`Error`, `Cause`), plus the failures of later stages. Empty `Error`: nothing failed."""

    Error: str = ""
    Cause: str = ""
    collect_logs: dict[str, Any] | None = None
    analyse_trial: dict[str, Any] | None = None
    export_records: dict[str, Any] | None = None

    def failure(self) -> Failure | None:
        """The first failure, or None."""
        return Failure(error=self.Error, cause=self.Cause) if self.Error else None


# --- benchmark machine ---------------------------------------------------------------------------------------


class ValidatePlanInput(Contract):
    """`plan` is the execution's input as the user gave it: not yet valid."""

    plan: Any
    run_id: str = Field(min_length=1, max_length=80)
    started_at: AwareDatetime


class PhaseRef(Contract):
    """What the trial machine's states need to know of a phase."""

    index: int
    settle_s: int = Field(description="Whole seconds, rounded up: `SecondsPath` takes no fraction.")
    scale: bool
    until: bool = Field(default=False, description="Whether CheckPrecision is asked while load is offered.")
    utilisation: bool = Field(default=False, description="Whether MeasureUtilisation is asked once it has ended.")


class PlannedTrial(Contract):
    """One iteration of `RunTrials`. `child_name` is the child execution's name, under 80 characters."""

    ref: TrialRef
    name: str
    child_name: str
    pull: bool
    phases: tuple[PhaseRef, ...]


class ValidatePlanOutput(Contract):
    """The expanded plan, by keys."""

    run_id: str
    started_at: AwareDatetime
    trials: tuple[PlannedTrial, ...]
    estimate_usd: float


class TrialOutcome(Contract):
    """How one child execution ended, as `RunTrials` collects it; `error` is empty for a success."""

    trial: int
    error: str = ""


class RenderReportInput(Contract):
    """All trials' outcomes. `stopped` is set by the sweeper's and the command line's own renderings."""

    run_id: str
    started_at: AwareDatetime
    outcomes: tuple[TrialOutcome, ...]
    stopped: bool = False


class RenderReportOutput(Contract):
    """The execution's output: headline and where to find the rest. Stays far below 256 KiB."""

    run_id: str
    status: str
    failed_trials: tuple[str, ...]
    cause: str
    headline: tuple[str, ...] = Field(description="One line a trial: name, n, p50 with interval, lost.")
    report: str = Field(description="s3:// address of report.html.")
    summary: str = Field(description="s3:// address of summary.json.")


# --- trial machine -------------------------------------------------------------------------------------------


class PrepareTargetInput(Contract):
    """Take the lease, make the store ready (idempotent)."""

    ref: TrialRef
    execution_arn: str


class PrepareTargetOutput(Contract):
    """Prepared; delivery is proved by `AwaitTarget`. `lanes`: the watch branch's Map items, empty for push."""

    lanes: tuple[int, ...]
    ready_by: AwareDatetime = Field(description="AwaitTarget gives up after this.")
    flags_expire_at: int = Field(
        default_factory=lambda known: int(known["ready_by"].timestamp()) + FLAGS_LIVE_S,
        description="Seconds since the epoch: TTL of the flags that the state machine itself sets in the table.",
    )


class AwaitTargetInput(Contract):
    """Send canaries and look for them. For pull triggers, first wait for the watcher's heartbeat."""

    ref: TrialRef
    ready_by: AwareDatetime


class AwaitTargetOutput(Contract):
    """`ready`: three canaries in a row arrived. Raises TargetUnavailableError after `ready_by`."""

    ready: bool


class WatchChangesInput(Contract):
    """One turn of one of the two lanes (0, 1) that take turns at holding the watch."""

    ref: TrialRef
    lane: int = Field(ge=0, le=1)


class WatchChangesOutput(Contract):
    """`stopped`: the flag was seen. Otherwise call again at `next_at`."""

    stopped: bool
    next_at: AwareDatetime


class ScaleTargetInput(Contract):
    """Bring the store to the phase's capacity; called until `done`."""

    ref: TrialRef
    phase: int


class ScaleTargetOutput(Contract):
    """`done`: the store reports the capacity as active."""

    done: bool


class PlanPhaseInput(Contract):
    """Fix the phase's absolute start and write the Map's items."""

    ref: TrialRef
    phase: int


class WriterItem(Contract):
    """One item of `OfferLoad`'s Map: one slice of one writer's work."""

    ref: TrialRef
    phase: int
    writer: int
    slice: int
    start_at_ns: int = Field(description="The slice's time zero, ns since the epoch.")
    wait_until: str = Field(description="ISO 8601 for the child's Wait: `start_at` less the lead.")


class PlanPhaseOutput(Contract):
    """
    Where `OfferLoad`'s ItemReader finds its items (a JSON array of WriterItem), and how many run at once.

    `needed` is False for a probe that the search can do without: the phase is passed over.
    """

    needed: bool = True
    items_bucket: str
    items_key: str
    max_concurrency: int


class RunWriterInput(Contract):
    """One attempt (`$$.State.RetryCount`) at a WriterItem."""

    item: WriterItem
    attempt: int = Field(ge=0, le=0xFF)


class RunWriterOutput(Contract):
    """For the console's graph only; the records are in the bucket."""

    sent: int
    ok: int
    failed: int
    unknown: int
    unsent: int


class MeasureUtilisationInput(Contract):
    """How busy the store was during a phase that has ended; called until `done`, since metrics come late."""

    ref: TrialRef
    phase: int


class MeasureUtilisationOutput(Contract):
    """`done`: stored, as the phase's `utilisation.json`."""

    done: bool


class CheckPrecisionInput(Contract):
    """Whether a phase with `until` knows enough to end; called until `done`, while load is offered."""

    ref: TrialRef
    phase: int


class CheckPrecisionOutput(Contract):
    """`done`: sure, or the load has ended. Otherwise call again at `next_at`."""

    done: bool
    next_at: AwareDatetime


class AwaitArrivalsInput(Contract):
    """Poll until everything acknowledged has arrived or the drain limit passes."""

    ref: TrialRef


class AwaitArrivalsOutput(Contract):
    """`arrived` of `expected`; `done` also when the drain limit has passed."""

    done: bool
    expected: int
    arrived: int


class CollectLogsInput(Contract):
    """One page of one time slice; `token` is empty at first and comes from the output before."""

    ref: TrialRef
    token: str = ""


class CollectLogsOutput(Contract):
    """`token` is opaque, and carries everything the next call needs."""

    done: bool
    token: str


class AnalyseTrialInput(Contract):
    """Stored records in, one result out. A non-empty `failure.Error` makes the result `incomplete`."""

    ref: TrialRef
    failure: StateError = StateError()


class AnalyseTrialOutput(Contract):
    """Where the result is."""

    result_key: str


class ExportRecordsInput(Contract):
    """Write `records.parquet`."""

    ref: TrialRef


class ExportRecordsOutput(Contract):
    """Where the Parquet file is and how many rows it has."""

    key: str
    rows: int


class TearDownTargetInput(Contract):
    """Remove what the trial made; release the lease when `done`. `failure` is kept for the report."""

    ref: TrialRef
    failure: StateError = StateError()


class TearDownTargetOutput(Contract):
    """Called again until `done`."""

    done: bool


class CheckClockInput(Contract):
    """One write for `CheckClock` to make; whatever else it is invoked with is a delivery."""

    table: str
    key: str
    value: str = Field(description="Begins with the event's identity; of a deletion it is empty.")
    delete: bool = False


class CheckClockOutput(Contract):
    """What came of it, as `Written` says it; `sandbox` is the one that made it, by the id that its receiver has."""

    sandbox: str
    t1_ns: int
    t2_ns: int
    outcome: int = Field(ge=0, le=2)
    error: str = ""


class SweepTargetsInput(Contract):
    """
    What to sweep.

    From the EventBridge rule: the `execution_arn` of a machine that ended without its Catch. From the hourly
    schedule: no arn, so sweep every lease whose execution is over.
    """

    execution_arn: str | None = None


class SweepTargetsOutput(Contract):
    """What was swept and what is left for the next sweep."""

    swept: tuple[str, ...]
    pending: tuple[str, ...]
