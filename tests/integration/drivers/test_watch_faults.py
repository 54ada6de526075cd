"""The proxy in front of etcd's Watch while changes happen: it ends in bounded time, or goes on without loss."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

from stepbench.clock import SystemClock
from stepbench.drivers.etcd import EtcdDriver
from stepbench.drivers.etcd_cluster import EtcdLimits
from stepbench.errors import TargetUnavailableError
from stepbench.local.etcd import start_etcd
from stepbench.local.processes import terminate
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec, contract_write
from stepbench.testing.fault_proxy import Cut, Delay, Drop, Fault, FaultProxy, Limit, Rule, fault_proxy, http2
from stepbench.testing.store_life import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import ChangeBatch

pytestmark = pytest.mark.stores

LIMIT_S = 20
QUICK = EtcdLimits(control_s=1.0, ping_every_s=0.5, pong_within_s=0.5)


class Watched(NamedTuple):
    """A trial whose writes go to etcd directly, and whose watch goes through the proxy."""

    spec: TrialSpec
    proxy: FaultProxy
    writer: EtcdDriver

    def watcher(self, limits: EtcdLimits = QUICK) -> EtcdDriver:
        """For the proxy's address."""
        return _driver(self.spec, self.proxy.endpoint, limits)

    async def write(self, *sequences: int) -> list[int]:
        """Positions of the changes."""
        return [int((await self.writer.write(contract_write(self.spec, each))).token) for each in sequences]


def _driver(spec: TrialSpec, endpoint: str, limits: EtcdLimits = QUICK) -> EtcdDriver:
    settings = Settings(results_table="unused", results_bucket="unused", etcd_endpoint=endpoint)
    return EtcdDriver(spec, settings, SystemClock(), limits=limits)


@pytest.fixture(scope="module")
def etcd_that_is_pinged_often(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An etcd that does not hang up on those who ping more often than every 5 s."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ETCD_GRPC_KEEPALIVE_MIN_TIME", "10ms")
        server = start_etcd(tmp_path_factory.mktemp("etcd"))
    yield server.endpoint
    terminate(server.pids)


@pytest.fixture
async def watched(etcd_that_is_pinged_often: str) -> AsyncIterator[Watched]:
    """Writer and proxy; no test leaves a connection."""
    spec = contract_spec({"store": "etcd"})
    writer = _driver(spec, etcd_that_is_pinged_often, EtcdLimits())
    async with running(writer):
        with fault_proxy(etcd_that_is_pinged_often, http2) as proxy:
            yield Watched(spec, proxy, writer)
            await asyncio.to_thread(proxy.await_idle)


async def next_batch(batches: AsyncIterator[ChangeBatch]) -> ChangeBatch:
    """The next one; a TimeoutError fails the test."""
    async with asyncio.timeout(LIMIT_S):
        return await anext(batches)


async def positions(batches: AsyncIterator[ChangeBatch], count: int) -> list[int]:
    """Of the next so many changes."""
    seen: list[int] = []
    while len(seen) < count:
        seen += [change.position for change in (await next_batch(batches)).changes]
    return seen


async def resumed(watched: Watched, after: int, count: int) -> list[int]:
    """What the next watcher sees."""
    async with aclosing(watched.watcher().watch(after)) as batches:
        return await positions(batches, count)


@pytest.mark.parametrize("how", ["rst", "fin", "black hole"])
async def test_a_watch_whose_connection_dies_ends_and_its_successor_misses_nothing(
    watched: Watched, how: Literal["rst", "fin", "black hole"]
) -> None:
    """Changes that are made while nobody watches are history, and the next watch begins with the first of them."""
    async with aclosing(watched.watcher().watch(None)) as batches:
        await next_batch(batches)
        written = await watched.write(0, 1)
        seen = await positions(batches, 2)
        cut = watched.proxy.black_hole() if how == "black hole" else watched.proxy.cut(how)
        written += await watched.write(2, 3)
        with pytest.raises(TargetUnavailableError):
            await positions(batches, 1)
    seen += await resumed(watched, seen[-1], 2)
    assert cut == 1
    assert seen == written


async def test_an_idle_watch_notices_a_black_hole_however_long_it_has_been_idle(watched: Watched) -> None:
    """Nothing else tells it: a host that vanishes sends no RST, and a watch may be idle for hours."""
    limits = EtcdLimits(control_s=1.0, ping_every_s=0.3, pong_within_s=0.5)
    async with aclosing(watched.watcher(limits).watch(None)) as batches:
        await next_batch(batches)
        await asyncio.sleep(6 * limits.ping_every_s)
        watched.proxy.black_hole()
        with pytest.raises(TargetUnavailableError, match="no answer to a ping"):
            await positions(batches, 1)


async def test_a_watch_goes_on_after_a_stall_without_loss(watched: Watched) -> None:
    """A network that holds everything back for a while loses nothing; the arrivals are late, and count as late."""
    patient = EtcdLimits(ping_every_s=10, pong_within_s=10)
    async with aclosing(watched.watcher(patient).watch(None)) as batches:
        await next_batch(batches)
        watched.proxy.stall()
        written = await watched.write(*range(20))
        released_ns = SystemClock().now_ns()
        watched.proxy.resume()
        first = await next_batch(batches)
        seen = [change.position for change in first.changes]
        seen += await positions(batches, 20 - len(seen))
    assert seen == written
    assert first.t4_ns > released_ns


@pytest.mark.parametrize("fault", [Limit(bytes_per_s=20_000), Delay(request_s=0.2, answer_s=0.2)], ids=["slow", "late"])
async def test_a_slow_connection_loses_no_change(watched: Watched, fault: Fault) -> None:
    """The second request of a watcher's connection is the watch itself."""
    watched.proxy.follow(Rule(fault, from_nth=2, times=1))
    async with aclosing(watched.watcher(EtcdLimits()).watch(None)) as batches:
        await next_batch(batches)
        written = await watched.write(*range(10))
        assert await positions(batches, 10) == written
    assert watched.proxy.stats().faults == {fault.name: 1}


@pytest.mark.parametrize("from_nth", [1, 2], ids=["connecting", "asking"])
@pytest.mark.parametrize("fault", [Cut("before-answer"), Cut("in-answer", "fin"), Drop("request"), Drop("answer")])
async def test_a_watch_that_cannot_be_made_is_refused(watched: Watched, fault: Fault, from_nth: int) -> None:
    """AwaitTarget waits for the watcher; one that neither watches nor ends would hold the trial up."""
    watched.proxy.follow(Rule(fault, from_nth=from_nth, times=1))
    with pytest.raises(TargetUnavailableError):
        await resumed(watched, 1, 1)
    assert watched.proxy.stats().faults == {fault.name: 1}
