"""A trial of DAGs as files: executions, tasks and objects beside its `records.parquet`. A part of `ExportRecords`."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import CANARY_PHASE, parse_event_id
from stepbench.experiments.dataflow.analysis.executions import ExecutionTasks, task_parts
from stepbench.experiments.dataflow.tasks.application_parameters import shown_dags
from stepbench.records.export import export_events
from stepbench.records.formats.parquet import (
    ABOUT_TRIAL,
    Column,
    FileSchema,
    FileWriter,
    describe_columns,
    describe_metadata,
)
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks, read_dag_ends
from stepbench.workload.topology import edge_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.rows import TaskRow
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import ExportRecordsOutput, StateError
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

Row = dict[str, Any]
_CATEGORY, _TEXT = "category", "text"
"""Texts that repeat, and texts that are mostly different."""
_NS, _COUNT, _NUMBER, _YES = "ns", "count", "number", "yes or no"
_EXECUTION = (
    Column("phase", _CATEGORY, "name", "The phase that started the execution."),
    Column("writer", "int32", _NUMBER, "The writer, from 0; with the next three the row of `records.parquet`."),
    Column("slice", "int32", _NUMBER, "The slice of its phase, from 0."),
    Column("writer_attempt", "int32", _NUMBER, "The writer's attempt at its slice, from 0."),
    Column("sequence", "int64", _NUMBER, "Place within the writer's slice, from 0."),
    Column("event", _TEXT, "name", "The execution's identity, by which Step Functions names it, too."),
    Column("dag", _CATEGORY, "name", "Its DAG; `dags` in the file's metadata has them."),
)
_EXECUTIONS = (
    *_EXECUTION,
    Column("ended_ns", "int64", _NS, "t4: EndDataflow's first statement, by its clock."),
    Column("completed", "bool", _YES, "All of its tasks are done; otherwise one has failed for good."),
    Column("error", _CATEGORY, "name", "Of a failed one the error's name; empty where there is none."),
    Column("cause", _TEXT, "text", "What is on record of why; empty where there is nothing."),
    Column("deleted", "int64", _COUNT, "Objects that were removed at its end."),
    Column("left", "int64", _COUNT, "Objects whose removal there got no answer."),
    Column("delete_ns", "int64", _NS, "Removing them."),
)
_TASKS = (
    *_EXECUTION,
    Column("stage", _CATEGORY, "name", "The stage."),
    Column("task", "int32", _NUMBER, "The task within its stage, from 0."),
    Column("attempt", "int32", _NUMBER, "The attempt at it, from 0."),
    Column("counts", "bool", _YES, "The last attempt that succeeded, which the next level waited for."),
    Column("level", "int32", _NUMBER, "The stage's topological level, from 0."),
    Column("began_ns", "int64", _NS, "The function's first statement, since 1970-01-01 UTC, by the sandbox's clock."),
    Column("ended_ns", "int64", _NS, "The last output was acknowledged, likewise."),
    Column("open_ns", "int64", _NS, "Connecting to the store, and what else is made once a sandbox."),
    Column("connect_ns", "int64", _NS, "Waiting for connections later on, while no object was on its way."),
    Column("input_ns", "int64", _NS, "Reading the DAG's own input."),
    Column("input_bytes", "int64", "bytes", "Its size."),
    Column("get_ns", "int64", _NS, "Reading other tasks' outputs: while any was on its way, and all decoding."),
    Column("compute_ns", "int64", _NS, "The application's own work."),
    Column("put_ns", "int64", _NS, "Writing its outputs: all encoding, and while any was on its way."),
    Column("cpu_ns", "int64", _NS, "Processor time of the process from begin to end, user and system."),
    Column("sandbox", _CATEGORY, "name", "Made anew with each sandbox."),
    Column("cold", "bool", _YES, "The sandbox's first invocation, soon after its init."),
    Column("init_ns", "int64", _NS, "Of a cold one: the init phase, as far as the function sees it."),
    Column("memory_bytes", "int64", "bytes", "The process's largest resident set so far; 0: unknown."),
    Column("request_id", _TEXT, "name", "Lambda's; empty: unknown."),
    Column("outcome", _CATEGORY, "name", "`ok` or `failed`."),
    Column("error", _CATEGORY, "text", "Why it failed; empty where it did not."),
    Column("result", _TEXT, "JSON", "What the task found, if its application says so: labels, an accuracy."),
)
_OBJECTS = (
    *_EXECUTION,
    Column("stage", _CATEGORY, "name", "The stage whose task wrote or read it."),
    Column("task", "int32", _NUMBER, "That task, from 0."),
    Column("attempt", "int32", _NUMBER, "The attempt at it, from 0."),
    Column("counts", "bool", _YES, "Of the attempt that counts, as in `tasks.parquet`."),
    Column("object", _CATEGORY, "name", "`<producer>-<task>/<consumer>-<part>`."),
    Column("producer", _CATEGORY, "name", "The stage that writes it."),
    Column("consumer", _CATEGORY, "name", "The stage that reads it."),
    Column("operation", _CATEGORY, "name", "`put` or `get`."),
    Column("began_ns", "int64", _NS, "The first request was handed to the kernel; since 1970-01-01 UTC."),
    Column("code_ns", "int64", _NS, "Making bytes of the value, before it, or a value of the bytes, after it."),
    Column("connect_ns", "int64", _NS, "Waiting for a connection, just before `began_ns`."),
    Column("wait_ns", "int64", _NS, "The store's part: an answer is awaited, and no more may be handed over."),
    Column("whole_ns", "int64", _NS, "From the request to the answer or the last byte; less `wait_ns` the network's."),
    Column("blob_bytes", "int64", "bytes", "The object's size."),
    Column("requests", "int32", _COUNT, "That the store was sent: more than one where it is cut into chunks."),
    Column("outcome", _CATEGORY, "name", "`ok`, `failed` or `unknown`."),
    Column("error", _CATEGORY, "code", "Why it was not `ok`; empty where it was."),
)
_METADATA = ABOUT_TRIAL | {"dags": "JSON, the trial's DAGs as planned."}


def _of(columns: tuple[Column, ...], description: str) -> FileSchema:
    return FileSchema(columns, f"Stepbench: {description}", version=1, metadata=_METADATA, rows_per_group=100_000)


FILES = {
    "executions.parquet": _of(_EXECUTIONS, "one row for the end of each execution of a DAG, by its identity."),
    "tasks.parquet": _of(_TASKS, "one row for each attempt at a task that left a row, by execution and stage."),
    "objects.parquet": _of(_OBJECTS, "one row for each transfer of an object, in the order that tasks began them."),
}


def export(spec: TrialSpec, failure: StateError, runs: RunStore, table: TrialTable) -> ExportRecordsOutput:
    """Write the executions as any events, and the three files beside; raises as `export_events`."""
    written = export_events(spec, failure, runs, table)
    with tempfile.TemporaryDirectory() as folder:
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(FileWriter(Path(folder) / name, file, _facts(spec)))
                for name, file in FILES.items()
            }
            writers["executions.parquet"].add_rows(_end_rows(spec, table))
            stored, dags = StoredTasks.read(spec.tag, table), {dag.name: dag for dag in spec.offered.dags}
            for event in stored.events:
                rows = stored.of(event)
                if rows and rows[0].dag in dags:
                    tasks = ExecutionTasks(dags[rows[0].dag], rows)
                    writers["tasks.parquet"].add_rows(_task_rows(spec, event, tasks))
                    writers["objects.parquet"].add_rows(_object_rows(spec, event, tasks))
        for name in FILES:
            runs.put_file(layout.trial_key(spec.ref, name), Path(folder) / name)
    return written


def _facts(spec: TrialSpec) -> dict[str, str]:
    return {
        "run_id": spec.run_id,
        "trial": str(spec.index),
        "name": spec.name,
        "store": spec.offered.target.store,
        "dags": json.dumps([dag.model_dump(mode="json") for dag in shown_dags(spec.offered.dags)]),
    }


def _end_rows(spec: TrialSpec, table: TrialTable) -> Iterator[Row]:
    """Yield a row for each end; here and below a row may have more than its file's columns, which are left out."""
    for end in read_dag_ends(spec.tag, table)[0]:
        if (names := _names(spec, end.event)) is not None:
            yield vars(end) | names


