"""
A trial's records as writers and receivers leave them, made up, in a folder: what `benchmarks.analysis` reads.

    plan.json             a trial of DynamoDB's stream: 10 writers, 4,000 events a second, constant
    writers/*.sbc         column files, one a writer every 10 s, as `records.flusher` flushes them
    items/<shard>.pickle  t4 items as attribute maps, pages of 1 MB, by request id as a table returns them
    rows.parquet, arrivals.parquet   the same rows and arrivals, plain, for others to join
    raw/*.<type>          eight of their columns as they are: t0, t1, t2, outcome; event, place in the batch, t4, t3

    python -m benchmarks.trial_files FOLDER EVENTS

Times look like DynamoDB's: service some 3 ms, 1 % ten times that; a stream of 8 shards, batches of 100, some 100 ms.
"""

from __future__ import annotations

import json
import pickle
import sys
import uuid
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.analysis_runs import START_NS

from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.records.formats.columns import ColumnHeader, Rows, encode
from stepbench.records.formats.t4 import pack_rows
from stepbench.records.storage.layout import T4_SHARDS, attempt_id, t4_shard, t4_sk
from stepbench.workload.arrivals import slice_offsets_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

WRITERS, RATE_PER_S, FLUSH_S = 10, 4_000, 10
STREAM_SHARDS, BATCH = 8, 100
RARE, SLOW = 1e-4, 0.01
"""The shares of events that are lost, or come twice; of writes that take ten times as long."""
ROWS_PER_GROUP = 1_000_000
PAGE_BYTES = 1 << 20
_TIMES = ("t0_ns", "t1_ns", "t2_ns")
_SECOND_NS = 10**9
ENTRY_TYPE = np.dtype(
    [
        ("phase", "u1"),
        ("attempt", "u1"),
        ("writer", "<u2"),
        ("slice", "<u2"),
        ("batch_index", "<u2"),
        ("sequence", "<u4"),
        ("t4_ns", "<i8"),
        ("t3_ns", "<i8"),
        ("position", "<i8"),
    ]
)


def spec_of(events: int, arrivals: str = "constant") -> TrialSpec:
    """Return the trial."""
    plan = TrialPlan.model_validate(
        {
            "target": {"store": "dynamodb"},
            "phases": [{"name": "steady", "load": [{"rate_per_s": RATE_PER_S, "count": events}]}],
            "writers": WRITERS,
            "arrivals": arrivals,
        }
    )
    return TrialSpec(run_id="benchmark", index=0, name="analysis", tag="0" * 12, plan=plan, estimate_usd=0)


class Flush(NamedTuple):
    """One writer's rows of `FLUSH_S` seconds."""

    header: ColumnHeader
    rows: Rows

    @property
    def name(self) -> str:
        """Return the name of its file."""
        head = self.header
        return f"{attempt_id(head.phase, head.writer, head.slice, head.attempt)}-{head.flush:06d}.sbc"


class MadeUp:
    """All of a trial's flushes in order of time, and what arrived of them."""

    def __init__(self, spec: TrialSpec, seed: int = 1) -> None:
        self._spec = spec
        self._rng = np.random.default_rng(seed)
        self._ref = spec.ref

    @cached_property
    def _slices(self) -> int:
        return self._spec.offered.phases[0].slices

    def turns(self) -> Iterator[list[Flush]]:
        """Yield all writers' flushes, ten seconds at a time."""
        for slice_ in range(self._slices):
            due = [slice_offsets_ns(self._spec.offered, 0, writer, slice_) + START_NS for writer in range(WRITERS)]
            begin = START_NS + slice_ * 600 * _SECOND_NS
            ends = [np.searchsorted(own, np.arange(1, 61) * FLUSH_S * _SECOND_NS + begin) for own in due]
            last = max(int(np.searchsorted(end, own.size)) for own, end in zip(due, ends, strict=True))
            for flush in range(last + 1):
                turn = [(int(end[flush - 1]) if flush else 0, int(end[flush])) for end in ends]
                yield [
                    Flush(self._header(writer, slice_, flush, last=flush == last), self._rows(due[writer], *span))
                    for writer, span in enumerate(turn)
                ]

    def _header(self, writer: int, slice_: int, flush: int, *, last: bool) -> ColumnHeader:
        return ColumnHeader(
            ref=self._ref, phase=0, writer=writer, slice=slice_, attempt=0, flush=flush, last=last, drift_ns=None
        )

    def _rows(self, due_ns: NDArray[np.int64], first: int, end: int) -> Rows:
        n = end - first
        t0_ns = due_ns[first:end]
        t1_ns = t0_ns + self._rng.lognormal(np.log(8_000), 0.8, n).astype(np.int64)
        service_ms = self._rng.lognormal(np.log(3), 0.3, n) * np.where(self._rng.random(n) < SLOW, 10, 1)
        t2_ns = t1_ns + (service_ms * 1e6).astype(np.int64)
        zeros = np.zeros(n, dtype=np.uint8)
        return Rows(np.arange(first, end), t0_ns, t1_ns, t2_ns, zeros, zeros.astype(np.uint16))

    def batches(self, turn: list[Flush]) -> Iterator[NDArray[np.void]]:
        """Yield what the stream delivers of ten seconds, a batch at a time; few are lost, and as few come twice."""
        entries = np.zeros(sum(each.rows.sequence.size for each in turn), dtype=ENTRY_TYPE)
        entries["writer"] = np.repeat([each.header.writer for each in turn], [each.rows.sequence.size for each in turn])
        entries["slice"] = turn[0].header.slice
        entries["sequence"] = np.concatenate([each.rows.sequence for each in turn])
        t2_ns = np.concatenate([each.rows.t2_ns for each in turn])
        entries["t3_ns"] = t2_ns // _SECOND_NS * _SECOND_NS
        shard = self._rng.integers(0, STREAM_SHARDS, entries.size)
        for number in range(STREAM_SHARDS):
            own = np.nonzero(shard == number)[0]
            lost, twice = self._rng.random((2, own.size)) < RARE
            own = np.concatenate([own[~lost], own[twice]])
            own = own[np.argsort(t2_ns[own], kind="stable")]
            for first in range(0, own.size, BATCH):
                batch = entries[own[first : first + BATCH]]
                batch["batch_index"] = np.arange(batch.size)
                batch["t4_ns"] = t2_ns[own[first : first + BATCH]].max() + int(self._rng.uniform(20e6, 120e6))
                yield batch


