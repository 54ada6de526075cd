"""What a store has to expect of a DAG: derived before the run, from the DAG alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.dataflow.dag import EdgeKind

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
