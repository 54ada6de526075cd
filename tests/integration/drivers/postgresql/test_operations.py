"""Operations on a real PostgreSQL, with TLS and without, looked at through a session that is not the driver's."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from tests.integration.drivers.postgresql.conftest import postgresql_operations, table_of
from tests.integration.drivers.sql.superuser import superuser, until_blocked
from tests.samples.ports import UNSERVED_PORT
from tests.support.contracts.operations_subject import Shape, contents_of, operating, operations_spec
from tests.support.fault_proxy import Delay, Rule, fault_proxy, plain, postgresql

from stepbench.clock import AnchoredClock
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.workload import OPERATION_KINDS, Kind
from stepbench.drivers.protocol import CountsConnections
from stepbench.drivers.sql.executor import pause_s
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import WithdrawnError, perform
from stepbench.model.request import Outcome, Request
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.postgresql import TLS_WHEEL, discard_postgresql, install, serve

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import Result
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores
RECORDS = 5_000
"""Preloaded in three batches."""


def _spec(
    shape: Shape = "blob", *, reuse: bool = True, tls: bool = False, clients: int = 2, records: int = 20
) -> TrialSpec:
    mix = {kind.name.lower(): 1 for kind in OPERATION_KINDS if shape == "product" or kind is not Kind.UPDATE}
    workload = {"mix": mix, "record": {"shape": shape}}
    target = {"store": "postgresql", "tls": tls}
    return operations_spec(target, shape, records=records, clients=clients, reuse=reuse, workload=workload)


_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class _HeldClock(AnchoredClock):
    """Pauses last until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.pausing, self.let_go = asyncio.Event(), asyncio.Event()

    async def sleep_async(self, _seconds: float) -> None:
        """Set `pausing`, and wait for `let_go`."""
        self.pausing.set()
        await self.let_go.wait()


async def _query(endpoint: str, query: str, spec: TrialSpec | None = None, *values: object) -> list[tuple[Any, ...]]:
    """Execute a query, in which `{table}` is the trial's."""
    table = table_of(spec) if spec else sql.SQL("")
    async with superuser(endpoint) as connection:
        cursor = await connection.execute(sql.SQL(query).format(table=table), values or None)
        return await cursor.fetchall() if cursor.description else []


async def _value(endpoint: str, spec: TrialSpec, key: str) -> Any:  # noqa: ANN401 -- text, or what JSON says
    ((value,),) = await _query(endpoint, "SELECT value FROM {table} WHERE key = %s", spec, key)
    return value


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("shape", ["blob", "product"])
async def test_over_tls_every_kind_does_what_it_says(
    server: LocalStore, certificates: Certificates, shape: Shape, *, reuse: bool
) -> None:
    """A kind that touched no row would be the fastest of all; without TLS the contract looks."""
    spec = _spec(shape, reuse=reuse, tls=True)
    contents = contents_of(spec)
    change = Kind.UPDATE if shape == "product" else Kind.OVERWRITE
    writes = {1_000: Kind.INSERT, 3: Kind.OVERWRITE, 4: Kind.READ_MODIFY_WRITE, 5: change}
    offered = {record: contents.operation(kind, record, 7) for record, kind in writes.items()}
    reads = [contents.operation(Kind.READ, 6, 0), contents.operation(Kind.SCAN, 6, 0, rows=5)]
    async with operating(postgresql_operations(spec, server.endpoint, certificates.authority)) as driver:
        done = [await perform(driver, each) for each in (*offered.values(), *reads)]
        stored = {record: await _value(server.endpoint, spec, each.key) for record, each in offered.items()}
    assert [(each.outcome, each.error, each.retries) for each in done] == [(Outcome.OK, "", 0)] * 6
    assert all(0 < each.t1_ns < each.t2_ns for each in done)
    for record, each in offered.items():
        if shape == "blob":
            assert stored[record] == each.value.decode()
        else:
            assert stored[record] == json.loads(contents.preloaded(record).value) | json.loads(each.value)


async def test_rows_are_inserted_and_any_is_selected(server: LocalStore) -> None:
    """The stand-in for Aurora DSQL's published table: a plan for it can be tried here."""
    workload = {"mix": {"insert": 1, "read": 1}, "record": {"shape": "row"}}
    spec = operations_spec({"store": "postgresql"}, records=20, workload=workload)
    contents = contents_of(spec)
    offered = contents.operation(Kind.INSERT, 1_000, 0), contents.operation(Kind.READ, 6, 0)
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        done = [await perform(driver, each) for each in offered]
        rows = await _query(server.endpoint, "SELECT count(*), min(data), max(data) FROM {table}", spec)
    assert [(each.outcome, each.error) for each in done] == [(Outcome.OK, "")] * 2
    assert rows == [(21, "bench", "bench")]


