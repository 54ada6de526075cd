"""
Executions of DAGs, their tasks and their objects as Parquet: one file each, beside a trial's `records.parquet`.

The files carry the meaning of their columns themselves, as that one does; nothing else describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from stepbench.records.formats.parquet import Column, describe_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

DAGS_SCHEMA = 1
ROWS_PER_GROUP = 100_000
_TEXT, _NAME = "dictionary", "text"
"""Texts that repeat, and texts that are mostly different."""
_TYPES = {
    _TEXT: pa.dictionary(pa.int32(), pa.string()), _NAME: pa.string(), "int64": pa.int64(), "int32": pa.int32(),
    "bool": pa.bool_(),
}  # fmt: skip
_NS, _COUNT, _NUMBER, _YES = "ns", "count", "number", "yes or no"
_EXECUTION = (
    Column("phase", _TEXT, "name", "The phase that started the execution."),
    Column("writer", "int32", _NUMBER, "The writer, from 0; with the next three the row of `records.parquet`."),
    Column("slice", "int32", _NUMBER, "The slice of its phase, from 0."),
    Column("writer_attempt", "int32", _NUMBER, "The writer's attempt at its slice, from 0."),
    Column("sequence", "int64", _NUMBER, "Place within the writer's slice, from 0."),
    Column("event", _NAME, "name", "The execution's identity, by which Step Functions names it, too."),
    Column("dag", _TEXT, "name", "Its DAG; `dags` in the file's metadata has them."),
)
EXECUTIONS = (
    *_EXECUTION,
    Column("ended_ns", "int64", _NS, "t4: EndDataflow's first statement, by its clock."),
    Column("completed", "bool", _YES, "All of its tasks are done; otherwise one has failed for good."),
    Column("error", _TEXT, "name", "Of a failed one the error's name; empty where there is none."),
    Column("cause", _NAME, "text", "What is on record of why; empty where there is nothing."),
    Column("deleted", "int64", _COUNT, "Objects that were removed at its end."),
    Column("left", "int64", _COUNT, "Objects whose removal there got no answer."),
    Column("delete_ns", "int64", _NS, "Removing them."),
)
TASKS = (
    *_EXECUTION,
    Column("stage", _TEXT, "name", "The stage."),
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
    Column("sandbox", _TEXT, "name", "Made anew with each sandbox."),
    Column("cold", "bool", _YES, "The sandbox's first invocation, soon after its init."),
    Column("init_ns", "int64", _NS, "Of a cold one: the init phase, as far as the function sees it."),
    Column("memory_bytes", "int64", "bytes", "The process's largest resident set so far; 0: not told."),
    Column("request_id", _NAME, "name", "Lambda's; empty: not told."),
    Column("outcome", _TEXT, "name", "`ok` or `failed`."),
    Column("error", _TEXT, "text", "Why it failed; empty where it did not."),
    Column("result", _NAME, "JSON", "What the task found, if its application says so: labels, an accuracy."),
)
OBJECTS = (
    *_EXECUTION,
    Column("stage", _TEXT, "name", "The stage whose task wrote or read it."),
    Column("task", "int32", _NUMBER, "That task, from 0."),
    Column("attempt", "int32", _NUMBER, "The attempt at it, from 0."),
    Column("counts", "bool", _YES, "Of the attempt that counts, as in `tasks.parquet`."),
    Column("object", _TEXT, "name", "`<producer>-<task>/<consumer>-<part>`."),
    Column("producer", _TEXT, "name", "The stage that writes it."),
    Column("consumer", _TEXT, "name", "The stage that reads it."),
    Column("operation", _TEXT, "name", "`put` or `get`."),
    Column("began_ns", "int64", _NS, "The first request was handed to the kernel; since 1970-01-01 UTC."),
    Column("code_ns", "int64", _NS, "Making bytes of the value, before it, or a value of the bytes, after it."),
    Column("connect_ns", "int64", _NS, "Waiting for a connection, just before `began_ns`."),
    Column("wait_ns", "int64", _NS, "The store's part: an answer is awaited, and no more may be handed over."),
    Column("whole_ns", "int64", _NS, "From the request to the answer or the last byte; less `wait_ns` the network's."),
    Column("blob_bytes", "int64", "bytes", "The object's size."),
    Column("requests", "int32", _COUNT, "That the store was sent: more than one where it is cut into chunks."),
    Column("outcome", _TEXT, "name", "`ok`, `failed` or `unknown`."),
    Column("error", _TEXT, "code", "Why it was not `ok`; empty where it was."),
)
METADATA = {
    "description": "What the file is.",
    "schema": "Version of this description; a column that means something else has a new one.",
    "run_id": "The run.",
    "trial": "The trial's number in it, from 0.",
    "name": "The trial's name.",
    "store": "The store, as the plan names it.",
    "dags": "JSON, the trial's DAGs as planned.",
}
"""Keys of the files' own metadata."""


