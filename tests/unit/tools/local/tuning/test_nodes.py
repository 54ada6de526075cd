"""Nodes that are measured in turns."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from tests.support.fake_clock import FakeClock

from stepbench.contracts.tuning import StoreWorkload
from stepbench.drivers.blobs import BlobTransfer
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome
from stepbench_tools.local.processes import wait_until
from stepbench_tools.local.tuning.nodes import TunedNode, Turn, keys_of, offer, reads_of

if TYPE_CHECKING:
    from stepbench.drivers.blobs import BlobStore


WORKLOAD = StoreWorkload(read_share=0.75, blob_bytes=1_000, clients=1)


class Blobs:
    """Takes 10 ms for each request."""

    def __init__(self, clock: FakeClock, outcome: Outcome = Outcome.OK) -> None:
        self.asked: Counter[str] = Counter()
        self._blobs: dict[str, bytes] = {}
        self._clock, self._outcome = clock, outcome

    async def put(self, key: str, blob: bytes) -> BlobTransfer:
        """Keep it."""
        self._blobs[key] = blob
        return await self._answer("put", blob)

    async def get(self, key: str) -> tuple[bytes, BlobTransfer]:
        """Return what was kept; the test fails where nothing was."""
        return self._blobs[key], await self._answer("get", self._blobs[key])

    async def _answer(self, kind: str, blob: bytes) -> BlobTransfer:
        self.asked[kind] += 1
        await self._clock.sleep_async(0.01)
        return BlobTransfer(0, 0, 0, len(blob), 1, self._outcome, "" if self._outcome is Outcome.OK else "overloaded")


def test_throughput_is_what_was_answered_within_the_counted_time() -> None:
    """By hand: 10 ms a request make 100/s; three of four are gets."""
    clock = FakeClock()
    blobs = Blobs(clock)
    per_s = clock.run(offer(cast("BlobStore", blobs), Turn("tag", WORKLOAD, 2), clock))
    assert per_s == pytest.approx(100, rel=0.01)
    assert blobs.asked["get"] / blobs.asked.total() == pytest.approx(0.75, abs=0.01)


def test_clients_are_there_at_once() -> None:
    """Four of them make four times as many requests of a store that is never busy."""
    clock = FakeClock()
    turn = Turn("tag", WORKLOAD.model_copy(update={"clients": 4}), 2)
    assert clock.run(offer(cast("BlobStore", Blobs(clock)), turn, clock)) == pytest.approx(400, rel=0.01)


def test_a_request_that_fails_ends_the_evaluation() -> None:
    """A throughput of errors would look like a fast store."""
    clock = FakeClock()
    store = cast("BlobStore", Blobs(clock, Outcome.FAILED))
    with pytest.raises(TargetUnavailableError, match="a put of 1,000 bytes failed: overloaded"):
        clock.run(offer(store, Turn("tag", WORKLOAD, 1), clock))


@pytest.mark.parametrize(("share", "reads"), [(0.0, 0), (0.5, 4), (0.75, 6), (1.0, 8)])
def test_the_mix_is_exact(share: float, reads: int) -> None:
    """Of eight requests after the first, which has to write."""
    mix = reads_of(WORKLOAD.model_copy(update={"read_share": share}))
    assert not next(mix)
    assert sum(islice(mix, 8)) == reads


def test_the_ring_bounds_what_lies_in_the_store() -> None:
    """By hand: 64 MiB over 8 clients with blobs of 1 MiB are 8 keys each; never fewer than 4, nor more than 256."""
    sizes = {size: WORKLOAD.model_copy(update={"blob_bytes": size, "clients": 8}) for size in (1_000, 2**20, 2**25)}
    assert [keys_of(each) for each in sizes.values()] == [256, 8, 4]


LIMIT_S = 30


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process in a node's place."""
    with subprocess.Popen(["sleep", str(LIMIT_S)]) as process:
        yield process
        process.kill()


def test_the_node_whose_turn_it_is_not_is_stopped_and_goes_on_after_it(process: subprocess.Popen[bytes]) -> None:
    """Its compactions would be at the other's cost; and one that has died meanwhile is told by its own turn."""
    server: Any = SimpleNamespace(pid=process.pid, endpoint="127.0.0.1:9")
    node, seen = TunedNode(server), psutil.Process(process.pid)
    with node.paused():
        wait_until("it is stopped", lambda: seen.status() == psutil.STATUS_STOPPED, timeout_s=LIMIT_S)
    wait_until("it goes on", lambda: seen.status() != psutil.STATUS_STOPPED, timeout_s=LIMIT_S)
    with node.paused():
        process.kill()
        process.wait()
    with node.paused():
        assert not psutil.pid_exists(process.pid)