async def test_what_is_not_there_is_not_found(server: LocalStore) -> None:
    """It was written before, so that an empty answer is a lost record and no success."""
    spec = _spec("product")
    contents = contents_of(spec)
    kinds = (Kind.READ, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        done = [await perform(driver, contents.operation(kind, 999, 1)) for kind in kinds]
        beyond = await perform(driver, Request(Kind.SCAN, "~", rows=3))
    assert [(each.outcome, each.error) for each in (*done, beyond)] == [(Outcome.FAILED, "not_found")] * 5


async def test_a_record_that_is_inserted_again_is_overwritten(server: LocalStore) -> None:
    """A slice that Lambda attempts again inserts the same records, and so do the other stores' writers."""
    spec = _spec()
    insert = contents_of(spec).operation(Kind.INSERT, 500, 0)
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        done = [await perform(driver, each) for each in (insert, insert._replace(value=b"again"))]
        assert await _value(server.endpoint, spec, insert.key) == "again"
    assert [each.outcome for each in done] == [Outcome.OK] * 2


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_refusal_has_the_servers_code(server: LocalStore, *, reuse: bool) -> None:
    """A user finds the cause by its SQLSTATE; and the session is still good."""
    spec = _spec(reuse=reuse)
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        await _query(server.endpoint, "ALTER TABLE {table} ADD CHECK (value <> 'no')", spec)
        refused = await perform(driver, Request(Kind.INSERT, "key", b"no"))
        accepted = await perform(driver, Request(Kind.INSERT, "key", b"yes"))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "23514")
    assert accepted.outcome is Outcome.OK


@pytest.mark.parametrize("reuse", [True, False])
async def test_without_a_server_operations_fail(*, reuse: bool) -> None:
    """Nothing has been sent: they have not happened."""
    spec = _spec(reuse=reuse)
    nowhere = postgresql_operations(spec, f"127.0.0.1:{UNSERVED_PORT}/postgres")
    with pytest.raises(TargetUnavailableError):
        await nowhere.warm_up()
    done = await perform(nowhere, contents_of(spec).operation(Kind.READ, 0, 0))
    assert (done.outcome, done.error) == (Outcome.FAILED, "connect: refused")


async def test_a_session_that_the_server_has_ended_is_replaced_before_the_next_operation(server: LocalStore) -> None:
    """A sandbox keeps its connection while it is frozen; what an invocation finds dead is not its operation's fault."""
    spec = _spec(clients=1)
    driver = postgresql_operations(spec, server.endpoint)
    async with operating(driver):
        assert isinstance(driver, CountsConnections)
        before = driver.connections
        async with superuser(server.endpoint) as session:
            await session.execute(_END_OTHERS)
        await asyncio.sleep(0.2)
        await driver.warm_up()
        done = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
    assert (done.outcome, driver.connections - before) == (Outcome.OK, 1)


async def test_a_server_with_anothers_certificate_is_refused(server: LocalStore, tmp_path: Path) -> None:
    """Encryption to whoever answers is not what TLS with verification costs, nor what it is for."""
    spec = _spec(reuse=False, tls=True)
    driver = postgresql_operations(spec, server.endpoint, make_certificates(tmp_path).authority)
    with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
        await driver.warm_up()
    refused = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "tls: CERTIFICATE_VERIFY_FAILED")


async def test_the_provider_says_whether_it_was_encrypted(server: LocalStore, certificates: Certificates) -> None:
    """The server is asked for what it sees: what we have asked for proves nothing."""
    drivers = [postgresql_operations(_spec(tls=tls), server.endpoint, certificates.authority) for tls in (False, True)]
    named = [await driver.provider() for driver in drivers]
    assert named == ["PostgreSQL 17.10 (wheel)", "PostgreSQL 17.10 (wheel), TLSv1.3"]


@pytest.mark.parametrize("tls", [False, True])
async def test_the_parts_of_a_connection_sum_to_the_whole(
    server: LocalStore, certificates: Certificates, *, tls: bool
) -> None:
    """They do within 2 %, for every one of 50 operations; and no part is invented."""
    spec = _spec(reuse=False, tls=tls)
    contents = contents_of(spec)
    clock = AnchoredClock()
    async with operating(postgresql_operations(spec, server.endpoint, certificates.authority)) as driver:
        done: list[tuple[int, Result, int]] = []
        for record in range(50):
            before_ns = clock.now_ns()
            read = await perform(driver, contents.operation(Kind.READ, record % 20, 0))
            done.append((before_ns, read, clock.now_ns()))
    for before_ns, each, after_ns in done:
        assert each.outcome is Outcome.OK
        assert each.connecting is not None
        assert before_ns - 1e6 <= each.t1_ns < each.t2_ns <= after_ns + 1e6
        assert sum(each.connecting) == pytest.approx(each.t2_ns - each.t1_ns, rel=0.02)
        assert (each.connecting.tls_ns > 0) is tls
        assert min(each.connecting.connect_ns, each.connecting.authenticate_ns, each.connecting.operate_ns) > 0


