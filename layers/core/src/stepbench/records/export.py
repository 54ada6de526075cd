"""Offered events as `records.parquet`, a row each, sorted by t0."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stepbench.contracts.tasks import ExportRecordsOutput
from stepbench.contracts.workload import OPERATION_KINDS
from stepbench.records.formats.parquet import (
    ABOUT_TRIAL,
    Column,
    FileSchema,
    FileWriter,
    describe_columns,
    describe_metadata,
)
from stepbench.records.join.reader import read_records
from stepbench.records.join.sent import NO_ATTEMPT, none_of
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
_NOT_SENT = "not sent, or no row of it was recorded"
_OFFERED = (
    Column(
        "phase", "category", "name", "The phase that offered it; `phases` in the file's metadata has its time zero."
    ),
    Column("writer", "uint16", "number", "The writer, from 0."),
    Column("slice", "uint16", "number", "The slice of at most 10 minutes of its phase, from 0."),
    Column(
        "attempt", "uint8", "number", "The writer's attempt at its slice, from 0.", "neither row nor arrival has it"
    ),
    Column("sequence", "int64", "number", "Place within the writer's slice (in closed loop: of the attempt), from 0."),
    Column("t0_ns", "int64", "ns", "Intended send time, by the schedule; in closed loop when the client was ready."),
    Column("t1_ns", "int64", "ns", "The request was handed to the kernel; the writer's clock.", _NOT_SENT),
    Column("t2_ns", "int64", "ns", "The answer was in hand, or was given up; the writer's clock.", _NOT_SENT),
    Column("outcome", "category", "name", "`ok`, `failed`, `unknown` (sent, and no answer), `unsent` or `unrecorded`."),
    Column("error", "category", "code", "The store's error; empty where there is none."),
)
_ARRIVALS = (
    Column("t3_ns", "int64", "ns", "The store's own time of the event.", "not arrived, or the store reports none"),
    Column("t4_ns", "int64", "ns", "First arrival: the receiver's first statement, by its clock.", "not arrived"),
    Column("matching", "bool", "yes or no", "To pass the trigger's filter; yes where there is none."),
    Column(
        "arrivals",
        "int32",
        "count",
        "Deliveries, the first included; duplicates come after it, or are `processings`.",
    ),
    Column("retried", "int32", "count", "Of the duplicates, Lambda's own retries."),
    Column("late", "bool", "yes or no", "First delivered after the drain limit: counts as not arrived."),
    Column("out_of_order", "bool", "yes or no", "Arrived after an event of its writer that was due later."),
    Column("batch", "int32", "count", "Records that were delivered together with it, itself included; 0: not arrived."),
    Column("batch_index", "uint16", "number", "Its place among them, from 0."),
    Column("cold", "bool", "yes or no", "Received by a sandbox's first invocation."),
    Column("watch_gap", "bool", "yes or no", "Acknowledged while nobody watched: in no window's n, and no latency."),
    Column("unpaired", "bool", "yes or no", "Its t4 and t5 may be another event's: in no window's n, and no latency."),
)
_PROCESSING = (
    Column("t5_ns", "int64", "ns", "End of the first invocation that processed it.", "none has"),
    Column(
        "handler_ns",
        "int64",
        "ns",
        "From the handler's call to t5, of the first arrival's invocation.",
        "it never ended",
    ),
    Column("processed", "bool", "yes or no", "A measured function had processed it by the drain limit."),
    Column("tries", "plain int64", "count", "Deliveries until it was processed, or in vain."),
    Column("processings", "plain int64", "count", "Deliveries that processed it."),
)
_OPERATIONS = (
    Column("client", "plain int64", "number", "The client, over all writers; in open loop the connection."),
    Column("kind", "category", "name", "What the operation did; of what was not recorded, `read`."),
    Column("retries", "plain int64", "count", "Retries after conflicts, by the driver.", optional=True),
    Column("connect_ns", "int64", "ns", "Making a connection for this operation.", optional=True),
    Column("tls_ns", "int64", "ns", "Its TLS handshake.", optional=True),
    Column("authenticate_ns", "int64", "ns", "Its authentication.", optional=True),
    Column("operate_ns", "int64", "ns", "The operation itself on that connection.", optional=True),
)
_METADATA = ABOUT_TRIAL | {
    "experiment": "`trigger`, `operations` or `dataflow`.",
    "drain_limit_s": "Seconds that an arrival may take after the trial's last t2; one after that is `late`.",
    "failure": "The error that ended the trial; empty where none did.",
    "phases": "JSON, the phases that were planned: `name`; `measured`; `start_ns`, its time zero; `offered_s`, for how "
    "long; `windows`, each with its `name`, `from_s` and `to_s` after time zero; of closed loop `clients` and "
    "`think_ms`, of open loop null; of invocations by a Map `clients`, how many ran at once, and `invocations`, what "
    "each of them took, in ns; `offers_number`, whether it offers a number of events, not for a time.",
    "beside": "JSON, arrivals that are no event's, and so in no row: `canaries`, and `unmatched`, which name no event.",
    "PANDAS_ATTRS": "JSON, all of these but `description` and `schema`: what `pandas.read_parquet` returns as `attrs`.",
}
OUTCOMES = ("ok", "failed", "unknown", "unsent", "unrecorded")
_KINDS = tuple(kind.name.lower() for kind in OPERATION_KINDS)


def events_file(*, arrive: bool, processed: bool = False) -> FileSchema:
    """Return what files of events hold: of events that arrive, at a measured function or not, or of operations."""
    return FileSchema(
        (*_OFFERED, *(_ARRIVALS if arrive else _OPERATIONS), *(_PROCESSING if processed else ())),
        "Stepbench: one row for each event that a trial offered, by ascending t0, warm-ups included. "
        "Times are ns since 1970-01-01 UTC; every column has a unit, a description, and when it is null.",
        version=1,
        metadata=_METADATA,
        all_nullable=True,
        rows_per_group=ROWS_PER_GROUP,
    )


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
        rows = _write(path, spec, records.joined, _facts(records, failure.Error))
        runs.put_file(key, path)
    return ExportRecordsOutput(key=key, rows=rows)


def _facts(records: TrialRecords, failure: str) -> dict[str, str]:
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
        "phases": list(describe_phases(records)),
        "beside": {"canaries": joined.canaries, "unmatched": joined.unmatched},
    }
    values = {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
    return values | {"PANDAS_ATTRS": json.dumps(facts)}


def describe_phases(records: TrialRecords) -> Iterator[dict[str, Any]]:
    """Yield those that were planned, with windows as they were analysed: none of a phase that is not measured."""
    for number, phase in enumerate(records.spec.plan.phases):
        if number in records.starts_ns:
            offered_s, clients = records.offered_s(number), records.spec.offered.waiting_clients(number)
            yield {
                "name": phase.name,
                "measured": phase.measured,
                "start_ns": records.starts_ns[number],
                "offered_s": float(offered_s),
                "windows": [window.model_dump() for window in phase.all_windows(offered_s)],
                "clients": clients,
                "think_ms": phase.closed.think_ms if phase.closed else None,
                "offers_number": phase.offers_number,
                **_invocations(records, number),
            }


def _invocations(records: TrialRecords, phase: int) -> dict[str, Any]:
    """Return what each invocation took, with its begin and end, of a phase that has any."""
    own = (file.header for file in records.files if file.header.phase == phase)
    found = [
        {"writer": header.writer, "attempt": header.attempt, **header.invocation.model_dump()}
        for header in own
        if header.invocation is not None
    ]
    return {"invocations": found} if found else {}


def _write(path: Path, spec: TrialSpec, joined: Joined, facts: dict[str, str]) -> int:
    file, names = _file_of(joined), _table(spec, joined.part(0, 0)).column_names
    with FileWriter(path, file, facts, names) as writer:
        for table in _in_order(spec, joined):
            writer.add(table)
    return writer.written


def _file_of(joined: Joined) -> FileSchema:
    return events_file(arrive=joined.grid.arrives, processed=joined.processing is not None)


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
    file = _file_of(joined)
    columns = {
        "phase": _text([phase.name for phase in spec.plan.phases], grid.phase[slot]),
        "writer": grid.writer[slot],
        "slice": grid.slice[slot],
        "attempt": pa.array(attempt, mask=attempt == NO_ATTEMPT),
        "sequence": joined.sequence,
        "t0_ns": joined.t0_ns,
        "t1_ns": _time(joined.t1_ns),
        "t2_ns": _time(joined.t2_ns),
        "t3_ns": _time(joined.t3_ns),
        "t4_ns": _time(joined.t4_ns),
        "outcome": _text(OUTCOMES, np.minimum(joined.outcome, len(OUTCOMES) - 1)),  # what was not offered is left out
        "error": _text(joined.errors, joined.error),
        "matching": joined.matching,
        "arrivals": joined.arrivals,
        "retried": joined.retried,
        "late": joined.late,
        "out_of_order": joined.disorder,
        "batch": joined.batch,
        "batch_index": joined.batch_index,
        "cold": joined.cold,
        "watch_gap": joined.watch_gap,
        "unpaired": joined.unpaired,
        **_processing(joined),
        **joined.extras,
    }
    if "kind" in columns:
        columns["kind"] = _text(_KINDS, joined.extras["kind"])
    described = {each.name for each in file.columns}
    columns = {name: column for name, column in columns.items() if name in described}
    return pa.table(list(columns.values()), schema=file.arrow(columns))


def _processing(joined: Joined) -> dict[str, Any]:
    """Return the columns of a measured function; none of a trial without one."""
    found = joined.processing
    if found is None:
        return {}
    ended = found.handler_ns != none_of(found.handler_ns)
    tries = np.where(found.ever, found.tries_before.astype(np.int64) + 1, found.failed)
    return {
        "t5_ns": pa.array(np.where(found.ever, joined.t0_ns + found.processed_ns, 0), mask=~found.ever),
        "handler_ns": pa.array(found.handler_ns.astype(np.int64), mask=~ended),
        "processed": joined.processed,
        "tries": tries,
        "processings": found.again.astype(np.int64) + found.ever,
    }


def _time(column: NDArray[np.int64]) -> pa.Array:
    return pa.array(column, mask=column == 0)


def _text(names: tuple[str, ...] | list[str], codes: NDArray[np.generic]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string()))


def describe_event_columns() -> str:
    """Return the tables of `docs/records.md`, as Markdown."""
    titles = {
        "of every file": _OFFERED,
        "of triggers and DAGs only": _ARRIVALS,
        "of measured functions only": _PROCESSING,
        "of operations only": _OPERATIONS,
    }
    parts = [f"## Columns {title}\n{describe_columns(columns)}" for title, columns in titles.items()]
    return "\n\n".join([*parts, f"## Metadata of the file\n{describe_metadata(events_file(arrive=True))}"])
