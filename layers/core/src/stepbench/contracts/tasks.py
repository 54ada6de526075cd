"""
Inputs and outputs of the Task states and entry points, one pair per function; those of a whole run are in `runs`.

States pass keys, never data: everything big lives in the results bucket under `TrialRef`'s keys.
"""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract, ForeignText
from stepbench.contracts.documents import Failure
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.trial import LoadFrom

FLAGS_LIVE_S = 90 * 86_400
"""Longer than any trial: a flag that expired under a running writer would set it free."""


class StateError(Contract):
    """A Catch's error (`Error`, `Cause`), plus the failures of later stages. Empty `Error`: nothing failed."""

    Error: str = ""
    Cause: str = ""
    collect_logs: dict[str, Any] | None = None
    analyse_trial: dict[str, Any] | None = None
    export_records: dict[str, Any] | None = None

    def failure(self) -> Failure | None:
        """Return the first failure, or None."""
        return Failure(error=self.Error, cause=self.Cause) if self.Error else None


class TrialInput(Contract):
    """An input that names a trial."""

    ref: TrialRef


class PhaseInput(TrialInput):
    """An input that names a phase of a trial."""

    phase: int


class PolledOutput(Contract):
    """An output of a state that is called until `done`."""

    done: bool


class PrepareTargetInput(TrialInput):
    """Take the lease, make the store ready (idempotent)."""

    execution_arn: str


class InputToMake(Contract):
    """A DAG whose input is made before the load, and by which function."""

    dag: str
    function: str


class PrepareTargetOutput(Contract):
    """Prepared; delivery is proved by `AwaitTarget`. `lanes`: the watch branch's Map items, empty for push."""

    lanes: tuple[int, ...]
    seeds: bool = Field(default=False, description="Whether SeedFiles is called before the load.")
    inputs: tuple[InputToMake, ...] = Field(default=(), description="The items of MakeInputs' Map.")
    makes: bool = Field(
        default_factory=lambda known: bool(known["inputs"]), description="Whether MakeInputs is gone through."
    )
    ready_by: AwareDatetime = Field(description="AwaitTarget gives up after this.")
    flags_expire_at: int = Field(
        default_factory=lambda known: int(known["ready_by"].timestamp()) + FLAGS_LIVE_S,
        description="Seconds since the epoch: TTL of the flags that the state machine itself sets in the table.",
    )


class AwaitTargetInput(TrialInput):
    """Send canaries and look for them. For pull triggers, first wait for the watcher's heartbeat."""

    ready_by: AwareDatetime


class AwaitTargetOutput(Contract):
    """`ready`: three canaries in a row arrived. Raises TargetUnavailableError after `ready_by`."""

    ready: bool


class WatchChangesInput(TrialInput):
    """One turn of one of the two lanes (0, 1) that take turns at holding the watch."""

    lane: int = Field(ge=0, le=1)


class WatchChangesOutput(Contract):
    """`stopped`: the flag was seen. Otherwise call again at `next_at`."""

    stopped: bool
    next_at: AwareDatetime


class ScaleTargetInput(PhaseInput):
    """Bring the store to the phase's capacity; called until `done`."""


class ScaleTargetOutput(PolledOutput):
    """`done`: the store reports the capacity as active."""


class PlanPhaseInput(PhaseInput):
    """Fix the phase's absolute start and write the Map's items."""


class WriterItem(Contract):
    """One item of `OfferLoad`'s Map: one slice of one writer's work."""

    ref: TrialRef
    phase: int
    writer: int
    slice: int
    start_at_ns: int = Field(description="The slice's time zero, ns since the epoch.")
    wait_until: str = Field(description="ISO 8601 for the child's Wait: `start_at` less the lead.")
    load_from: LoadFrom = "lambda"
    invoked: bool = Field(
        default=False,
        exclude_if=lambda invoked: not invoked,
        description="An invocation that begins when it is made, without a barrier: `start_at_ns` is its phase's.",
    )
    expires_at: int = Field(
        default_factory=lambda known: int(known["start_at_ns"]) // 10**9 + FLAGS_LIVE_S,
        description="Seconds since the epoch: TTL of what the state machine notes of a slice that it gives up.",
    )


