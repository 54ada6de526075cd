"""Redis operations on a real Valkey: the contract, and what only Redis has."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.redis.conftest import LIMIT_S, LIMITS, REDIS, SHORT, driver_of, driving, other_client
from tests.integration.drivers.subjects import ServedSubject, UnencryptedOperations
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import CLIENTS, contents_of, operations_spec
from tests.support.fault_proxy import Cut, Delay, Drop, FaultProxy, Rule, fault_proxy, plain

from stepbench.contracts.workload import Kind
from stepbench.drivers.redis.keys import RedisKeys
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench_tools.local.processes import terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.drivers.redis.conftest import Start
    from tests.support.contracts.operations_subject import Stored

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.redis.operations import RedisOperations
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
WAITING = "06"
"""TIME_WAIT in /proc/net/tcp."""


@pytest.fixture
def looking(server: LocalStore) -> Iterator[Any]:
    """Return another client of the shared server."""
    with other_client(server) as client:
        yield client


@pytest.fixture
def proxy(server: LocalStore) -> Iterator[FaultProxy]:
    """Return a proxy in front of the shared server."""
    with fault_proxy(server.endpoint, plain) as proxy:
        yield proxy


class RedisSubject(ServedSubject):
    """See `OperationsSubject`."""

    target = REDIS

    def __init__(self, upstream: str, looking: Any) -> None:  # noqa: ANN401 -- a client without types
        super().__init__(upstream)
        self._looking = looking

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> RedisOperations:
        """See `ServedSubject`."""
        return driver_of(spec, endpoint, SHORT if limit_s else LIMITS)

    async def read_back(self, _spec: TrialSpec, key: str) -> Stored | None:
        """Read the record by its key's type."""
        if self._looking.type(key) == b"hash":
            return {name.decode(): value.decode() for name, value in self._looking.hgetall(key).items()}
        value: bytes | None = self._looking.get(key)
        return value

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the keys that are still there."""
        return [each.decode() for each in self._looking.scan_iter(f"{spec.tag}/*")]


@pytest.fixture
def subject(server: LocalStore, looking: Any) -> RedisSubject:  # noqa: ANN401
    """Return the shared server."""
    return RedisSubject(server.endpoint, looking)


class TestRedisOperations(UnencryptedOperations, OperationsContract):
    """The contract."""


async def test_a_scan_is_refused_without_a_command(server: LocalStore) -> None:
    """A plan with one never gets here; a driver that guessed would measure something else."""
    spec = operations_spec(REDIS)
    async with driving(spec, server.endpoint) as driver:
        done = await perform(driver, contents_of(spec).operation(Kind.SCAN, 1, 0, 10))
    assert (done.outcome, done.error) == (Outcome.FAILED, "unsupported")


async def test_the_time_of_a_read_modify_write_encloses_both(proxy: FaultProxy) -> None:
    """YCSB's read-modify-write is timed as one."""
    spec = operations_spec(REDIS)
    async with driving(spec, proxy.endpoint) as driver:
        proxy.follow(Rule(Delay(answer_s=0.1)))
        done = await perform(driver, contents_of(spec).operation(Kind.READ_MODIFY_WRITE, 1, 1))
    assert done.outcome is Outcome.OK
    assert done.t2_ns - done.t1_ns >= 190_000_000


async def test_each_client_has_a_connection_made_before_the_load(server: LocalStore, looking: Any) -> None:  # noqa: ANN401
    """A handshake in the first operation would be taken for the generator's lateness."""
    spec = operations_spec(REDIS)
    operations = [contents_of(spec).operation(Kind.READ, 1, 0, client=client) for client in range(CLIENTS)]
    async with driving(spec, server.endpoint) as driver:
        made = looking.info("stats")["total_connections_received"]
        used = {each["addr"]: int(each["tot-cmds"]) for each in looking.client_list()}
        for _ in range(3):
            await asyncio.gather(*map(partial(perform, driver), operations))
        more = [int(each["tot-cmds"]) - used[each["addr"]] for each in looking.client_list()]
        assert looking.info("stats")["total_connections_received"] == made
        assert sorted(more)[-CLIENTS:] == [3] * CLIENTS


async def test_without_reuse_the_parts_make_up_the_whole(start: Start) -> None:
    """What is not accounted for would be blamed on one of the parts; each operation has a connection."""
    store = start(requirepass="secret")
    spec = operations_spec(REDIS, reuse=False)
    driver = driver_of(spec, store.endpoint)
    driver._access._login._login = ("default", "secret")  # as read from Secrets Manager
    with other_client(store, "secret") as other:
        await driver.prepare()
        await driver.open()
        before = other.info("stats")["total_connections_received"]
        ends = [await perform(driver, contents_of(spec).operation(Kind.READ, 1, 0)) for _ in range(20)]
        after = other.info("stats")["total_connections_received"]
    await driver.close()
    assert after - before == 20
    for done in ends:
        assert done.outcome is Outcome.OK
        assert done.connecting is not None
        assert sum(done.connecting) == done.t2_ns - done.t1_ns
        assert done.connecting.tls_ns == 0
        assert min(done.connecting.connect_ns, done.connecting.authenticate_ns, done.connecting.operate_ns) > 0