class DagFile(NamedTuple):
    """One of the three files."""

    name: str
    columns: tuple[Column, ...]
    description: str


EXECUTIONS_FILE = DagFile(
    "executions.parquet", EXECUTIONS, "Stepbench: one row for the end of each execution of a DAG, by its identity."
)
TASKS_FILE = DagFile(
    "tasks.parquet", TASKS, "Stepbench: one row for each attempt at a task that left a row, by execution and stage."
)
OBJECTS_FILE = DagFile(
    "objects.parquet", OBJECTS, "Stepbench: one row for each transfer of an object, in the order that tasks began them."
)
FILES = (EXECUTIONS_FILE, TASKS_FILE, OBJECTS_FILE)


class DagFileWriter:
    """Writes one of the files, a group of rows at a time. A context manager: at its end the file is whole."""

    def __init__(self, path: Path, file: DagFile, metadata: Mapping[str, str]) -> None:
        facts = {"description": file.description, "schema": str(DAGS_SCHEMA), **metadata}
        self._schema = _schema(file).with_metadata({key: facts[key] for key in METADATA})
        self._waiting: list[dict[str, Any]] = []
        self.rows = 0
        encoding = {each.name: "DELTA_BINARY_PACKED" for each in file.columns if each.type == "int64"}
        texts = [each.name for each in file.columns if each.type == _TEXT]
        self._writer = pq.ParquetWriter(
            path, self._schema, compression="zstd", use_dictionary=texts, column_encoding=encoding
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        self._writer.close()

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows, as columns by name."""
        self._waiting += rows
        if len(self._waiting) >= ROWS_PER_GROUP:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
        self.rows += len(self._waiting)
        self._waiting = []


def _schema(file: DagFile) -> pa.Schema:
    return pa.schema(
        [pa.field(each.name, _TYPES[each.type], nullable=False, metadata=each.metadata) for each in file.columns]
    )


def describe_dag_columns() -> str:
    """Return the tables of `docs/records.md`, as Markdown; no column is ever null."""
    parts = []
    for file in FILES:
        own = [each for each in file.columns if file is EXECUTIONS_FILE or each not in _EXECUTION]
        rows = [(f"`{each.name}`", _shown(each.type), each.unit, each.description) for each in own]
        same = "" if file is EXECUTIONS_FILE else "The first seven columns are those of `executions.parquet`; then:\n\n"
        table = describe_table(("column", "type", "unit", "meaning"), rows)
        parts.append(f"## Columns of `{file.name}`\n{same}{table}")
    keys = [(f"`{key}`", meaning) for key, meaning in METADATA.items()]
    return "\n\n".join([*parts, f"## Metadata of these three\n{describe_table(('key', 'meaning'), keys)}"])


def _shown(type_: str) -> str:
    return "string" if type_ in {_TEXT, _NAME} else type_