def _task_rows(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[Row]:
    for names, row in _attempts(spec, event, tasks):
        parts = task_parts(row)
        passing = {"connect_ns": parts.open - row.open_ns, "get_ns": parts.get, "put_ns": parts.put}
        yield vars(row) | names | passing


def _object_rows(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[Row]:
    for names, row in _attempts(spec, event, tasks):
        for blob in row.blobs:
            producer, consumer = edge_of(blob.object)
            yield vars(blob) | names | {"producer": producer, "consumer": consumer}


def _attempts(spec: TrialSpec, event: str, tasks: ExecutionTasks) -> Iterator[tuple[Row, TaskRow]]:
    """Yield for each row what names it, with its level and whether it counts, and the row."""
    names = _names(spec, event)
    if names is None:
        return
    levels = tasks.dag.level_of
    for (stage, task), rows in tasks.attempts.items():
        for row in rows:
            which = {"dag": row.dag, "stage": stage, "task": task, "attempt": row.attempt}
            counts = tasks.counted.get((stage, task)) is row
            yield {**names, **which, "counts": counts, "level": levels.get(stage, -1)}, row


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


def describe_dag_columns() -> str:
    """Return the tables of `docs/records.md`, as Markdown; no column is ever null."""
    parts, first = [], "executions.parquet"
    for name, file in FILES.items():
        own = [each for each in file.columns if name == first or each not in _EXECUTION]
        same = "" if name == first else f"The first seven columns are those of `{first}`; then:\n\n"
        parts.append(f"## Columns of `{name}`\n{same}{describe_columns(own, nulls=False)}")
    return "\n\n".join([*parts, f"## Metadata of these three\n{describe_metadata(FILES[first])}"])
