"""
The records of one writer's slice, without the load: each event recorded, every ten seconds flushed. In a process.

    python -m benchmarks.recorded_slice dynamodb|s3 EVENTS [--outage]

Prints one line of JSON. `--outage`: bucket and table take nothing until the slice is over. Lateness and service times
are drawn; S3's version ids are 32 random characters, as AWS's are.
"""

from __future__ import annotations

import argparse
import json
import os
import string
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from tests.samples.records import REF, column_header

from stepbench.clock import SystemClock
from stepbench.contracts.identity import EventId
from stepbench.contracts.trial import Record
from stepbench.errors import RecordsUnavailableError
from stepbench.load.process import gc_paused
from stepbench.load.recorder import Recorder
from stepbench.model.request import Outcome, Result
from stepbench.records.storage.flusher import Flusher
from stepbench.workload.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import FilePointer, TrialTable

RATE_PER_S, FLUSH_S = 3_000, 10
STEP_EVENTS = 1_000
SERVICE_NS = {"dynamodb": 3_000_000, "s3": 25_000_000}
_LETTERS = np.frombuffer((string.ascii_letters + string.digits + "._").encode(), dtype=np.uint8)
_TOKEN_CHARS = 32
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Recorded(NamedTuple):
    """
    The room and time that a slice took.

    file_bytes: of a record in the column files. columns_mb: resident memory that is there before the first event, less
    that of a process that has just loaded what it needs. growth_mb: the most that came on top while events were
    recorded and flushed. flush_us: CPU of a record's flush.
    """

    file_bytes: float
    columns_mb: float
    growth_mb: float
    flush_us: float


class RecordStores:
    """Bucket and table that count what they take, or take nothing."""

    def __init__(self, *, out: bool) -> None:
        self.out = out
        self.taken_bytes = self.rows = 0

    def put_bytes(self, key: str, body: bytes) -> None:
        """Take an object, in the bucket's place."""
        if self.out:
            raise RecordsUnavailableError(key)
        self.taken_bytes += len(body)

    def add_file(self, _tag: str, pointer: FilePointer) -> None:
        """Take a pointer, in the table's place."""
        self.rows += pointer.rows


def resident_mb() -> float:
    """Return this process's resident memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES / 1e6


def answers(store: str, t0_ns: list[int], rng: np.random.Generator) -> Iterator[Result]:
    """Yield what a driver says of these events."""
    late_ns = rng.exponential(50_000, len(t0_ns)).astype(np.int64).tolist()
    service_ns = rng.lognormal(np.log(SERVICE_NS[store]), 0.3, len(t0_ns)).astype(np.int64).tolist()
    tokens = [""] * len(t0_ns)
    if store == "s3":
        letters = rng.choice(_LETTERS, (len(t0_ns), _TOKEN_CHARS))
        tokens = [row.tobytes().decode() for row in letters]
    for due_ns, late, service, token in zip(t0_ns, late_ns, service_ns, tokens, strict=True):
        yield Result(due_ns + late, due_ns + late + service, Outcome.OK, token)


def record_slice(store: str, events: int, *, outage: bool) -> Recorded:
    """Record a slice in this process, and say what it took."""
    stores, rng = RecordStores(out=outage), np.random.default_rng(7)
    loaded_mb = resident_mb()
    t0_ns = time.time_ns() + np.arange(events, dtype=np.int64) * (10**9 // RATE_PER_S)
    operation: Any = "update" if store == "s3" else "put"
    record = Record(operation=operation, distinct_keys=1_000 if store == "s3" else None, key_bytes=59, value_bytes=889)
    payloads = Payloads(record, EventId(REF.tag, 0, 0, 0, 0, 0), events, seed=7)
    recorder = Recorder(t0_ns)
    due_ns = recorder.t0_ns
    del t0_ns
    flusher = Flusher(cast("RunStore", stores), cast("TrialTable", stores), column_header())
    columns_mb = resident_mb() - loaded_mb
    most_mb, flush_s = 0.0, 0.0
    with gc_paused():
        for first in range(0, events, STEP_EVENTS):
            step_ns = due_ns[first : first + STEP_EVENTS].tolist()
            for row, written in enumerate(answers(store, step_ns, rng), first):
                payloads.write(row)
                recorder.record(row, written)
            if (first + STEP_EVENTS) % (RATE_PER_S * FLUSH_S) == 0:
                begun_s = time.process_time()
                flusher.add(recorder.hand_over(), recorder.errors)
                flusher.send()
                flush_s += time.process_time() - begun_s
                most_mb = max(most_mb, resident_mb())
    flusher.add(recorder.hand_over(), recorder.errors, last=True)
    most_mb = max(most_mb, resident_mb())
    stores.out = False
    flusher.finish(SystemClock())
    if stores.rows != events:
        message = f"{stores.rows} of {events} records arrived"
        raise RuntimeError(message)
    growth_mb = most_mb - loaded_mb - columns_mb
    return Recorded(stores.taken_bytes / events, columns_mb, growth_mb, flush_s / events * 1e6)


def main() -> None:
    """Record one slice, and print what it took."""
    parser = argparse.ArgumentParser(description="Record one slice, and say what it took.")
    parser.add_argument("store", choices=SERVICE_NS)
    parser.add_argument("events", type=int)
    parser.add_argument("--outage", action="store_true")
    asked = parser.parse_args()
    print(json.dumps(record_slice(asked.store, asked.events, outage=asked.outage)._asdict()))


if __name__ == "__main__":
    main()
