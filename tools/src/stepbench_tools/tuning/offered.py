"""
The load of an evaluation: clients that put and get blobs without a pause, and how many requests a second that makes.

Each client has a ring of keys that it writes again and again, as executions of a DAG do whose objects are removed in
the end: files have to be merged, and the store's data stays bounded. It reads what it has written, in an order that
follows from its number. A failed request ends the evaluation.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.tuning import StoreWorkload
    from stepbench.drivers.blobs import BlobStore

RING_BYTES, FEWEST_KEYS, MOST_KEYS = 64 * 2**20, 4, 256
"""What all clients' keys hold together, about; and how many a client has at least and at most."""
_ROUNDING = 1e-9


class Turn(NamedTuple):
    """A stretch of load. tag: what keys begin with. counted_s: how long it is."""

    tag: str
    workload: StoreWorkload
    counted_s: float


def reads_of(workload: StoreWorkload) -> Iterator[bool]:
    """Yield whether the next request reads, by the workload's share exactly; the first one writes."""
    owed = 0.0
    yield False
    while True:
        owed += workload.read_share
        reads = owed >= 1 - _ROUNDING
        owed -= reads
        yield reads


def keys_of(workload: StoreWorkload) -> int:
    """Return how many keys each client writes."""
    return max(FEWEST_KEYS, min(MOST_KEYS, RING_BYTES // (workload.blob_bytes * workload.clients)))


async def offer(store: BlobStore, turn: Turn, clock: Clock) -> float:
    """
    Return the throughput of an open store, in requests a second.

    Raises:
        TargetUnavailableError: a request failed.
    """
    end_ns = clock.now_ns() + round(turn.counted_s * 1e9)
    counts = await asyncio.gather(*(_client(store, each, turn, end_ns, clock) for each in range(turn.workload.clients)))
    return sum(counts) / turn.counted_s


async def _client(store: BlobStore, number: int, turn: Turn, end_ns: int, clock: Clock) -> int:
    """Return how many of one client's requests were answered until the end."""
    workload, rng = turn.workload, random.Random(number)  # noqa: S311 -- load, no secret
    blob, keys, written, count = rng.randbytes(workload.blob_bytes), keys_of(workload), 0, 0
    for reads in reads_of(workload):
        if reads:
            _, transfer = await store.get(f"{turn.tag}/{number}-{rng.randrange(min(written, keys))}")
        else:
            transfer = await store.put(f"{turn.tag}/{number}-{written % keys}", blob)
            written += 1
        if transfer.outcome is not Outcome.OK:
            message = f"a {'get' if reads else 'put'} of {workload.blob_bytes:,} bytes failed: {transfer.error}"
            raise TargetUnavailableError(message)
        if clock.now_ns() >= end_ns:
            break
        count += 1
    return count
