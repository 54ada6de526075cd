"""A trial of DAGs as files: executions, tasks and objects beside its `records.parquet`. A part of `ExportRecords`."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import CANARY_PHASE, parse_event_id
from stepbench.experiments.dataflow.analysis.executions import ExecutionTasks
from stepbench.experiments.dataflow.analysis.parts import task_parts
from stepbench.experiments.dataflow.tasks.sources import shown_dags
from stepbench.records.export.events import export_events
from stepbench.records.formats.dag_parquet import EXECUTIONS_FILE, FILES, OBJECTS_FILE, TASKS_FILE, DagFileWriter
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks, read_dag_ends
from stepbench.workload.topology import edge_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.rows import BlobRow, TaskRow
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import ExportRecordsOutput, StateError
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

Row = dict[str, Any]
_END = ("ended_ns", "completed", "error", "cause", "deleted", "left", "delete_ns")
_TASK = (
    "stage", "attempt", "began_ns", "ended_ns", "open_ns", "input_ns", "input_bytes", "compute_ns",
    "cpu_ns", "sandbox", "cold", "init_ns", "memory_bytes", "request_id", "outcome", "error", "result",
)  # fmt: skip
_BLOB = (
    "object",
    "operation",
    "began_ns",
    "code_ns",
    "connect_ns",
    "wait_ns",
    "whole_ns",
    "blob_bytes",
    "requests",
    "outcome",
    "error",
)


def export(spec: TrialSpec, failure: StateError, runs: RunStore, table: TrialTable) -> ExportRecordsOutput:
    """Write the executions as any events, and the three files beside; raises as `export_events`."""
    written = export_events(spec, failure, runs, table)
    export_dags(spec, runs, table)
    return written


def export_dags(spec: TrialSpec, runs: RunStore, table: TrialTable) -> None:
    """
    Write the three files.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        with ExitStack() as stack:
            writers = {
                file: stack.enter_context(DagFileWriter(Path(folder) / file.name, file, _metadata(spec)))
                for file in FILES
            }
            writers[EXECUTIONS_FILE].add(_end_rows(spec, table))
            stored, dags = StoredTasks.read(spec.tag, table), {dag.name: dag for dag in spec.offered.dags}
            for event in stored.events:
                rows = stored.of(event)
                if rows and rows[0].dag in dags:
                    tasks = ExecutionTasks(dags[rows[0].dag], rows)
                    writers[TASKS_FILE].add(_task_rows(spec, event, tasks))
                    writers[OBJECTS_FILE].add(_object_rows(spec, event, tasks))
        for file in FILES:
            runs.put_file(layout.trial_key(spec.ref, file.name), Path(folder) / file.name)


def _metadata(spec: TrialSpec) -> dict[str, str]:
    return {
        "run_id": spec.run_id,
        "trial": str(spec.index),
        "name": spec.name,
        "store": spec.offered.target.store,
        "dags": json.dumps([dag.model_dump(mode="json") for dag in shown_dags(spec.offered.dags)]),
    }


def _end_rows(spec: TrialSpec, table: TrialTable) -> Iterator[Row]:
    for end in read_dag_ends(spec.tag, table)[0]:
        if (names := _names(spec, end.event)) is not None:
            yield {**names, "dag": end.dag, **{name: getattr(end, name) for name in _END}}


def _task_rows(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[Row]:
    for names, row, level in _attempts(spec, event, tasks):
        parts = task_parts(row)
        passing = {"connect_ns": parts.open - row.open_ns, "get_ns": parts.get, "put_ns": parts.put, "level": level}
        yield {**names, **passing, **{name: getattr(row, name) for name in _TASK}}


def _object_rows(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[Row]:
    for names, row, _ in _attempts(spec, event, tasks):
        own = {**names, "stage": row.stage, "attempt": row.attempt}
        for blob in row.blobs:
            yield {**own, **_edge(blob), **{name: getattr(blob, name) for name in _BLOB}}


def _attempts(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[tuple[Row, TaskRow, int]]:
    """Yield for each row what names it, the row, and its level."""
    names = _names(spec, event)
    if names is None:
        return
    levels = tasks.dag.level_of
    for task, rows in tasks.attempts.items():
        for row in rows:
            counts = tasks.counted.get(task) is row
            yield {**names, "dag": row.dag, "task": row.index, "counts": counts}, row, levels.get(row.stage, -1)


def _edge(blob: BlobRow) -> Row:
    producer, consumer = edge_of(blob.object)
    return {"producer": producer, "consumer": consumer}


def _names(spec: TrialSpec, event: str) -> Row | None:
    """Return what names an execution; None of a canary, and of none of the trial's phases."""
    identity = parse_event_id(event)
    phases = spec.offered.phases
    if identity is None or identity.phase == CANARY_PHASE or identity.phase >= len(phases):
        return None
    return {
        "phase": phases[identity.phase].name,
        "writer": identity.writer,
        "slice": identity.slice,
        "writer_attempt": identity.attempt,
        "sequence": identity.sequence,
        "event": event,
    }
