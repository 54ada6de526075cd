"""Redis requests prepared ahead: broken connections, requests given up before they left us, TLS, a cluster."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.redis.conftest import (
    CLUSTER,
    LIMIT_S,
    REDIS,
    SHORT,
    driver_of,
    driving,
    key_of,
    other_client,
)
from tests.support.contracts.operations_subject import contents_of, operating, operations_spec
from tests.support.fault_proxy import Cut, Rule, fault_proxy, plain

from stepbench.contracts.workload import Kind
from stepbench.drivers.redis.commands import CommandRequest
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.model.errors import WITHDRAWN
from stepbench.model.pending import CoroutineRequest, perform, result_of
from stepbench.model.request import Outcome, Request, Result
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.wheels import start_redis_with_tls

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.drivers.redis.conftest import Start

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.redis.operations import RedisOperations
    from stepbench.model.request import PendingRequest
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LARGE = {"record": {"shape": "blob", "value_bytes": 350_000}, "mix": {"insert": 1}}
MANY = 70
"""Of these some 24 MB, more than all buffers between us and the server take."""


async def sent(prepared: PendingRequest) -> Result:
    """Send a request, and wait for its result."""
    async with asyncio.timeout(LIMIT_S):
        return await result_of(prepared)


async def test_what_broke_since_it_was_made_is_made_anew(server: LocalStore) -> None:
    """The next operation is made while the last is under way, which may be the connection's last, too."""
    spec = operations_spec(REDIS)
    contents = contents_of(spec)
    with fault_proxy(server.endpoint, plain) as proxy:
        async with driving(spec, proxy.endpoint, SHORT) as driver:
            proxy.follow(Rule(Cut("before-answer"), times=1))
            made = [driver.prepare_request(contents.operation(Kind.READ, number, 0)) for number in range(3)]
            ends = [await sent(each) for each in made]
    assert [each.outcome for each in ends] == [Outcome.UNKNOWN, Outcome.OK, Outcome.OK]
    assert ends[0].t2_ns < ends[1].t1_ns < ends[1].t2_ns < ends[2].t1_ns


async def test_without_a_server_what_was_made_has_failed(start: Start) -> None:
    """It was never sent: not even the first, once the end is known."""
    store, spec = start(), operations_spec(REDIS)
    async with driving(spec, store.endpoint, SHORT) as driver:
        made = [driver.prepare_request(contents_of(spec).operation(Kind.READ, 1, 0)) for _ in range(3)]
        terminate(store.pids)
        ends = [await sent(each) for each in made]
    assert (ends[-1].outcome, ends[-1].error) == (Outcome.FAILED, "connect: refused")
    assert all(each.error and each.t1_ns <= each.t2_ns for each in ends)


async def test_a_refusal_and_a_missing_record_are_told_apart(server: LocalStore) -> None:
    """The server's code tells the one, its null the other."""
    spec = operations_spec(REDIS)
    contents = contents_of(spec)
    async with driving(spec, server.endpoint) as driver:
        with other_client(server) as other:
            other.delete(key_of(spec, 1), key_of(spec, 2))
            other.rpush(key_of(spec, 1), "a list")
        ends = [await sent(driver.prepare_request(contents.operation(Kind.READ, number, 0))) for number in (1, 2, 3)]
    assert [(each.outcome, each.error) for each in ends] == [
        (Outcome.FAILED, "WRONGTYPE"),
        (Outcome.FAILED, "not_found"),
        (Outcome.OK, ""),
    ]


async def test_what_has_not_left_us_is_withdrawn_and_never_happens(server: LocalStore) -> None:
    """What was given up after its first byte may have happened; of the rest it is known that it has not."""
    spec = operations_spec(REDIS, records=0, workload=LARGE)
    contents, ends = contents_of(spec), dict[int, Result]()
    with fault_proxy(server.endpoint, plain) as proxy:
        async with driving(spec, proxy.endpoint) as driver:
            proxy.stall()
            made = [driver.prepare_request(contents.operation(Kind.INSERT, number, 0)) for number in range(MANY)]
            for number, each in enumerate(made):
                each.send(partial(ends.__setitem__, number))
            for each in made:
                each.abandon()
            assert len(ends) == MANY
            proxy.resume()
            # The last is answered after all before it.
            after = await sent(driver.prepare_request(contents.operation(Kind.INSERT, MANY, 0)))
            there = _there(server, spec.tag)
    withdrawn = {number for number, end in ends.items() if (end.outcome, end.error) == (Outcome.FAILED, WITHDRAWN)}
    unknown = {number for number, end in ends.items() if end.outcome is Outcome.UNKNOWN}
    assert withdrawn | unknown == set(range(MANY))
    assert len(withdrawn) > 1
    assert not there & {contents.operation(Kind.INSERT, number, 0).key for number in withdrawn}
    assert after.outcome is Outcome.OK