def write(folder: Path, spec: TrialSpec) -> None:
    """Write everything of the trial."""
    (folder / "writers").mkdir(parents=True)
    (folder / "items").mkdir()
    (folder / "plan.json").write_text(spec.model_dump_json(), encoding="utf-8")
    made, shards = MadeUp(spec), defaultdict[int, list[dict[str, Any]]](list)
    rows, arrivals = _Columns(), _Columns()
    for turn in made.turns():
        for flush in turn:
            (folder / "writers" / flush.name).write_bytes(encode(flush.header, flush.rows))
        rows.add(_columns_of(turn))
        batches = list(made.batches(turn))
        whole = np.concatenate(batches)
        arrivals.add({name: whole[name] for name in whole.dtype.names or ()})
        for batch in batches:
            item = _item(batch)
            shards[t4_shard(item["sk"].split("#")[0])].append(item)
    for shard in range(T4_SHARDS):
        _write_pages(folder / "items" / f"{shard:02d}.pickle", sorted(shards[shard], key=lambda item: item["sk"]))
    _write_plain(folder, rows.whole(), arrivals.whole())


def _item(batch: NDArray[np.void]) -> dict[str, Any]:
    request = str(uuid.uuid4())
    return {
        "sk": t4_sk(request, int(batch["t4_ns"][0])),
        "n": batch.size,
        "entries": pack_rows(batch.tobytes()),
        "sandbox": request[:8],
        "cold": request.startswith("000"),
        "init_ns": 250_000_000,
        "batch": batch.size,
        "source": "receiver",
        "t3_resolution_ns": _SECOND_NS,
        "ignored": 0,
    }


def _write_pages(path: Path, items: list[dict[str, Any]]) -> None:
    per_page = max(1, PAGE_BYTES // (BATCH * ENTRY_TYPE.itemsize))
    with path.open("wb") as file:
        for first in range(0, len(items), per_page):
            pickle.dump(items[first : first + per_page], file, protocol=5)


class _Columns:
    """Columns that come in parts, by name."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = defaultdict(list)

    def add(self, part: dict[str, NDArray[Any]]) -> None:
        """Add a part of each column."""
        for name, values in part.items():
            self._parts[name].append(values)

    def whole(self) -> dict[str, NDArray[Any]]:
        """Return the whole columns."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


def _columns_of(turn: list[Flush]) -> dict[str, NDArray[Any]]:
    """Return the columns of all writers' rows of one turn."""
    size = [flush.rows.sequence.size for flush in turn]
    return {
        "writer": np.repeat(np.array([flush.header.writer for flush in turn], np.uint16), size),
        "slice": np.repeat(np.array([flush.header.slice for flush in turn], np.uint16), size),
        "sequence": np.concatenate([flush.rows.sequence for flush in turn]).astype(np.uint32),
        **{name: np.concatenate([getattr(flush.rows, name) for flush in turn]) for name in (*_TIMES, "outcome")},
    }


def _write_plain(folder: Path, rows: dict[str, NDArray[Any]], arrivals: dict[str, NDArray[Any]]) -> None:
    """Write the Parquet files, and the raw columns."""
    for name, columns, kept in (
        ("rows", rows, ("writer", "slice", "sequence", *_TIMES, "outcome")),
        ("arrivals", arrivals, ("writer", "slice", "sequence", "batch_index", "t4_ns")),
    ):
        table = pa.table({column.removesuffix("_ns"): columns[column] for column in kept})
        # No dictionaries: what is quickest to read.
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=ROWS_PER_GROUP, use_dictionary=False)
    event = arrivals["sequence"].astype(np.uint32) * np.uint32(WRITERS) + arrivals["writer"].astype(np.uint32)
    raw = {name: rows[name] for name in (*_TIMES, "outcome")} | {"event": event}
    raw |= {name: arrivals[name] for name in ("batch_index", "t4_ns", "t3_ns")}
    (folder / "raw").mkdir()
    for name, column in raw.items():
        column.tofile(folder / "raw" / f"{name}.{column.dtype.str[1:]}")


def main() -> None:
    """Make one, and print how large a record is in its column files."""
    folder, events = Path(sys.argv[1]), int(sys.argv[2])
    write(folder, spec_of(events))
    print(json.dumps({"bytes": sum(path.stat().st_size for path in (folder / "writers").iterdir()) / events}))


if __name__ == "__main__":
    main()
