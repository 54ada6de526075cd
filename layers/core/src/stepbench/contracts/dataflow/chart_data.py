"""The data of the charts of DAGs: one execution's tasks over time, and what the store was given over time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract

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
