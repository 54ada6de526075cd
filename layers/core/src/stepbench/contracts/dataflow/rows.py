"""What travels between the stages of a trial of `dataflow`: tasks, their rows, the ends of executions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from stepbench.contracts.base import Contract, ForeignText
from stepbench.contracts.dataflow.dag import StageName, TaskFunctionName
from stepbench.contracts.identity import EVENT_ID_CHARS
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import StateError, TrialInput

EventText = Annotated[str, StringConstraints(min_length=EVENT_ID_CHARS, max_length=EVENT_ID_CHARS)]
MAX_RESULT_CHARS = 4_000


class TaskItem(Contract):
    """One task of one execution of a DAG."""

    ref: TrialRef
    event: EventText = Field(description="The execution's identity.")
    dag: StageName
    stage: StageName
    index: int = Field(ge=0)


class LevelTask(Contract):
    """One task of a level, and which function runs it."""

    stage: StageName
    index: int = Field(ge=0)
    function: TaskFunctionName


class Level(Contract):
    """
    One topological level of a DAG: a wide one has its tasks (an array of LevelTask) in the results bucket.

    at_once: how many of them run side by side.
    """

    wide: bool
    at_once: int = Field(ge=1)
    tasks: tuple[LevelTask, ...] = ()
    items_bucket: str = ""
    items_key: str = ""


class RunDataflowInput(Contract):
    """The input of one execution of the DAG machine; a canary's has no levels, and goes straight to its end."""

    ref: TrialRef
    event: EventText
    dag: StageName
    levels: tuple[Level, ...]


class RunTaskInput(Contract):
    """One attempt (`$$.State.RetryCount`) at a task."""

    item: TaskItem
    attempt: int = Field(ge=0, le=0xFF)


class RunTaskOutput(Contract):
    """For the console's graph only; the row is in the results table."""

    read_bytes: int
    written_bytes: int
    cold: bool


class EndDataflowInput(Contract):
    """All tasks are done, or one has failed for good; a non-empty `failure.Error` says which and why."""

    ref: TrialRef
    event: EventText
    dag: StageName
    failure: StateError = StateError()


class EndDataflowOutput(Contract):
    """How many objects were removed, and how many are left."""

    completed: bool
    deleted: int
    left: int


class MakeInputInput(TrialInput):
    """Make the input of one of the trial's DAGs, unless it is there."""

    dag: StageName


class MakeInputOutput(Contract):
    """The length of the input."""

    input_bytes: int


class BlobRow(Contract):
    """
    One object's way to the store or back; times in ns.

    code_ns: to make bytes of the value, or a value of the bytes. connect_ns: waiting for a connection, just before
    `began_ns`: the store ends those that rest, and several transfers at once want several. wait_ns: the store's part,
    in which no byte moves: of a put for answers when no more may be handed over, of a get from the request to the first
    byte. whole_ns: from the request to the last byte or the answer; less wait_ns it is the network's.
    """

    object: str = Field(description="`<producer>-<task>/<consumer>-<part>`.")
    operation: Literal["put", "get"]
    began_ns: int = Field(ge=0, description="Since the epoch.")
    code_ns: int = Field(ge=0)
    connect_ns: int = Field(default=0, ge=0)
    wait_ns: int = Field(ge=0)
    whole_ns: int = Field(ge=0)
    blob_bytes: int = Field(ge=0)
    requests: int = Field(ge=0, description="That the store was sent: more than one where it is cut into chunks.")
    outcome: Literal["ok", "failed", "unknown"]
    error: ForeignText = ""

    @property
    def asked_ns(self) -> int:
        """Return from when on it waited for its connection."""
        return self.began_ns - self.connect_ns

    @property
    def ended_ns(self) -> int:
        """Return when its last byte or its answer had come."""
        return self.began_ns + self.whole_ns


class TaskRow(Contract):
    """
    One attempt at one task; times in ns, `began_ns` and `ended_ns` since the epoch.

    began_ns: the function's first statement. ended_ns: the last output is acknowledged, and the row not yet stored.
    open_ns: connecting to the store, and what else is made once a sandbox. input_ns: reading the DAG's own input.
    compute_ns: the application's own work, without reading and writing.
    """

    event: EventText
    dag: StageName
    stage: StageName
    index: int = Field(ge=0)
    attempt: int = Field(ge=0, le=0xFF)
    began_ns: int = Field(ge=0)
    ended_ns: int = Field(ge=0)
    open_ns: int = Field(default=0, ge=0)
    input_ns: int = Field(default=0, ge=0)
    input_bytes: int = Field(default=0, ge=0)
    compute_ns: int = Field(default=0, ge=0)
    cpu_ns: int = Field(default=0, ge=0, description="Of the process, user and system, from begin to end.")
    blobs: tuple[BlobRow, ...] = ()
    sandbox: str
    cold: bool
    init_ns: int = Field(default=0, ge=0, description="Of a cold sandbox: the init phase, as far as we see it.")
    request_id: str = ""
    memory_bytes: int = Field(default=0, ge=0, description="The process's largest resident set so far.")
    outcome: Literal["ok", "failed"]
    error: str = Field(default="", max_length=1_000)
    result: str = Field(
        default="",
        max_length=MAX_RESULT_CHARS,
        description="JSON: what the task has found, if its application says so.",
    )

    @property
    def name(self) -> str:
        """Return what names the task within its execution."""
        return f"{self.stage}-{self.index}"


class DagEnd(Contract):
    """The end of one execution. Stored once, by EndDataflow, after the objects are gone."""

    event: EventText
    dag: StageName
    ended_ns: int = Field(ge=0, description="t4: EndDataflow's first statement, ns since the epoch.")
    completed: bool
    error: str = ""
    cause: str = Field(default="", max_length=2_000)
    deleted: int = Field(ge=0)
    left: int = Field(ge=0, description="Objects of the execution whose removal here got no answer.")
    delete_ns: int = Field(ge=0)