class PlanPhaseOutput(Contract):
    """
    The object that `OfferLoad`'s ItemReader reads (a JSON array of WriterItem), and how many items run at once.

    `needed` is False for a probe that the search can do without, and for a phase that was offered with the one before:
    it is passed over.
    """

    needed: bool = True
    items_bucket: str
    items_key: str
    max_concurrency: int
    items: tuple[WriterItem, ...] = Field(default=(), description="Of an inline Map, which reads no object.")
    inline: bool = Field(default=False, description="Whether that Map runs.")
    invoked: bool = Field(default=False, description="Whether it is noted when the Map has ended.")
    expires_at: int = Field(default=0, description="Seconds since the epoch: TTL of that note.")


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


class MeasureUtilisationInput(PhaseInput):
    """Read how busy the store was during a phase that has ended; called until `done`, since metrics come late."""


class MeasureUtilisationOutput(PolledOutput):
    """`done`: stored, as the phase's `utilisation.json`."""


class CheckPrecisionInput(PhaseInput):
    """Check whether a phase with `until` may end; called until `done`, while load is offered."""


class CheckPrecisionOutput(PolledOutput):
    """`done`: sure, or the load has ended. Otherwise call again at `next_at`."""

    next_at: AwareDatetime


class AwaitArrivalsInput(TrialInput):
    """Poll until everything acknowledged has arrived or the drain limit passes."""


class AwaitArrivalsOutput(PolledOutput):
    """`arrived` of `expected`; `done` also when the drain limit has passed."""

    expected: int
    arrived: int


class CollectLogsInput(TrialInput):
    """One page of one time slice; `token` is empty at first and comes from the output before."""

    token: str = ""


class CollectLogsOutput(PolledOutput):
    """`token` is opaque, and carries everything the next call needs."""

    token: str


class AnalyseTrialInput(TrialInput):
    """Stored records in, one result out. A non-empty `failure.Error` makes the result `incomplete`."""

    failure: StateError = StateError()


class AnalyseTrialOutput(Contract):
    """The key of the result."""

    result_key: str


class ExportRecordsInput(TrialInput):
    """Write `records.parquet`; a non-empty `failure.Error` says that the trial was broken off."""

    failure: StateError = StateError()


class ExportRecordsOutput(Contract):
    """The key of the Parquet file, and its number of rows."""

    key: str
    rows: int


class TearDownTargetInput(TrialInput):
    """Remove what the trial made; release the lease when `done`. `failure` is kept for the report."""

    failure: StateError = StateError()


class TearDownTargetOutput(PolledOutput):
    """Called again until `done`."""


class PreparedTarget(Contract):
    """What a trial makes in its store, by name. Stored as `made.json` before the first of it is there."""

    target: str = Field(description="What it leases.")
    execution_arn: str = Field(description="Of the execution that took the lease.")
    names: tuple[str, ...]
    taken_at_ns: int = Field(default=0, description="When it took the lease; 0 of earlier versions.")


class TornDown(Contract):
    """The names of what a trial has made in its store, all of it removed. Stored as `removed.json`."""

    removed: tuple[str, ...]


class RemainingObjects(Contract):
    """How many objects a trial of DAGs still had when its tear-down began. Stored as `remaining.json`, once."""

    objects: int = Field(ge=0)


class CheckClockInput(Contract):
    """One write for `CheckClock` to make; whatever else it is invoked with is a delivery."""

    table: str
    key: str
    value: str = Field(description="Begins with the event's identity; of a deletion it is empty.")
    delete: bool = False


class CheckClockOutput(Contract):
    """The outcome of the write, with the fields of `Result`; `sandbox` made it, and is named as its receiver is."""

    sandbox: str
    t1_ns: int
    t2_ns: int
    outcome: int = Field(ge=0, le=2)
    error: ForeignText = ""
