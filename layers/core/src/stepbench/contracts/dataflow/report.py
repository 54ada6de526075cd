"""What a report shows of DAGs beside findings: charts, what a store has to expect, which one is the answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.dataflow.dag import EdgeKind
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import DagMetric

MixKind = Literal["read-heavy", "balanced", "write-heavy", "none"]
"""
Of a level or a whole DAG by number of requests: from 60 % of one kind on it is heavy in it.

Of an edge as the source has it: a scatter is balanced; a broadcast is read-heavy, since one writes and many read; a
gather is write-heavy, since many write at once and one reads, though it has as many reads as writes.
"""


class ExpectedEdge(Contract):
    """
    What one edge asks of the store in one execution.

    blob_bytes: of one object; None where only the application knows.
    """

    producer: str
    consumer: str
    kind: EdgeKind
    writes: int = Field(ge=0)
    reads: int = Field(ge=0)
    writers: int = Field(ge=1, description="Tasks that write at once, at most.")
    readers: int = Field(ge=1, description="Tasks that read at once, at most.")
    blob_bytes: int | None = None
    read_share: float = Field(
        ge=0, le=1, description="Of requests. Scatter and gather: 1/2. Broadcast to k tasks: k / (k + 1)."
    )
    mix: MixKind


class ExpectedLevel(Contract):
    """What the tasks of one level ask of the store: they read first, and write when they have computed."""

    level: int = Field(ge=0)
    stages: tuple[str, ...]
    concurrency: int = Field(ge=1, description="Tasks at once, at most.")
    reads: int = Field(ge=0)
    writes: int = Field(ge=0)
    read_bytes: int | None = Field(default=None, description="None where a size is not known.")
    written_bytes: int | None = None
    mix: MixKind


class ExpectedMix(Contract):
    """All of one DAG's requests in one execution. read_share: by number."""

    dag: str
    tasks: int = Field(ge=1)
    objects: int = Field(ge=0)
    reads: int = Field(ge=0)
    read_bytes: int | None = None
    written_bytes: int | None = None
    read_share: float | None = Field(default=None, ge=0, le=1, description="None of a DAG that passes no data.")
    mix: MixKind
    concurrency: int = Field(ge=1, description="Tasks at once, at most.")
    edges: tuple[ExpectedEdge, ...]
    levels: tuple[ExpectedLevel, ...]
    text: str = Field(description="The same in one sentence.")


class Medium(Contract):
    """One store, as one group of trials had it: all repeats of a trial together."""

    name: str = Field(
        description="The store, and what else distinguishes it from the others, such as its configuration."
    )
    group: str
    runs: int = Field(ge=1)
    value: Estimate = Field(description="Median end-to-end time in ms, or 1 / (s x USD).")


class MediumAnswer(Contract):
    """
    Stores that passed the same DAG's data, from the best to the worst.

    sure: the best one's advantage over the next is shown by the whole 95 % interval. Stores that are emulated are not
    ranked, nor are those at which most executions of a run have failed.
    """

    dag: str
    phase: str
    window: str
    measure: Literal["end_to_end", "perf_per_usd"]
    prices: str = Field(default="", description="Of `perf_per_usd`: the table's name.")
    idle: bool = Field(default=False, description="Of `perf_per_usd`: idle hours included.")
    ranked: tuple[Medium, ...]
    not_ranked: tuple[str, ...] = Field(default=(), description="Names of emulated ones.")
    failed: tuple[str, ...] = Field(default=(), description="Names of those at which most executions have not arrived.")
    sure: bool
    advantage: Estimate | None = Field(default=None, description="The next one's time over the best one's, or so.")
    text: str


class DagReplication(Contract):
    """
    A published number beside ours.

    Performance per dollar is by the prices of November 2022, as the source's, which does not say whether idle hours
    count: both are given. `ratio` is ours over the published number.
    """

    metric: DagMetric
    trial: str = Field(description="Whose number it is: a trial of the plan, its repeats together.")
    over_trial: str = Field(default="", description="What it is set over; empty of a share.")
    dag: str = Field(description="Of several windows together: the DAGs, each once, with commas.")
    phase: str
    window: str
    published: float
    unit: Literal["ratio", "share"]
    bound: Literal["above", "up_to"] | None = None
    source: str
    note: str = ""
    ours: Estimate = Field(description="Without idle hours, of performance per dollar.")
    ours_idle: Estimate | None = Field(default=None, description="With them; None of all else.")
    ratio: Estimate
    ratio_idle: Estimate | None = None
    caveat: str = Field(default="", description="Why ours may not be set beside it: such as an emulated store.")


GanttKind = Literal["open", "input", "get", "compute", "put", "rest"]


class GanttSpan(Contract):
    """A part of one attempt at a task, in ms from the execution's due time. blob_bytes, objects: of get and put."""

    kind: GanttKind
    from_ms: float
    to_ms: float
    blob_bytes: int = Field(default=0, ge=0)
    objects: int = Field(default=0, ge=0)
    mib_per_s: float | None = None


class GanttRow(Contract):
    """One attempt at a task, in ms from the execution's due time."""

    stage: str
    index: int = Field(ge=0)
    attempt: int = Field(ge=0)
    level: int = Field(ge=0)
    from_ms: float
    to_ms: float
    ok: bool
    cold: bool
    critical: bool = Field(description="The last one of its level.")
    error: str = ""
    spans: tuple[GanttSpan, ...]


class Gantt(Contract):
    """The execution of a window whose end-to-end time is nearest to the median."""

    dag: str
    window: str
    phase: str
    event: str
    start_ms: float = Field(description="t1 - t0.")
    end_ms: float = Field(description="t4 - t0.")
    rows: tuple[GanttRow, ...] = Field(description="By begin. Of very many, each stage's first and last to end.")
    left_out: int = Field(default=0, ge=0, description="Rows that are not drawn.")


class DataflowBin(Contract):
    """What happened from `second` on, until the next bin: seconds from the trial's first t0."""

    second: float
    phase: str
    completed: int = Field(ge=0, description="Executions that ended.")
    puts: int = Field(ge=0, description="Objects whose writing ended.")
    gets: int = Field(ge=0)
    put_mib: float = Field(ge=0)
    get_mib: float = Field(ge=0)


class TuningMark(Contract):
    """A decision to configure the store anew or not, and for how long it then served nobody; seconds as in bins."""

    second: float
    phase: str
    reconfigured: bool
    outage_s: float = Field(default=0, ge=0)
    text: str = Field(description="What was changed, or why nothing was.")


class DataflowChartData(Contract):
    """Everything that the charts of DAGs draw, but for what the findings have."""

    gantts: tuple[Gantt, ...]
    bin_s: float
    bins: tuple[DataflowBin, ...] = Field(description="Empty ones are left out.")
    marks: tuple[TuningMark, ...] = ()