async def test_what_is_several_commands_is_a_task(server: LocalStore) -> None:
    """A read-modify-write waits in between; all else goes without one."""
    spec = operations_spec(REDIS)
    kinds = (Kind.READ_MODIFY_WRITE, Kind.OVERWRITE)
    async with driving(spec, server.endpoint) as driver:
        made = [driver.prepare_request(contents_of(spec).operation(kind, 1, 1)) for kind in kinds]
        ends = [await sent(each) for each in made]
    assert [type(each) for each in made] == [CoroutineRequest, CommandRequest]
    assert [each.outcome for each in ends] == [Outcome.OK] * 2


@pytest.mark.parametrize("reuse", [True, False])
async def test_tls_is_verified_and_timed(tmp_path: Path, *, reuse: bool) -> None:
    """An authority that has not signed the certificate vouches for nobody; the handshake is a part of its own."""
    store = start_redis_with_tls(tmp_path, make_certificates(tmp_path / "ours"))
    other = make_certificates(tmp_path / "other").authority
    spec = operations_spec({**REDIS, "tls": True}, reuse=reuse)
    try:
        with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
            await driver_of(spec, "unused:1", redis_tls_endpoint=store.endpoint, tls_authority=str(other)).open()
        authority = str(tmp_path / "ours" / "authority.crt")
        driver = driver_of(spec, "unused:1", redis_tls_endpoint=store.endpoint, tls_authority=authority)
        async with operating(driver):
            done = await perform(driver, contents_of(spec).operation(Kind.READ, 1, 0))
            assert (await driver.provider()).startswith("Redis ")
    finally:
        terminate(store.pids)
    assert done.outcome is Outcome.OK
    assert (done.connecting is None) is reuse
    if done.connecting is not None:
        assert done.connecting.tls_ns > 0
        assert done.connecting.authenticate_ns == 0


def _there(server: LocalStore, tag: str) -> set[str]:
    with other_client(server) as other:
        keys: Any = other.scan_iter(f"{tag}/*")
        return {each.decode() for each in keys}


def _sizes(cluster: list[LocalStore]) -> list[int]:
    found = []
    for store in cluster:
        with other_client(store) as client:
            found.append(int(client.dbsize()))
    return found


def _record_on(driver: RedisOperations, spec: TrialSpec, store: LocalStore) -> Request:
    """Return a record that lies on this node."""
    records = map(contents_of(spec).preloaded, range(50))
    port = int(store.endpoint.rpartition(":")[2])
    return next(each for each in records if driver._nodes.find(each.key.encode()).port == port)


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_cluster_is_one_store(cluster: list[LocalStore], *, reuse: bool) -> None:
    """Records lie on both nodes, are asked for where they are, and are removed from both."""
    spec = operations_spec(CLUSTER, records=200, reuse=reuse)
    kinds = (Kind.READ, Kind.OVERWRITE, Kind.READ_MODIFY_WRITE)
    wanted = [contents_of(spec).operation(kind, record, 1) for kind in kinds for record in range(40)]
    driver = driver_of(spec, cluster[0].endpoint)
    async with operating(driver):
        sizes = _sizes(cluster)
        ends = [await perform(driver, each) for each in wanted]
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
            ends = [await perform(driver, record) for _ in range(2)]
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
            ends = [await perform(driver, record) for _ in range(2)]
            for node in (first, second):
                node.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
            second.flushall()  # the slot is not its own, so that our driver has no way to what it holds
    assert [(each.outcome, each.retries) for each in ends] == [(Outcome.OK, 1)] * 2


async def test_a_plan_that_is_wrong_about_the_cluster_is_refused(cluster: list[LocalStore]) -> None:
    """Half of the operations would fail with MOVED, and the run would end before anybody saw why."""
    with pytest.raises(PlanError, match=r"target\.cluster.*Set it to true"):
        await driver_of(operations_spec(REDIS), cluster[0].endpoint).open()
