"""Redis operations on a real cluster of two nodes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.operations.redis_trials import (
    LIMIT_S,
    REDIS,
    driver_of,
    other_client,
    servers,
)

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Operation, Outcome
from stepbench.errors import PlanError
from stepbench.local.processes import free_port, wait_until
from stepbench.testing.operable_subject import contents_of, operating, operations_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.operations.redis import RedisOperations
    from stepbench.local.processes import LocalStore

pytestmark = pytest.mark.stores
CLUSTER = {**REDIS, "cluster": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LocalStore]]:
    """Two nodes with half of the slots each; a new cluster takes two seconds until it serves."""
    with ExitStack() as stack:
        start = stack.enter_context(servers(tmp_path_factory.mktemp))
        buses = [free_port() for _ in range(2)]  # without being told, the server takes an ephemeral one
        stores = [start(cluster_enabled="yes", cluster_port=str(bus)) for bus in buses]
        first, second = (stack.enter_context(other_client(store)) for store in stores)
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        second.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        host, _, port = stores[1].endpoint.rpartition(":")
        first.execute_command("CLUSTER", "MEET", host, port, buses[1])
        wait_until("the cluster serves", lambda: all(map(_serves, (first, second))), timeout_s=LIMIT_S)
        yield stores


def _serves(client: Any) -> bool:  # noqa: ANN401 -- a client without types
    return b"cluster_state:ok" in client.execute_command("CLUSTER INFO ")


def _sizes(cluster: list[LocalStore]) -> list[int]:
    found = []
    for store in cluster:
        with other_client(store) as client:
            found.append(int(client.dbsize()))
    return found


def _record_on(driver: RedisOperations, spec: TrialSpec, store: LocalStore) -> Operation:
    """A record that lies on this node."""
    records = map(contents_of(spec).preloaded, range(50))
    port = int(store.endpoint.rpartition(":")[2])
    return next(each for each in records if driver._nodes.of(each.key.encode()).port == port)


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_cluster_is_one_store(cluster: list[LocalStore], *, reuse: bool) -> None:
    """Records lie on both nodes, are asked for where they are, and are removed from both."""
    spec = operations_spec(CLUSTER, records=200, reuse=reuse)
    kinds = (Kind.READ, Kind.OVERWRITE, Kind.READ_MODIFY_WRITE)
    wanted = [contents_of(spec).operation(kind, record, 1) for kind in kinds for record in range(40)]
    driver = driver_of(spec, cluster[0].endpoint)
    async with operating(driver):
        sizes = _sizes(cluster)
        ends = [await driver.operate(each) for each in wanted]
        assert await driver.tear_down()
    assert sum(sizes) == 200
    assert min(sizes) > 50
    assert {(each.outcome, each.retries) for each in ends} == {(Outcome.OK, 0)}
    assert _sizes(cluster) == [0, 0]


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_slot_that_has_moved_is_followed_and_counted(cluster: list[LocalStore], *, reuse: bool) -> None:
    """The redirection is the store's, so it is in the operation's time, and the next one goes there at once."""
    spec = operations_spec(CLUSTER, records=50, reuse=reuse)
    driver = driver_of(spec, cluster[0].endpoint)
    async with operating(driver):
        record = _record_on(driver, spec, cluster[0])
        with other_client(cluster[0]) as first, other_client(cluster[1]) as second:
            slot = first.execute_command("CLUSTER", "KEYSLOT", record.key)
            owner = second.execute_command("CLUSTER", "MYID")
            first.delete(record.key)
            for node in (second, first):
                node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", owner)
            ends = [await driver.operate(record) for _ in range(2)]
            assert second.get(record.key) == record.value
    assert [(each.outcome, each.retries) for each in ends] == [(Outcome.OK, 1), (Outcome.OK, 0)]


async def test_a_slot_that_is_moving_is_asked_for_where_it_goes(cluster: list[LocalStore]) -> None:
    """ASK is for one command: the slot is still the old node's, so the next one is sent round again."""
    spec = operations_spec(CLUSTER, records=50)
    driver = driver_of(spec, cluster[0].endpoint)
    async with operating(driver):
        record = _record_on(driver, spec, cluster[0])
        with other_client(cluster[0]) as first, other_client(cluster[1]) as second:
            slot = first.execute_command("CLUSTER", "KEYSLOT", record.key)
            first_id, second_id = (node.execute_command("CLUSTER", "MYID") for node in (first, second))
            first.delete(record.key)
            second.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", first_id)
            first.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", second_id)
            ends = [await driver.operate(record) for _ in range(2)]
            for node in (first, second):
                node.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
            second.flushall()  # the slot is not its own, so that our driver has no way to what it holds
    assert [(each.outcome, each.retries) for each in ends] == [(Outcome.OK, 1)] * 2


async def test_a_plan_that_is_wrong_about_the_cluster_is_refused(cluster: list[LocalStore]) -> None:
    """Half of the operations would fail with MOVED, and the run would end before anybody saw why."""
    with pytest.raises(PlanError, match=r"target\.cluster.*Set it to true"):
        await driver_of(operations_spec(REDIS), cluster[0].endpoint).open()
