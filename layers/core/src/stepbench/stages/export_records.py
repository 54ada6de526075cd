"""Task `ExportRecords`: one row per offered event as `records.parquet`, sorted by t0."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepbench.contracts.tasks import ExportRecordsInput, ExportRecordsOutput
from stepbench.contracts.workload import OPERATION_KINDS
from stepbench.records.join.reader import read_records
from stepbench.records.join.sent import NO_ATTEMPT
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.join.joined import Joined
    from stepbench.stages.services import Services

ROWS_PER_GROUP = 1_000_000
_SAMPLE = 100
"""One of so many events is read to find where a row group ends."""
OUTCOMES = ("ok", "failed", "unknown", "unsent", "unrecorded")
_TIME = "ns since the epoch; null = none"
_UNITS = {
    "phase": "name of the phase",
    "writer": "number, from 0",
    "slice": "number within the phase, from 0",
    "attempt": "number, from 0; null = none is known",
    "sequence": "within the writer's slice, from 0",
    "t0_ns": f"intended send time, {_TIME}",
    "t1_ns": f"request handed to the kernel, writer's clock, {_TIME}",
    "t2_ns": f"answer in hand, writer's clock, {_TIME}",
    "t3_ns": f"the store's own event time, {_TIME}",
    "t4_ns": f"first arrival, receiver's clock, {_TIME}",
    "outcome": "ok, failed, unknown, unsent or unrecorded",
    "error": "the store's error code; empty = none",
    "matching": "to pass the trigger's filter; true where there is none",
    "arrivals": "deliveries, the first included",
    "retried": "of them, Lambda's own retries",
    "late": "the first delivery came after the drain limit",
    "out_of_order": "arrived after an event of the same writer that was due later",
    "batch": "records delivered together with it",
    "batch_index": "its place among them, from 0",
    "cold": "received by a sandbox's first invocation",
    "watch_gap": "acknowledged while nobody watched: t4 is when the watch was taken up again",
    "client": "number over all writers; in open loop, of the connection",
    "kind": "of the operation; of what was not recorded, read",
    "retries": "after conflicts, by the driver",
    "connect_ns": "making a connection for this operation, ns",
    "tls_ns": "of it, the TLS handshake, ns",
    "authenticate_ns": "of it, authentication, ns",
    "operate_ns": "the operation itself on that connection, ns",
}
_ARRIVAL = frozenset(
    (
        "t3_ns",
        "t4_ns",
        "matching",
        "arrivals",
        "retried",
        "late",
        "out_of_order",
        "batch",
        "batch_index",
        "cold",
        "watch_gap",
    )
)
"""Columns of triggers only."""
_KINDS = tuple(kind.name.lower() for kind in OPERATION_KINDS)


def export_records(task: ExportRecordsInput, services: Services) -> ExportRecordsOutput:
    """
    Write the file.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec = services.trial(task.ref)
    joined = read_records(spec, services.runs, services.table, details=True).joined
    key = layout.trial_key(task.ref, "records.parquet")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        rows = _write(path, spec, joined)
        services.runs.put_file(key, path)
    return ExportRecordsOutput(key=key, rows=rows)


