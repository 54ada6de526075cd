"""
What a report shows of DAGs: where their time went, what became of their objects, what they cost.

Times are in ms and rates in MiB/s, as the names end. A task's time runs from its function's first statement to the
acknowledgement of its last output. It is cut into what follows one after the other:

open: connecting to the store, at first and where nothing is on its way for want of a connection. input: reading the
DAG's own input. get: reading other tasks' outputs. compute: the application's work. put: writing its own outputs. rest:
what none of these explains.

Passing data is get and put, coding included: the store's part and the network's, and that of making bytes of values.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract, drop_field
from stepbench.contracts.dataflow.dag import Dag, EdgeKind
from stepbench.contracts.dataflow.report import ExpectedMix
from stepbench.contracts.measures import Estimate, Latency
from stepbench.contracts.tuning import TuningStep

PathPart = Literal[
    "late", "start", "dispatch", "retry", "open", "input", "get", "compute", "put", "rest", "barrier", "end"
]
"""
What an execution's time, t4 - t0, consists of, since levels follow each other: on each level its last task counts.

late: t1 - t0. start: from t1 to the first task's begin. dispatch: from a level's first begin to that of its last task.
retry: from that task's first attempt to the one that counts. barrier: from a level's last end to the next level's first
begin. end: from the last task's end to t4. The others are the task's own, as above.
"""
ORCHESTRATION: tuple[PathPart, ...] = ("start", "dispatch", "barrier", "end")
PASSING: tuple[PathPart, ...] = ("get", "put")


class Spread(Contract):
    """A measure over tasks, objects or executions."""

    n: int = Field(ge=0)
    p50: Estimate
    p95: Estimate
    mean: float | None
    max: float | None


class ExecutionAccounting(Contract):
    """
    What became of the executions. started = completed + failed + unfinished.

    Started are those that Step Functions has acknowledged, and those of which a task or an end says that they began.
    """

    started: int = Field(ge=0)
    completed: int = Field(ge=0)
    failed: int = Field(ge=0)
    unfinished: int = Field(ge=0, description="Without an end by the time of the analysis.")
    causes: dict[str, int] = Field(default={}, description="Of the failed ones; the most frequent first.")
    tasks: int = Field(ge=0, description="That began, each counted once.")
    attempts: int = Field(ge=0, description="At tasks that left a row.")
    failed_attempts: int = Field(ge=0)
    errors: dict[str, int] = Field(default={}, description="Of the failed attempts; the most frequent first.")
    cold_starts: int = Field(ge=0)


class ObjectAccounting(Contract):
    """
    What became of the objects of all executions that started.

    expected = written + unwritten. written = read + unread, where read are those that as many tasks have read as the
    DAG says. reads_expected = reads + reads_missing, each of a task's reads counted once, however often it is retried.
    """

    expected: int = Field(ge=0, description="What the DAG says that the executions write.")
    written: int = Field(ge=0, description="Acknowledged by the store, each counted once.")
    unwritten: int = Field(ge=0, description="Of executions that failed or have no end: not got as far.")
    read: int = Field(ge=0)
    unread: int = Field(ge=0)
    reads_expected: int = Field(ge=0)
    reads: int = Field(ge=0)
    reads_missing: int = Field(ge=0, description="Not made, or without success.")
    again: int = Field(ge=0, description="Successful transfers beyond the first, of retried tasks.")
    not_found: int = Field(ge=0, description="Reads of objects that were not there, and not removed by an end.")
    damaged: int = Field(ge=0, description="Reads whose bytes were cut off or others than were written.")
    failed: int = Field(ge=0, description="Transfers that failed or got no answer, these two included.")
    errors: dict[str, int] = Field(default={}, description="Of those; the most frequent first.")
    deleted: int = Field(ge=0, description="By the executions' ends; what a killed task wrote may be among them.")
    unconfirmed: int = Field(
        default=0, ge=0, description="Whose removal at the executions' ends got no answer: they may be gone or not."
    )
    left: int | None = Field(
        default=None,
        ge=0,
        description="In the store when the trial's tear-down looked, which has removed them; None where it could not.",
    )
    not_deleted: int = Field(
        ge=0, description="Written without an end of the execution, or after it: the trial's tear-down has them."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand where a model is expected
        """Read `left` of older versions, which was never looked for, as what was not confirmed."""
        if isinstance(fields, dict) and "left" in fields and "unconfirmed" not in fields:
            return {**drop_field(fields, "left"), "unconfirmed": fields["left"]}
        return fields

    @property
    def remaining(self) -> int:
        """Return how many the executions' ends have left: as seen later, or else as far as they know."""
        return self.unconfirmed if self.left is None else self.left

    @property
    def left_by_ends(self) -> int:
        """Return how many the tear-down found beside those that no end was to remove."""
        return max(0, (self.left or 0) - self.not_deleted)

    @property
    def in_doubt(self) -> int:
        """Return how many removals were not confirmed, where nobody could look later."""
        return self.unconfirmed if self.left is None else 0

    @property
    def complete(self) -> bool:
        """Return whether every object was written and read as often as the DAG says, and none remained."""
        return not (self.unwritten or self.unread or self.reads_missing or self.remaining or self.not_deleted)


