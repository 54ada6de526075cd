"""
The load of an evaluation: clients that put and get blobs without a pause, and how many requests a second that makes.

Each client has a ring of keys that it writes again and again, as executions of a DAG do whose objects are removed in
the end: files have to be merged, and the store's data stays bounded. It reads what it has written, in an order that
follows from its number. Requests are counted from a warm-up's end on; a failed one ends the evaluation.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import TargetUnavailableError
from stepbench.model.result import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.tuned import StoreWorkload
    from stepbench.drivers.blobs import BlobStore

RING_BYTES, FEWEST_KEYS, MOST_KEYS = 64 * 2**20, 4, 256
"""What all clients' keys hold together, about; and how many a client has at least and at most."""
WARM_UP_S, TURN_S = 10.0, 4.0
"""A JVM that was just started serves faster with each second."""
_ROUNDING = 1e-9


class Turn(NamedTuple):
    """A stretch of load. tag: what keys begin with. warm_up_s: nothing is counted yet."""

    tag: str
    workload: StoreWorkload
    warm_up_s: float
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


async def offer(stores: Sequence[BlobStore], turn: Turn, clock: Clock) -> float:
    """
    Return the throughput, in requests a second; the stores are open, and clients share them in turns.

    Raises:
        TargetUnavailableError: a request failed.
    """
    from_ns = clock.now_ns() + round(turn.warm_up_s * 1e9)
    window = from_ns, from_ns + round(turn.counted_s * 1e9)
    clients = range(turn.workload.clients)
    counts = await asyncio.gather(*(_client(stores[each % len(stores)], each, turn, window, clock) for each in clients))
    return sum(counts) / turn.counted_s


async def _client(store: BlobStore, number: int, turn: Turn, window: tuple[int, int], clock: Clock) -> int:
    """Return how many of one client's requests were answered within the window."""
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
        now_ns = clock.now_ns()
        if now_ns >= window[1]:
            break
        count += now_ns >= window[0]
    return count
