"""Task `ExportRecords`: one row per offered event as `records.parquet`, sorted by t0."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepbench.contracts.tasks import ExportRecordsInput, ExportRecordsOutput
from stepbench.contracts.workload import Kind
from stepbench.records import layout
from stepbench.records.reader import read_records
from stepbench.records.sent import NO_ATTEMPT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.join import Joined
    from stepbench.stages.services import Services

ROWS_PER_GROUP = 1_000_000
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
    "client": "number over all writers; in open loop, of the connection",
    "kind": "of the operation; of what was not recorded, read",
    "retries": "after conflicts, by the driver",
    "connect_ns": "making a connection for this operation, ns",
    "tls_ns": "of it, the TLS handshake, ns",
    "authenticate_ns": "of it, authentication, ns",
    "operate_ns": "the operation itself on that connection, ns",
}
_ARRIVAL = frozenset(
    ("t3_ns", "t4_ns", "matching", "arrivals", "retried", "late", "out_of_order", "batch", "batch_index", "cold")
)
"""Columns of triggers only."""
_KINDS = tuple(kind.name.lower() for kind in Kind)


def export_records(task: ExportRecordsInput, services: Services) -> ExportRecordsOutput:
    """
    Write the file.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec = services.trial(task.ref)
    joined = read_records(spec, services.runs, services.table).joined()
    key = layout.trial_key(task.ref, "records.parquet")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        rows = _write(path, spec, joined)
        services.runs.put_file(key, path)
    return ExportRecordsOutput(key=key, rows=rows)


def _write(path: Path, spec: TrialSpec, joined: Joined) -> int:
    order = np.argsort(joined.t0_ns, kind="stable")
    order = order[joined.offered[order]]
    schema = _table(spec, joined, order[:0]).schema
    # Times grow slowly and are all different: differences suit them, dictionaries do not.
    names = schema.names
    encoding = {name: "DELTA_BINARY_PACKED" for name in names if name.endswith("_ns") or name == "sequence"}
    texts = [name for name in ("phase", "outcome", "error", "kind") if name in names]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=texts, column_encoding=encoding) as writer:
        for first in range(0, order.size, ROWS_PER_GROUP):
            writer.write_table(_table(spec, joined, order[first : first + ROWS_PER_GROUP]))
    return order.size


def _table(spec: TrialSpec, joined: Joined, rows: NDArray[np.int64]) -> pa.Table:
    grid, slot = joined.grid, joined.slot[rows]
    attempt = joined.attempt[rows]
    columns = {
        "phase": _text([phase.name for phase in spec.plan.phases], grid.phase[slot]),
        "writer": pa.array(grid.writer[slot].astype(np.uint16)),
        "slice": pa.array(grid.slice[slot].astype(np.uint16)),
        "attempt": pa.array(attempt, mask=attempt == NO_ATTEMPT),
        "sequence": pa.array(joined.sequence[rows]),
        "t0_ns": pa.array(joined.t0_ns[rows]),
        "t1_ns": _time(joined.t1_ns[rows]),
        "t2_ns": _time(joined.t2_ns[rows]),
        "t3_ns": _time(joined.t3_ns[rows]),
        "t4_ns": _time(joined.t4_ns[rows]),
        "outcome": _text(OUTCOMES, joined.outcome[rows]),
        "error": _text(joined.errors, joined.error[rows]),
        "matching": pa.array(joined.matching[rows]),
        "arrivals": pa.array(joined.arrivals[rows].astype(np.int32)),
        "retried": pa.array(joined.retried[rows].astype(np.int32)),
        "late": pa.array(joined.late[rows]),
        "out_of_order": pa.array(joined.disorder[rows]),
        "batch": pa.array(joined.batch[rows].astype(np.int32)),
        "batch_index": pa.array(joined.batch_index[rows]),
        "cold": pa.array(joined.cold[rows]),
    }
    if not grid.arrives:
        columns = {name: column for name, column in columns.items() if name not in _ARRIVAL}
        columns.update(_of_operations(joined, rows))
    fields = [pa.field(name, column.type, metadata={"unit": _UNITS[name]}) for name, column in columns.items()]
    about = {"run_id": spec.run_id, "trial": str(spec.index), "name": spec.name, "store": spec.plan.target.store}
    return pa.table(list(columns.values()), schema=pa.schema(fields, metadata=about))


def _of_operations(joined: Joined, rows: NDArray[np.int64]) -> dict[str, pa.Array]:
    columns = {name: pa.array(column[rows]) for name, column in joined.extras.items()}
    if "kind" in columns:
        columns["kind"] = _text(_KINDS, joined.extras["kind"][rows])
    return columns


def _time(column: NDArray[np.int64]) -> pa.Array:
    return pa.array(column, mask=column == 0)


def _text(names: tuple[str, ...] | list[str], codes: NDArray[np.generic]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))