class StageResult(Contract):
    """The tasks of a stage in a window's completed executions; of each task the attempt that succeeded."""

    name: str
    task: str
    level: int = Field(ge=0)
    tasks: int = Field(ge=1, description="Of one execution.")
    duration_ms: Spread = Field(description="Of each execution, from the first task's begin to the last one's end.")
    task_ms: Spread
    open_ms: Spread
    input_ms: Spread | None = Field(description="None where its tasks read other tasks' outputs.")
    get_ms: Spread | None = Field(description="None where there are none to read.")
    compute_ms: Spread
    put_ms: Spread | None = Field(description="None where nobody reads its outputs.")
    rest_ms: Spread
    passing_share: Estimate = Field(description="Of its tasks' time.")
    stragglers: Spread | None = Field(
        description="Of each execution, the slowest task's time over the median one's. None with fewer than 3 tasks."
    )
    cold_starts: int = Field(ge=0)
    init_ms: float | None = Field(default=None, description="Median of cold sandboxes' init phases.")
    retries: int = Field(ge=0)
    memory_mib: float | None = Field(default=None, description="The largest resident set of its tasks.")
    cpu_share: float | None = Field(default=None, description="CPU time over time, of all its tasks.")


class LevelResult(Contract):
    """What orchestration takes at a level of the DAG."""

    level: int = Field(ge=0)
    tasks: int = Field(ge=1)
    stages: tuple[str, ...]
    before_ms: Spread = Field(
        description="From the last end of the level before, or from t1, to the first task's begin: the barrier."
    )
    dispatch_ms: Spread = Field(description="From the first task's begin to the last one's.")


class EdgeResult(Contract):
    """
    Objects from one stage to another, in a window's completed executions.

    put: serialise, network (from the request to the last byte handed over), store (to the answer). get: store (to the
    first byte), network (to the last), deserialise. Rates are bytes over the time without coding.
    """

    producer: str
    consumer: str
    kind: EdgeKind
    objects: int = Field(ge=0, description="Of one execution.")
    reads: int = Field(ge=0, description="Of one execution.")
    blob_bytes: Spread
    put_ms: Spread = Field(description="Coding apart.")
    get_ms: Spread = Field(description="Coding apart.")
    serialise_ms: Spread
    put_network_ms: Spread
    put_store_ms: Spread
    get_store_ms: Spread
    get_network_ms: Spread
    deserialise_ms: Spread
    put_mib_per_s: Spread
    get_mib_per_s: Spread
    put_requests: float | None = Field(description="That the store is sent for one object, on average.")
    get_requests: float | None
    failed: int = Field(ge=0, description="Transfers of these executions, of attempts that failed too.")


class PathShare(Contract):
    """One part of executions' time. share: of their time altogether, t4 - t0."""

    part: PathPart
    ms: Spread
    share: Estimate


class CriticalTask(Contract):
    """How often a stage, and which task of it most often, was the last one of its level."""

    level: int = Field(ge=0)
    stage: str
    executions: int = Field(ge=1)
    most_often: int = Field(ge=0, description="The index of the task that most often was.")


class OfWindow(Contract):
    """What is of one window of a DAG."""

    dag: str
    window: str
    phase: str

    @property
    def place(self) -> tuple[str, str, str]:
        """Return which window it is of: the DAG, the phase and the window itself, by their names."""
        return self.dag, self.phase, self.window


class DagWindow(OfWindow):
    """A window's executions of its phase's DAG."""

    n: int = Field(ge=0, description="Completed, with a row of each task: what the parts are of.")
    completed: int = Field(ge=0)
    failed: int = Field(ge=0)
    unrecorded: int = Field(default=0, ge=0, description="Completed in time, and a task has no row.")
    end_to_end_ms: Latency = Field(description="From the due time, t4 - t0; what failed or did not end is missing.")
    from_start_ms: Latency = Field(description="From the start, t4 - t1.")
    path: tuple[PathShare, ...] = Field(description="Of `n`; the shares add up to 1.")
    critical: tuple[CriticalTask, ...]
    passing_on_path: Estimate = Field(description="get and put of the critical path, over t4 - t1.")
    passing_of_tasks: Estimate = Field(description="get and put of all tasks, over all tasks' time.")
    orchestration: Estimate = Field(description="start, dispatch, barrier and end, over t4 - t1.")
    stages: tuple[StageResult, ...]
    levels: tuple[LevelResult, ...]
    edges: tuple[EdgeResult, ...]
    passed_mib: Spread = Field(description="Of each execution: written and read, together.")


class DataflowCost(OfWindow):
    """
    What one execution of a window costs, and 1 / (its latency in s) / (its dollars), at one table's prices.

    idle: whether the store is paid for the window's whole time, shared by its executions; otherwise for their own time
    only. modelled: why the dollars are not those that were paid; empty where they are.
    """

    prices: str = Field(description="The table's name: region and date.")
    idle: bool
    usd: Estimate = Field(description="Of one execution, on average.")
    parts_usd: dict[str, float] = Field(description="By what it is spent on.")
    perf_per_usd: Estimate = Field(description="In 1 / (s x USD); the median of the executions.")
    modelled: str = ""


class DataflowFindings(Contract):
    """What executions of DAGs through one store show."""

    dags: tuple[Dag, ...] = Field(default=(), description="As planned.")
    executions: ExecutionAccounting
    objects: ObjectAccounting
    expected: tuple[ExpectedMix, ...] = Field(description="As it was expected before the run, by DAG.")
    windows: tuple[DagWindow, ...]
    costs: tuple[DataflowCost, ...] = ()
    results: dict[str, str] = Field(default={}, description="What tasks found, as JSON by `<dag>/<stage>-<index>`.")
    differing: tuple[str, ...] = Field(
        default=(), description="Those whose executions do not agree; the first one's is in `results`."
    )
    tuning: tuple[TuningStep, ...] = Field(default=(), description="Of a store that is configured for the DAGs.")
    answers: tuple[str, ...] = Field(default=(), description="One sentence each.")