async def test_connections_of_one_operation_leave_no_port_behind(server: LocalStore) -> None:
    """The kernel keeps a closed port for a minute; 28,000 operations later there would be none."""
    spec = operations_spec(REDIS, reuse=False)
    async with driving(spec, server.endpoint) as driver:
        with other_client(server) as other, other.monitor() as monitor:
            for _ in range(50):
                await perform(driver, contents_of(spec).operation(Kind.READ, 1, 0))
            ports = _ports_of_reads(monitor, 50)
        assert len(ports) == 50
        assert not ports & _waiting(int(server.endpoint.rpartition(":")[2]))


def _ports_of_reads(monitor: Any, reads: int) -> set[int]:  # noqa: ANN401 -- untyped
    """Return from which ports these reads came, by the server's own word: a port that waits may be another's."""
    ports: set[int] = set()
    while len(ports) < reads:
        command = monitor.next_command()
        if command["command"].startswith("GET"):
            ports.add(int(command["client_port"]))
    return ports


def _waiting(port: int) -> set[int]:
    """Return the local ports that the kernel keeps for closed connections to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    local, remote = ([int(row[at].rpartition(":")[2], 16) for row in rows] for at in (1, 2))
    return {own for own, other, row in zip(local, remote, rows, strict=True) if row[3] == WAITING and other == port}


async def test_a_wrong_password_is_unavailable_and_says_why(start: Start) -> None:
    """After the server's own words, how it would be given one."""
    store = start(requirepass="secret")
    with pytest.raises(TargetUnavailableError, match=r"NOAUTH.*RedisSecretArn"):
        await driver_of(operations_spec(REDIS), store.endpoint).open()


@pytest.fixture
def without_hello(start: Start, tmp_path: Path) -> Callable[..., LocalStore]:
    """Return what starts a server that does not know HELLO: a Redis before 6, and many a proxy."""
    settings = tmp_path / "without_hello.conf"
    settings.write_text('rename-command HELLO ""\n')
    return partial(start, include=str(settings))


@pytest.mark.parametrize("password", ["", "secret"])
async def test_a_server_that_does_not_know_hello_is_asked_otherwise(
    without_hello: Callable[..., LocalStore], password: str
) -> None:
    """INFO tells as much, and the login is AUTH."""
    store = without_hello(**({"requirepass": password} if password else {}))
    driver = driver_of(operations_spec(REDIS), store.endpoint)
    driver._access._login._login = ("", password)  # as read from Secrets Manager
    async with asyncio.timeout(LIMIT_S):
        await driver.prepare()
        assert await driver.ready()
        assert re.fullmatch(r"Valkey \d+\.\d+\.\d+", await driver.provider())
        await driver.tear_down()


async def test_without_hello_a_missing_password_is_unavailable_and_says_why(
    without_hello: Callable[..., LocalStore],
) -> None:
    """The connection itself is open to everybody."""
    store = without_hello(requirepass="secret")
    with pytest.raises(TargetUnavailableError, match=r"NOAUTH.*RedisSecretArn"):
        await driver_of(operations_spec(REDIS), store.endpoint).open()


@pytest.mark.parametrize("reuse", [True, False])
async def test_no_answer_is_unknown_and_the_next_has_a_new_connection(proxy: FaultProxy, *, reuse: bool) -> None:
    """It may have happened; a client that went on with the old connection would read another's answer."""
    spec = operations_spec(REDIS, reuse=reuse)
    async with driving(spec, proxy.endpoint, SHORT) as driver:
        proxy.follow(Rule(Drop("request"), match=b"SET"))
        lost = await perform(driver, contents_of(spec).operation(Kind.OVERWRITE, 1, 1))
        proxy.follow()
        after = await perform(driver, contents_of(spec).operation(Kind.READ, 2, 0))
    assert (lost.outcome, lost.error) == (Outcome.UNKNOWN, "timeout")
    assert lost.t1_ns < lost.t2_ns < after.t1_ns
    assert after.outcome is Outcome.OK


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_server_that_has_gone_fails_operations_and_raises_nothing(start: Start, *, reuse: bool) -> None:
    """A store that dies in the middle of a trial is a result, and what was never sent has not happened."""
    store, spec = start(), operations_spec(REDIS, reuse=reuse)
    async with driving(spec, store.endpoint, SHORT) as driver:
        terminate(store.pids)
        ends = [await perform(driver, contents_of(spec).operation(Kind.READ, 1, 0)) for _ in range(3)]
    assert (ends[-1].outcome, ends[-1].error) == (Outcome.FAILED, "connect: refused")
    assert all(each.error and each.t1_ns <= each.t2_ns for each in ends)