def _write(path: Path, spec: TrialSpec, joined: Joined) -> int:
    schema = _table(spec, joined.part(0, 0)).schema
    # Times grow slowly and are all different: differences suit them, dictionaries do not.
    names = schema.names
    encoding = {name: "DELTA_BINARY_PACKED" for name in names if name.endswith("_ns") or name == "sequence"}
    texts = [name for name in ("phase", "outcome", "error", "kind") if name in names]
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=texts, column_encoding=encoding) as writer:
        for table in _in_groups(_in_order(spec, joined)):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _in_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, as many in each table as a row group has."""
    waiting = None
    for table in tables:
        waiting = table if waiting is None else pa.concat_tables([waiting, table])
        while waiting.num_rows >= ROWS_PER_GROUP:
            yield waiting.slice(0, ROWS_PER_GROUP)
            waiting = waiting.slice(ROWS_PER_GROUP)
    if waiting is not None and waiting.num_rows:
        yield waiting


def _in_order(spec: TrialSpec, joined: Joined) -> Iterator[pa.Table]:
    """
    Yield what was offered, by t0, about a row group at a time.

    Some milliseconds of all slots at a time: in order of time within each of them, so none is looked at twice.
    """
    for first_ns, end_ns in _spans(joined):
        parts = [_due_between(joined.of_slot(slot), first_ns, end_ns) for slot in range(joined.grid.count.size)]
        tables = [_table(spec, part).filter(pa.array(which & part.offered)) for part, which in parts if part.size]
        if tables:
            table = pa.concat_tables(tables)
            yield table.take(pa.array(np.argsort(table["t0_ns"].to_numpy(), kind="stable")))


def _spans(joined: Joined) -> Iterator[tuple[int, int]]:
    """Yield spans of time, [first, end), with some `ROWS_PER_GROUP` events in each."""
    every = max(1, min(_SAMPLE, joined.size))
    t0_ns = np.sort(np.concatenate([np.empty(0, np.int64), *(part.t0_ns[::every] for part in joined.parts())]))
    edges = t0_ns[:: max(1, ROWS_PER_GROUP // every)].tolist()
    latest = np.iinfo(np.int64).max
    yield from pairwise([np.iinfo(np.int64).min, *sorted(set(edges[1:])), latest])


def _due_between(events: Joined, first_ns: int, end_ns: int) -> tuple[Joined, NDArray[np.bool_]]:
    """Return the smallest stretch of a slot's events that holds all due in the span, and which of it are."""
    t0_ns = events.t0_ns
    inside = (t0_ns >= first_ns) & (t0_ns < end_ns)
    held = np.nonzero(inside)[0]
    if held.size == 0:
        return events.part(events.first, events.first), inside[:0]
    low, high = int(held[0]), int(held[-1]) + 1
    return events.part(events.first + low, events.first + high), inside[low:high]


def _table(spec: TrialSpec, joined: Joined) -> pa.Table:
    grid, slot, attempt = joined.grid, joined.slot, joined.attempt
    columns = {
        "phase": _text([phase.name for phase in spec.plan.phases], grid.phase[slot]),
        "writer": pa.array(grid.writer[slot].astype(np.uint16)),
        "slice": pa.array(grid.slice[slot].astype(np.uint16)),
        "attempt": pa.array(attempt, mask=attempt == NO_ATTEMPT),
        "sequence": pa.array(joined.sequence),
        "t0_ns": pa.array(joined.t0_ns),
        "t1_ns": _time(joined.t1_ns),
        "t2_ns": _time(joined.t2_ns),
        "t3_ns": _time(joined.t3_ns),
        "t4_ns": _time(joined.t4_ns),
        "outcome": _text(OUTCOMES, np.minimum(joined.outcome, len(OUTCOMES) - 1)),  # what was not offered is left out
        "error": _text(joined.errors, joined.error),
        "matching": pa.array(joined.matching),
        "arrivals": pa.array(joined.arrivals.astype(np.int32)),
        "retried": pa.array(joined.retried.astype(np.int32)),
        "late": pa.array(joined.late),
        "out_of_order": pa.array(joined.disorder),
        "batch": pa.array(joined.batch.astype(np.int32)),
        "batch_index": pa.array(joined.batch_index),
        "cold": pa.array(joined.cold),
        "watch_gap": pa.array(joined.watch_gap),
    }
    if not grid.arrives:
        columns = {name: column for name, column in columns.items() if name not in _ARRIVAL}
        columns.update(_of_operations(joined))
    fields = [pa.field(name, column.type, metadata={"unit": _UNITS[name]}) for name, column in columns.items()]
    about = {"run_id": spec.run_id, "trial": str(spec.index), "name": spec.name, "store": spec.plan.target.store}
    return pa.table(list(columns.values()), schema=pa.schema(fields, metadata=about))


def _of_operations(joined: Joined) -> dict[str, pa.Array]:
    columns = {name: pa.array(column.astype(np.int64)) for name, column in joined.extras.items()}
    if "kind" in columns:
        columns["kind"] = _text(_KINDS, joined.extras["kind"])
    return columns


def _time(column: NDArray[np.int64]) -> pa.Array:
    return pa.array(column, mask=column == 0)


def _text(names: tuple[str, ...] | list[str], codes: NDArray[np.generic]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))