SSL_REQUEST, CLIENT_HELLO = b"\x04\xd2\x16\x2f", b"\x16\x03\x01"


@pytest.mark.parametrize(
    ("tls", "request_with", "part"),
    [
        (False, b"application_name", "authenticate_ns"),
        (False, b"SELECT value", "operate_ns"),
        (True, SSL_REQUEST, "tls_ns"),
        (True, CLIENT_HELLO, "tls_ns"),
    ],
    ids=["start-up", "statement", "ssl-request", "client-hello"],
)
async def test_a_delay_is_in_the_part_where_it_was(
    server: LocalStore, certificates: Certificates, request_with: bytes, part: str, *, tls: bool
) -> None:
    """Parts that always sum to the whole could still be cut in the wrong places."""
    spec = _spec(reuse=False, tls=tls)
    read = contents_of(spec).operation(Kind.READ, 1, 0)
    with fault_proxy(server.endpoint, plain if tls else postgresql) as proxy:
        through = postgresql_operations(spec, f"{proxy.endpoint}/postgres", certificates.authority)
        async with operating(through) as driver:
            proxy.follow(Rule(Delay(answer_s=0.5), match=request_with, times=1))
            delayed = await perform(driver, read)
    assert delayed.connecting is not None
    late = [name for name, took_ns in delayed.connecting._asdict().items() if took_ns >= 0.5e9]
    assert late == [part]


async def test_preloading_goes_on_where_it_was(server: LocalStore) -> None:
    """PrepareTarget is attempted again after 15 minutes: what it had done must count, and nothing come twice."""
    spec = _spec(records=RECORDS)
    keys = [contents_of(spec).preloaded(number).key for number in range(RECORDS)]
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        ((first, versions),) = await _query(
            server.endpoint, "SELECT count(*), count(DISTINCT xmin::text) FROM {table}", spec
        )
        await _query(server.endpoint, "DELETE FROM {table} WHERE key = ANY (%s)", spec, keys[2_000:])
        assert not await driver.ready()
        await _query(server.endpoint, "UPDATE {table} SET value = 'kept' WHERE key = %s", spec, keys[0])
        await driver.prepare()
        assert await driver.ready()
        found = await _query(server.endpoint, "SELECT key, value FROM {table}", spec)
    assert (first, versions) == (RECORDS, 3)
    assert sorted(key for key, _ in found) == sorted(keys)
    assert dict(found)[keys[0]] == "kept"
    assert dict(found)[keys[-1]] == contents_of(spec).preloaded(RECORDS - 1).value.decode()