async def test_counts_agree_with_outcomes(proxy: FaultProxy, looking: Any) -> None:  # noqa: ANN401
    """What was acknowledged is there, what was refused or never sent is not."""
    spec = operations_spec(REDIS, records=0, workload={"mix": {"insert": 1}})
    async with driving(spec, proxy.endpoint, SHORT) as driver:
        proxy.follow(
            Rule(Cut("before-request"), match=b"SET", share=0.1, seed=1),
            Rule(Cut("before-answer"), match=b"SET", share=0.1, seed=2),
        )

        async def insert(client: int) -> list[tuple[str, Outcome]]:
            numbers = range(client * 1_000, client * 1_000 + 40)
            wanted = [contents_of(spec).operation(Kind.INSERT, number, 0, client=client) for number in numbers]
            return [(each.key, (await perform(driver, each)).outcome) for each in wanted]

        ends = [end for ends in await asyncio.gather(*map(insert, range(5))) for end in ends]
        proxy.follow()
    there = {each.decode() for each in looking.scan_iter(f"{spec.tag}/*")}
    counts = Counter(outcome for _, outcome in ends)
    assert counts[Outcome.OK] > 100
    assert counts[Outcome.UNKNOWN] > 5
    assert {name for name, outcome in ends if outcome is Outcome.OK} <= there
    assert not {name for name, outcome in ends if outcome is Outcome.FAILED} & there


async def test_preloading_goes_on_where_it_was_cut(proxy: FaultProxy, looking: Any) -> None:  # noqa: ANN401
    """A batch that was half written is written again, and none is left out."""
    spec = operations_spec(REDIS, records=20_000)
    proxy.follow(Rule(Cut("in-answer", after_bytes=500), match=b"SET", times=3))
    async with asyncio.timeout(LIMIT_S):
        await driver_of(spec, proxy.endpoint, SHORT).prepare()
    assert sum(proxy.stats().faults.values()) == 3
    assert sum(1 for _ in looking.scan_iter(f"{spec.tag}/*", count=10_000)) == 20_000


async def test_tear_down_leaves_what_begins_alike(server: LocalStore, looking: Any) -> None:  # noqa: ANN401
    """The server may be somebody's."""
    spec = operations_spec(REDIS)
    foreign = [f"{spec.tag}", f"{spec.tag}0/rec", f"x{spec.tag}/rec", "theirs"]
    driver = driver_of(spec, server.endpoint)
    await driver.prepare()
    looking.mset(dict.fromkeys(foreign, "kept"))
    assert await driver.tear_down()
    assert list(looking.scan_iter(f"{spec.tag}/*")) == []
    assert looking.delete(*foreign) == len(foreign)


async def test_tear_down_without_time_says_that_it_is_not_done(server: LocalStore) -> None:
    """Then it is called again, until nothing is left."""
    spec = operations_spec(REDIS)
    driver = driver_of(spec, server.endpoint)
    await driver.prepare()
    async with RedisKeys(spec.tag, driver._access, driver._nodes, driver._clock) as keys:
        assert not await keys.clear(limit_s=0)
        assert await keys.clear()


async def test_what_a_cancelled_preload_has_sent_is_removed(
    proxy: FaultProxy,
    server: LocalStore,
    looking: Any,  # noqa: ANN401
) -> None:
    """The server executes it whoever has gone: keys that come after the tear-down would be the next trial's."""
    spec = operations_spec(REDIS, records=4_000)
    proxy.follow(Rule(Delay(request_s=0.3), match=b"SET", times=1))  # what the connection carries after it waits, too
    async with asyncio.timeout(LIMIT_S):
        preparing = asyncio.create_task(driver_of(spec, proxy.endpoint).prepare())
        while not proxy.stats().faults:  # noqa: ASYNC110 -- the proxy has no event to wait for
            await asyncio.sleep(0.001)
        preparing.cancel()
        await asyncio.wait({preparing})
        assert preparing.cancelled()
        assert await driver_of(spec, server.endpoint).tear_down()
        await asyncio.to_thread(proxy.await_idle)
    assert list(looking.scan_iter(f"{spec.tag}/*")) == []


async def test_tear_down_ends_with_a_look_that_finds_nothing(
    proxy: FaultProxy,
    server: LocalStore,
    looking: Any,  # noqa: ANN401
) -> None:
    """SCAN does not promise what is written while it goes on; a connection that was cut may still have left some."""
    spec = operations_spec(REDIS)
    await driver_of(spec, server.endpoint).prepare()
    scans = _scans(looking)
    proxy.follow(Rule(Delay(answer_s=0.3), match=b"SCAN", times=1))
    async with asyncio.timeout(LIMIT_S):
        clearing = asyncio.create_task(driver_of(spec, proxy.endpoint).tear_down())
        while _scans(looking) == scans:  # noqa: ASYNC110 -- nor has the server
            await asyncio.sleep(0.001)
        looking.set(f"{spec.tag}/late", "written after it was looked for")
        assert await clearing
    assert list(looking.scan_iter(f"{spec.tag}/*")) == []


def _scans(looking: Any) -> int:  # noqa: ANN401
    return int(looking.info("commandstats").get("cmdstat_scan", {}).get("calls", 0))
