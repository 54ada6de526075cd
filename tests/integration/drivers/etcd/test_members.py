"""A cluster of three: what becomes of writes, of a watch and of clearing up when its leader dies."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.integration.drivers.etcd.conftest import EtcdSubject, etcd_driver, etcd_operations
from tests.integration.drivers.subjects import established_watch, take_changes
from tests.samples.ports import UNSERVED_PORT, silent_port
from tests.support.contracts.life import until_torn_down
from tests.support.contracts.operations_subject import contents_of, operating, operations_spec
from tests.support.contracts.trigger_subject import contract_spec, contract_write

from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd.cluster import EtcdLimits
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_etcd_members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.drivers.etcd.trigger import EtcdDriver
    from stepbench.model.request import Request
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMITS = EtcdLimits(write_s=5.0)
MEMBERS = 3


class Cluster(NamedTuple):
    """Three members."""

    stores: tuple[LocalStore, ...]

    @property
    def endpoints(self) -> str:
        """Return all, as the stack's parameter has them."""
        return ",".join(each.endpoint for each in self.stores)

    async def leader(self) -> int:
        """Return the leader's place among them."""
        told = [await EtcdSubject(each.endpoint).ask("maintenance/status", {}) for each in self.stores]
        ids = [each["header"]["member_id"] for each in told]
        return ids.index(told[0]["leader"])


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start one for a test: it does not come out of it whole."""
    stores = start_etcd_members(tmp_path_factory.mktemp("etcd"), MEMBERS)
    yield Cluster(stores)
    terminate([pid for each in stores for pid in each.pids], grace_s=0)


async def _until_taken(driver: EtcdDriver, write: Request) -> None:
    """Write again and again until the members have elected a leader."""
    async with asyncio.timeout(60):
        while (await perform(driver, write)).outcome is not Outcome.OK:
            pass


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_writes_go_on_without_the_leader(
    cluster: Cluster, signal_number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the others have elected one, writes are failed or unknown; then those that are left acknowledge all."""
    monkeypatch.setattr("stepbench.drivers.etcd.cluster.CONNECT_LIMIT_S", 2.0)  # a frozen member takes connections
    spec = contract_spec(EtcdSubject.target)
    driver = etcd_driver(spec, cluster.endpoints, LIMITS)
    await driver.open()
    try:
        assert all([(await perform(driver, contract_write(spec, n))).outcome is Outcome.OK for n in range(MEMBERS)])
        leader = cluster.stores[await cluster.leader()]
        os.kill(leader.pids[0], signal_number)
        at_once = await asyncio.gather(*(perform(driver, contract_write(spec, 100 + n)) for n in range(30)))
        assert {each.outcome for each in at_once} <= {Outcome.OK, Outcome.UNKNOWN, Outcome.FAILED}
        await _until_taken(driver, contract_write(spec, 200))
        after = [await perform(driver, contract_write(spec, 300 + n)) for n in range(3 * MEMBERS)]
        assert [each.error for each in after if each.outcome is not Outcome.OK] == []
        await until_torn_down(driver)
    finally:
        await driver.close()
    left = [each for each in cluster.stores if each != leader]
    assert [await EtcdSubject(each.endpoint).leftovers(spec) for each in left] == [[]] * (MEMBERS - 1)


@pytest.mark.parametrize("first", [True, False], ids=["the watched member", "another"])
async def test_a_watch_goes_on_where_it_was(cluster: Cluster, *, first: bool) -> None:
    """A watcher that is called again finds a member that lives, and misses nothing that was written meanwhile."""
    spec = contract_spec(EtcdSubject.target)
    driver = etcd_driver(spec, cluster.endpoints, LIMITS)
    await driver.open()
    try:
        async with established_watch(etcd_driver(spec, cluster.endpoints, LIMITS)) as batches:
            await perform(driver, contract_write(spec, 0))
            (seen,) = await take_changes(batches, 1)
            terminate(cluster.stores[0 if first else 1].pids, grace_s=0)
            if first:
                with pytest.raises(TargetUnavailableError):
                    await take_changes(batches, 1)
        await _until_taken(driver, contract_write(spec, 1))
        again = etcd_driver(spec, cluster.endpoints, LIMITS)
        await again.open()
        async with asyncio.timeout(20):
            async for batch in again.watch(seen.position):
                if batch.changes:
                    break
        await again.close()
        assert contract_write(spec, 1).value in [each.value for each in batch.changes]
        await until_torn_down(driver)
    finally:
        await driver.close()


async def test_clients_of_a_member_that_is_gone_go_to_the_others(cluster: Cluster) -> None:
    """Each client has a connection of its own number; without its member it would fail to the end of the trial."""
    spec = operations_spec(EtcdSubject.target)
    contents = contents_of(spec)
    async with operating(etcd_operations(spec, cluster.endpoints, LIMITS)) as driver:
        victim = (await cluster.leader() + 1) % MEMBERS  # not the leader, so that nobody has to be elected
        terminate(cluster.stores[victim].pids, grace_s=0)
        first = [await perform(driver, contents.operation(Kind.READ, 0, 0, client=each)) for each in range(MEMBERS)]
        then = [await perform(driver, contents.operation(Kind.READ, 0, 0, client=each)) for each in range(MEMBERS)]
    assert {each.outcome for each in first} <= {Outcome.OK, Outcome.UNKNOWN, Outcome.FAILED}
    assert [each.error for each in then if each.outcome is not Outcome.OK] == []


async def test_a_cluster_none_of_which_answers_is_unavailable() -> None:
    """Its first member is named, as that of a single one."""
    with silent_port() as second:
        endpoints = f"127.0.0.1:{UNSERVED_PORT},127.0.0.1:{second}"
        driver = etcd_driver(contract_spec(EtcdSubject.target), endpoints)
        for step in (driver.open, driver.ready, driver.tear_down, driver.provider):
            with pytest.raises(TargetUnavailableError, match=f"etcd at 127.0.0.1:{UNSERVED_PORT}:"):
                await step()