async def test_tear_down_leaves_others_alone(server: LocalStore) -> None:
    """The database may be somebody's; a lock on the trial's table is waited for by calling again."""
    others = _spec()
    other = postgresql_operations(others, server.endpoint)
    await other.prepare()
    spec = _spec()
    driver = postgresql_operations(spec, server.endpoint)
    await driver.prepare()
    async with superuser(server.endpoint) as holder:
        await holder.execute("BEGIN")
        await holder.execute(sql.SQL("SELECT 1 FROM {}").format(table_of(spec)))
        assert not await driver.tear_down()
    assert await driver.tear_down()
    assert await driver.tear_down()
    left = await _query(server.endpoint, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'stepbench%'")
    assert (f"stepbench_{others.tag}",) in left
    assert (f"stepbench_{spec.tag}",) not in left
    assert await other.tear_down()


async def test_connections_are_bounded_by_the_clients(server: LocalStore) -> None:
    """A client waits for its answer, so a writer with three never has more than three statements under way."""
    spec = _spec(clients=3)
    contents = contents_of(spec)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stepbench' AND pid <> pg_backend_pid()"
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        ((warm,),) = await _query(server.endpoint, count)
        done = await asyncio.gather(
            *(perform(driver, contents.operation(Kind.READ, number % 20, 0, client=number % 3)) for number in range(60))
        )
        ((kept,),) = await _query(server.endpoint, count)
    assert (warm, kept) == (3, 3)
    assert {each.outcome for each in done} == {Outcome.OK}


async def _refuse_updates(endpoint: str, spec: TrialSpec) -> None:
    """Have the server refuse every update with a conflict."""
    refuse = sql.SQL(
        "CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END $$;"
        "CREATE TRIGGER refuse BEFORE UPDATE ON {0}.records FOR EACH ROW EXECUTE FUNCTION {0}.refuse()"
    ).format(sql.Identifier(f"stepbench_{spec.tag}"))
    async with superuser(endpoint) as session:
        await session.execute(refuse)


async def test_a_conflict_that_stays_is_a_failure_after_ten_retries(server: LocalStore) -> None:
    """A client must not try for ever; and its time is that of all attempts, pauses included."""
    spec = _spec()
    async with operating(postgresql_operations(spec, server.endpoint)) as driver:
        await _refuse_updates(server.endpoint, spec)
        operated = await perform(driver, contents_of(spec).operation(Kind.OVERWRITE, 3, 1))
    assert (operated.outcome, operated.error, operated.retries) == (Outcome.FAILED, "40001", 10)
    shortest_s = sum(pause_s(retry, 0) for retry in range(10))
    assert operated.t2_ns - operated.t1_ns > 0.95 * shortest_s * 1e9  # asyncio rings up to a millisecond early


async def _withdrawn(driver: Driver, operation: Request) -> Result:
    """Return what is known of an operation that is cancelled."""
    try:
        return await perform(driver, operation)
    except WithdrawnError as withdrawn:
        return withdrawn.result


@pytest.mark.parametrize("reuse", [True, False])
async def test_who_is_cancelled_between_attempts_knows_that_all_were_refused(
    server: LocalStore, *, reuse: bool
) -> None:
    """Each was rolled back, by the server's own word: nothing is open about it."""
    spec, clock = _spec(reuse=reuse), _HeldClock()
    contents = contents_of(spec)
    async with operating(postgresql_operations(spec, server.endpoint, clock=clock)) as driver:
        await _refuse_updates(server.endpoint, spec)
        task = asyncio.create_task(_withdrawn(driver, contents.operation(Kind.OVERWRITE, 3, 1)))
        await clock.pausing.wait()
        task.cancel()
        refused = await task
        after = await perform(driver, contents.operation(Kind.READ, 3, 0))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "40001")
    assert refused.t1_ns < refused.t2_ns
    assert after.outcome is Outcome.OK


async def test_a_session_that_dies_between_attempts_leaves_the_last_refusal(server: LocalStore) -> None:
    """The next attempt cannot leave us any more, so it is not one without an answer."""
    spec, clock = _spec(), _HeldClock()
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stepbench'"
    driver = postgresql_operations(spec, server.endpoint, clock=clock)
    async with operating(driver):
        await _refuse_updates(server.endpoint, spec)
        task = asyncio.create_task(perform(driver, contents_of(spec).operation(Kind.OVERWRITE, 3, 1)))
        await clock.pausing.wait()
        await _query(server.endpoint, others)
        while not all(each.broken for each in driver._executor.sessions._sessions):  # noqa: ASYNC110 -- it tells nobody
            await asyncio.sleep(0)
        clock.let_go.set()
        refused = await task
    assert (refused.outcome, refused.error, refused.retries) == (Outcome.FAILED, "40001", 0)


async def test_who_is_cancelled_while_it_waits_for_a_session_has_sent_nothing(server: LocalStore) -> None:
    """In open loop, operations may still be queued at the drain limit."""
    spec = _spec(clients=1)
    update, read = (contents_of(spec).operation(kind, 3, 1) for kind in (Kind.OVERWRITE, Kind.READ))
    async with operating(postgresql_operations(spec, server.endpoint)) as driver, superuser(server.endpoint) as other:
        await other.execute("BEGIN")
        await other.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(table_of(spec)))
        first = asyncio.create_task(perform(driver, update))
        await until_blocked(server.endpoint)
        queued = asyncio.create_task(_withdrawn(driver, read))
        await asyncio.sleep(0)
        queued.cancel()
        withdrawn = await queued
        await other.execute("COMMIT")
        assert (await first).outcome is Outcome.OK
    assert (withdrawn.outcome, withdrawn.error) == (Outcome.FAILED, "withdrawn")


async def test_a_server_with_fewer_places_than_clients_can_be_prepared_and_cleared(tmp_path: Path) -> None:
    """Load that fills a server up is a result; a trial that can then never be cleared up is not."""
    spec = _spec(clients=12)
    store = serve("postgresql", install(TLS_WHEEL, tmp_path), tmp_path, {"max_connections": "6"})
    try:
        stage = postgresql_operations(spec, store.endpoint)
        await stage.open()
        await stage.prepare()
        assert await stage.ready()
        assert (await perform(stage, contents_of(spec).operation(Kind.READ, 3, 0))).outcome is Outcome.OK
        assert await stage.tear_down()
        await stage.close()
    finally:
        terminate(store.pids)
        discard_postgresql(tmp_path)
