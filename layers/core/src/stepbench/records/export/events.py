"""Offered events as `records.parquet`, a row each, sorted by t0."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepbench.contracts.tasks import ExportRecordsOutput
from stepbench.contracts.workload import OPERATION_KINDS
from stepbench.records.formats.parquet import DESCRIPTION, METADATA, RECORDS_SCHEMA, ExportedPhase, columns_of
from stepbench.records.join.reader import read_records
from stepbench.records.join.sent import NO_ATTEMPT
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import StateError
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.reader import TrialRecords
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

ROWS_PER_GROUP = 1_000_000
_SAMPLE = 100
"""One of so many events is read to find where a row group ends."""
OUTCOMES = ("ok", "failed", "unknown", "unsent", "unrecorded")
_KINDS = tuple(kind.name.lower() for kind in OPERATION_KINDS)


def export_events(spec: TrialSpec, failure: StateError, runs: RunStore, table: TrialTable) -> ExportRecordsOutput:
    """
    Write the file, and return its key and how many rows it has.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    records = read_records(spec, runs, table, details=True)
    records = replace(records, broken_off=bool(failure.Error))
    key = layout.trial_key(spec.ref, "records.parquet")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        rows = _write(path, spec, records.joined, _metadata(records, failure.Error))
        runs.put_file(key, path)
    return ExportRecordsOutput(key=key, rows=rows)


def _metadata(records: TrialRecords, failure: str) -> dict[str, str]:
    """Return what the file says of its trial: with it, the report's numbers can be computed from the rows."""
    spec, joined = records.spec, records.joined
    facts = {
        "run_id": spec.run_id,
        "trial": spec.index,
        "name": spec.name,
        "store": spec.plan.target.store,
        "experiment": spec.plan.experiment,
        "drain_limit_s": spec.offered.drain_limit_s,
        "failure": failure,
        "phases": [phase.model_dump() for phase in _phases(records)],
        "beside": {"canaries": joined.canaries, "unmatched": joined.unmatched},
    }
    values = {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
    values |= {"description": DESCRIPTION, "schema": str(RECORDS_SCHEMA), "PANDAS_ATTRS": json.dumps(facts)}
    return {key: values[key] for key in METADATA}


def _phases(records: TrialRecords) -> Iterator[ExportedPhase]:
    for number, phase in enumerate(records.spec.plan.phases):
        if number in records.starts_ns:
            offered_s, closed = records.offered_s(number), phase.closed
            yield ExportedPhase(
                name=phase.name,
                measured=phase.measured,
                start_ns=records.starts_ns[number],
                offered_s=offered_s,
                windows=phase.all_windows(offered_s),
                clients=closed.clients if closed else None,
                think_ms=closed.think_ms if closed else None,
                offers_number=phase.offers_number,
            )


def _write(path: Path, spec: TrialSpec, joined: Joined, metadata: dict[str, str]) -> int:
    schema = _table(spec, joined.part(0, 0)).schema.with_metadata(metadata)
    # Times grow slowly and are all different: differences suit them, dictionaries do not.
    names = schema.names
    encoding = {name: "DELTA_BINARY_PACKED" for name in names if name.endswith("_ns") or name == "sequence"}
    texts = [name for name in ("phase", "outcome", "error", "kind") if name in names]
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=texts, column_encoding=encoding) as writer:
        for table in _in_groups(_in_order(spec, joined)):
            writer.write_table(table.replace_schema_metadata(metadata))
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
        columns.update(_of_operations(joined))
    described = columns_of(arrives=grid.arrives)
    columns = {name: column for name, column in columns.items() if name in described}
    fields = [pa.field(name, column.type, metadata=described[name].metadata) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _of_operations(joined: Joined) -> dict[str, pa.Array]:
    columns = {name: pa.array(column.astype(np.int64)) for name, column in joined.extras.items()}
    if "kind" in columns:
        columns["kind"] = _text(_KINDS, joined.extras["kind"])
    return columns


def _time(column: NDArray[np.int64]) -> pa.Array:
    return pa.array(column, mask=column == 0)


def _text(names: tuple[str, ...] | list[str], codes: NDArray[np.generic]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))
