"""Rows of tasks as functions would have left them, in milliseconds: short to write, and easy to count."""

from __future__ import annotations

from typing import Any

from tests.samples.records import REF

from stepbench.contracts.dataflow.rows import BlobRow, DagEnd, TaskRow
from stepbench.contracts.identity import EventId

MS = 1_000_000
ORIGIN_NS = 1_700_000_000_000_000_000


def event_text(sequence: int = 0, phase: int = 0, tag: str = REF.tag) -> str:
    """Return the identity of an execution."""
    return EventId(tag, phase, 0, 0, 0, sequence).text()


def blob(operation: str, name: str, began_ms: float, **fields: Any) -> BlobRow:  # noqa: ANN401 -- a row's fields
    """Return a transfer of 1 MiB that began so long after the origin: 1 ms of code, 2 ms of the store, 4 ms in all."""
    row = {"code_ns": MS, "wait_ns": 2 * MS, "whole_ns": 4 * MS, "blob_bytes": 2**20, "requests": 1, "outcome": "ok"}
    began_ns = ORIGIN_NS + round(began_ms * MS)
    return BlobRow.model_validate({**row, "object": name, "operation": operation, "began_ns": began_ns, **fields})


def task_row(
    stage: str,
    from_ms: float,
    to_ms: float,
    *blobs: BlobRow,
    event: str = "",
    **fields: Any,  # noqa: ANN401 -- a row's fields
) -> TaskRow:
    """Return an attempt at a task that lasted from then to then, in ms after the origin."""
    row = {"event": event or event_text(), "dag": "dag", "stage": stage, "index": 0, "attempt": 0, "sandbox": "sandbox"}
    times = {"began_ns": ORIGIN_NS + round(from_ms * MS), "ended_ns": ORIGIN_NS + round(to_ms * MS)}
    return TaskRow.model_validate({**row, **times, "cold": False, "outcome": "ok", "blobs": blobs, **fields})


def dag_end(at_ms: float, *, event: str = "", **fields: Any) -> DagEnd:  # noqa: ANN401 -- an end's fields
    """Return the end of a completed execution, in ms after the origin."""
    end = {"event": event or event_text(), "dag": "dag", "completed": True, "deleted": 0, "left": 0, "delete_ns": MS}
    return DagEnd.model_validate({**end, "ended_ns": ORIGIN_NS + round(at_ms * MS), **fields})
