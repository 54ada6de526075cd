"""Operations on a real PostgreSQL, with TLS and without, looked at through a session that is not the driver's."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import psycopg
import pytest
from psycopg import sql

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.postgresql import PostgresqlOperations
from stepbench.drivers.operations.sql_operator import pause_s
from stepbench.drivers.protocol import Operation, Outcome, WithdrawnError
from stepbench.errors import TargetUnavailableError
from stepbench.load.operations import Contents
from stepbench.local.certificates import make_certificates
from stepbench.local.postgresql_server import discard_postgresql, install, serve
from stepbench.local.postgresql_tls import WHEEL, start_postgresql_with_tls
from stepbench.local.processes import free_port, terminate
from stepbench.settings import Settings
from stepbench.testing.fault_proxy import Cut, Delay, FaultProxy, Rule, fault_proxy, plain, postgresql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.drivers.protocol import Answer, Operated
    from stepbench.local.certificates import Certificates
    from stepbench.local.processes import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 20
RECORDS = 5_000
"""Preloaded in three batches."""
Shape = Literal["blob", "product"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[LocalStore]:
    """One for TLS and plain."""
    directory = tmp_path_factory.mktemp("postgresql")
    store = start_postgresql_with_tls(directory, certificates)
    yield store
    terminate(store.pids)
    discard_postgresql(directory)


def _spec(
    shape: Shape = "blob", *, reuse: bool = True, tls: bool = False, clients: int = 2, records: int = 20
) -> TrialSpec:
    mix = {kind.name.lower(): 1 for kind in Kind if shape == "product" or kind is not Kind.UPDATE}
    plan = {
        "experiment": "operations",
        "target": {"store": "postgresql", "tls": tls},
        "workload": {"mix": mix, "record": {"shape": shape}, "records": records, "reuse": reuse},
        "phases": [{"name": "load", "closed": {"clients": clients, "duration_s": 1}}],
    }
    run_id = f"operations-{uuid.uuid4()}"
    return TrialSpec(
        run_id=run_id,
        index=0,
        name="postgresql",
        tag=trial_tag(run_id, 0),
        plan=TrialPlan.model_validate(plan),
        estimate_usd=0,
    )


class _HeldClock(AnchoredClock):
    """Pauses last until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.pausing, self.let_go = asyncio.Event(), asyncio.Event()

    async def sleep_async(self, _seconds: float) -> None:
        """Tells that somebody pauses."""
        self.pausing.set()
        await self.let_go.wait()


def _driver(
    spec: TrialSpec, endpoint: str, authority: Path | None = None, limit_s: float = 5, clock: Clock | None = None
) -> PostgresqlOperations:
    settings = Settings(
        results_table="t",
        results_bucket="b",
        postgresql_endpoint="127.0.0.1:1/never",
        postgresql_tls_endpoint=endpoint,
        tls_authority=str(authority or ""),
    )
    return PostgresqlOperations(spec, settings, clock or AnchoredClock(), answer_limit_s=limit_s)


@asynccontextmanager
async def _running(driver: PostgresqlOperations) -> AsyncIterator[PostgresqlOperations]:
    async with asyncio.timeout(LIMIT_S):
        await driver.prepare()
        await driver.open()
        await driver.warm_up()
        try:
            yield driver
        finally:
            await driver.close()
            assert await driver.tear_down()


@asynccontextmanager
async def _session(endpoint: str) -> AsyncIterator[psycopg.AsyncConnection]:
    address, _, database = endpoint.partition("/")
    host, _, port = address.partition(":")
    connection = await psycopg.AsyncConnection.connect(
        host=host, port=int(port), dbname=database, user="postgres", autocommit=True, connect_timeout=5
    )
    try:
        yield connection
    finally:
        await connection.close()


async def _query(endpoint: str, query: str, spec: TrialSpec | None = None, *values: object) -> list[tuple[Any, ...]]:
    """`{table}` in it is the trial's."""
    table = sql.Identifier(f"stepbench_{spec.tag if spec else ''}", "records")
    async with _session(endpoint) as connection:
        cursor = await connection.execute(sql.SQL(query).format(table=table), values or None)
        return await cursor.fetchall() if cursor.description else []


def _contents(spec: TrialSpec) -> Contents:
    assert spec.plan.workload is not None
    return Contents(spec.plan.workload, spec.tag)


def _table(spec: TrialSpec) -> sql.Identifier:
    return sql.Identifier(f"stepbench_{spec.tag}", "records")


async def _value(endpoint: str, spec: TrialSpec, key: str) -> Any:  # noqa: ANN401 -- text, or what JSON says
    ((value,),) = await _query(endpoint, "SELECT value FROM {table} WHERE key = %s", spec, key)
    return value


def _through(proxy: FaultProxy) -> str:
    return f"{proxy.endpoint}/postgres"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("shape", ["blob", "product"])
async def test_every_kind_does_what_it_says(
    server: LocalStore, certificates: Certificates, shape: Shape, *, reuse: bool, tls: bool
) -> None:
    """A kind that touched no row would be the fastest of all."""
    spec = _spec(shape, reuse=reuse, tls=tls)
    contents = _contents(spec)
    inserted = contents.operation(Kind.INSERT, 1_000, 0)
    overwritten = contents.operation(Kind.OVERWRITE, 3, 7)
    modified = contents.operation(Kind.READ_MODIFY_WRITE, 4, 8)
    updated = contents.operation(Kind.UPDATE if shape == "product" else Kind.OVERWRITE, 5, 9)
    async with _running(_driver(spec, server.endpoint, certificates.authority)) as driver:
        offered = [inserted, overwritten, modified, updated, contents.operation(Kind.READ, 6, 0)]
        offered += [contents.operation(Kind.SCAN, 6, 0, rows=5)]
        done = [await driver.operate(each) for each in offered]
        stored = {each.key: await _value(server.endpoint, spec, each.key) for each in offered[:4]}
    assert [(each.outcome, each.error, each.retries) for each in done] == [(Outcome.OK, "", 0)] * 6
    assert all(0 < each.t1_ns < each.t2_ns for each in done)
    if shape == "blob":
        assert stored == {each.key: each.value.decode() for each in offered[:4]}
        return
    assert stored[inserted.key] == json.loads(inserted.value)
    assert stored[overwritten.key] == json.loads(overwritten.value)
    for change, record in ((modified, 4), (updated, 5)):
        assert stored[change.key] == json.loads(contents.preloaded(record).value) | json.loads(change.value)


async def test_what_is_not_there_is_not_found(server: LocalStore) -> None:
    """It was written before, so that an empty answer is a lost record and no success."""
    spec = _spec("product")
    contents = _contents(spec)
    kinds = (Kind.READ, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
    async with _running(_driver(spec, server.endpoint)) as driver:
        done = [await driver.operate(contents.operation(kind, 999, 1)) for kind in kinds]
        beyond = await driver.operate(Operation(Kind.SCAN, "~", rows=3))
    assert [(each.outcome, each.error) for each in (*done, beyond)] == [(Outcome.FAILED, "not_found")] * 5


async def test_a_record_that_is_inserted_again_is_overwritten(server: LocalStore) -> None:
    """A slice that Lambda attempts again inserts the same records, and so do the other stores' writers."""
    spec = _spec()
    insert = _contents(spec).operation(Kind.INSERT, 500, 0)
    async with _running(_driver(spec, server.endpoint)) as driver:
        done = [await driver.operate(each) for each in (insert, insert._replace(value=b"again"))]
        assert await _value(server.endpoint, spec, insert.key) == "again"
    assert [each.outcome for each in done] == [Outcome.OK] * 2


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_refusal_has_the_servers_code(server: LocalStore, *, reuse: bool) -> None:
    """By its SQLSTATE a user finds the cause; and the session is still good."""
    spec = _spec(reuse=reuse)
    async with _running(_driver(spec, server.endpoint)) as driver:
        await _query(server.endpoint, "ALTER TABLE {table} ADD CHECK (value <> 'no')", spec)
        refused = await driver.operate(Operation(Kind.INSERT, "key", b"no"))
        accepted = await driver.operate(Operation(Kind.INSERT, "key", b"yes"))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "23514")
    assert accepted.outcome is Outcome.OK


async def test_a_statement_without_an_answer_is_unknown(server: LocalStore) -> None:
    """It may still happen, and its answer must not meet the next statement: that gets a connection of its own."""
    spec = _spec()
    operation = _contents(spec).operation(Kind.OVERWRITE, 3, 1)
    async with _running(_driver(spec, server.endpoint, limit_s=0.3)) as driver, _session(server.endpoint) as other:
        await other.execute("BEGIN")
        table = sql.Identifier(f"stepbench_{spec.tag}", "records")
        await other.execute(sql.SQL("SELECT 1 FROM {} WHERE key = %s FOR UPDATE").format(table), (operation.key,))
        silent = await driver.operate(operation)
        await other.execute("ROLLBACK")
        answered = await driver.operate(_contents(spec).operation(Kind.READ, 4, 0))
    assert (silent.outcome, silent.error) == (Outcome.UNKNOWN, "timeout")
    assert silent.t2_ns - silent.t1_ns > 0.29e9
    assert answered.outcome is Outcome.OK


async def test_a_cut_connection_costs_one_operation(server: LocalStore) -> None:
    """The write has happened, and nobody has heard of it; what follows has a new connection."""
    spec = _spec()
    contents = _contents(spec)
    with fault_proxy(server.endpoint, postgresql) as proxy:
        async with _running(_driver(spec, _through(proxy))) as driver:
            proxy.follow(Rule(Cut("before-answer"), match=b"stepbench_overwrite", times=1))
            cut = await driver.operate(contents.operation(Kind.OVERWRITE, 3, 1))
            stored = await _value(server.endpoint, spec, contents.preloaded(3).key)
            after = [await driver.operate(contents.operation(Kind.OVERWRITE, 3, version)) for version in (2, 3, 4)]
    assert (cut.outcome, cut.error) == (Outcome.UNKNOWN, "connection lost")
    assert stored == contents.operation(Kind.OVERWRITE, 3, 1).value.decode()
    assert [each.outcome for each in after] == [Outcome.OK] * 3


@pytest.mark.parametrize("reuse", [True, False])
async def test_without_a_server_operations_fail(server: LocalStore, *, reuse: bool) -> None:
    """Nothing has been sent: they have not happened."""
    spec = _spec(reuse=reuse)
    nowhere = _driver(spec, f"127.0.0.1:{free_port()}/postgres")
    assert server
    with pytest.raises(TargetUnavailableError):
        await nowhere.warm_up()
    done = await nowhere.operate(_contents(spec).operation(Kind.READ, 0, 0))
    assert (done.outcome, done.error) == (Outcome.FAILED, "08001")


async def test_a_server_with_anothers_certificate_is_refused(server: LocalStore, tmp_path: Path) -> None:
    """Encryption to whoever answers is not what TLS with verification costs, nor what it is for."""
    spec = _spec(reuse=False, tls=True)
    driver = _driver(spec, server.endpoint, make_certificates(tmp_path).authority)
    with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
        await driver.warm_up()
    refused = await driver.operate(_contents(spec).operation(Kind.READ, 0, 0))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "08001")


async def test_the_provider_says_whether_it_was_encrypted(server: LocalStore, certificates: Certificates) -> None:
    """As the server sees it, not as we have asked for it."""
    named = [await _driver(_spec(tls=tls), server.endpoint, certificates.authority).provider() for tls in (False, True)]
    assert named == ["PostgreSQL 17.10 (wheel)", "PostgreSQL 17.10 (wheel), TLSv1.3"]


@pytest.mark.parametrize("tls", [False, True])
async def test_the_parts_of_a_connection_sum_to_the_whole(
    server: LocalStore, certificates: Certificates, *, tls: bool
) -> None:
    """Within 2 %, of every one of 50 operations; and no part is invented."""
    spec = _spec(reuse=False, tls=tls)
    contents = _contents(spec)
    clock = AnchoredClock()
    async with _running(_driver(spec, server.endpoint, certificates.authority)) as driver:
        done: list[tuple[int, Operated, int]] = []
        for record in range(50):
            before_ns = clock.now_ns()
            done.append(
                (before_ns, await driver.operate(contents.operation(Kind.READ, record % 20, 0)), clock.now_ns())
            )
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
    read = _contents(spec).operation(Kind.READ, 1, 0)
    with fault_proxy(server.endpoint, plain if tls else postgresql) as proxy:
        async with _running(_driver(spec, _through(proxy), certificates.authority)) as driver:
            proxy.follow(Rule(Delay(answer_s=0.5), match=request_with, times=1))
            delayed = await driver.operate(read)
    assert delayed.connecting is not None
    late = [name for name, took_ns in delayed.connecting._asdict().items() if took_ns >= 0.5e9]
    assert late == [part]


async def test_conflicts_are_retried_and_counted(server: LocalStore) -> None:
    """Optimistic stores ask for it: without, a hot record would look like a broken store."""
    await _query(server.endpoint, "CREATE DATABASE conflicting")
    await _query(server.endpoint, "ALTER DATABASE conflicting SET default_transaction_isolation = 'repeatable read'")
    endpoint = server.endpoint.replace("/postgres", "/conflicting")
    spec = _spec()
    operation = _contents(spec).operation(Kind.OVERWRITE, 3, 1)
    async with _running(_driver(spec, endpoint)) as driver, _session(endpoint) as other:
        await other.execute("BEGIN")
        table = sql.Identifier(f"stepbench_{spec.tag}", "records")
        await other.execute(sql.SQL("UPDATE {} SET value = 'x' WHERE key = %s").format(table), (operation.key,))
        waiting = asyncio.create_task(driver.operate(operation))
        await _blocked(endpoint)
        await other.execute("COMMIT")
        operated = await waiting
        assert await _value(endpoint, spec, operation.key) == operation.value.decode()
    assert (operated.outcome, operated.error, operated.retries) == (Outcome.OK, "", 1)


async def _blocked(endpoint: str) -> None:
    """Until a session waits for another's lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(LIMIT_S):
        while not await _query(endpoint, waiting):
            pass


async def test_preloading_goes_on_where_it_was(server: LocalStore) -> None:
    """PrepareTarget is attempted again after 15 minutes: what it had done must count, and nothing come twice."""
    spec = _spec(records=RECORDS)
    keys = [_contents(spec).preloaded(number).key for number in range(RECORDS)]
    async with _running(_driver(spec, server.endpoint)) as driver:
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
    assert dict(found)[keys[-1]] == _contents(spec).preloaded(RECORDS - 1).value.decode()


async def test_tear_down_leaves_others_alone(server: LocalStore) -> None:
    """The database may be somebody's; a lock on the trial's table is waited for by calling again."""
    others = _spec()
    other = _driver(others, server.endpoint)
    await other.prepare()
    spec = _spec()
    driver = _driver(spec, server.endpoint)
    await driver.prepare()
    async with _session(server.endpoint) as holder:
        await holder.execute("BEGIN")
        await holder.execute(sql.SQL("SELECT 1 FROM {}").format(sql.Identifier(f"stepbench_{spec.tag}", "records")))
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
    contents = _contents(spec)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stepbench' AND pid <> pg_backend_pid()"
    async with _running(_driver(spec, server.endpoint)) as driver:
        ((warm,),) = await _query(server.endpoint, count)
        done = await asyncio.gather(
            *(driver.operate(contents.operation(Kind.READ, number % 20, 0, client=number % 3)) for number in range(60))
        )
        ((kept,),) = await _query(server.endpoint, count)
    assert (warm, kept) == (3, 3)
    assert {each.outcome for each in done} == {Outcome.OK}


async def _refuse_updates(endpoint: str, spec: TrialSpec) -> None:
    """As an optimistic store would that somebody else is always faster on."""
    refuse = sql.SQL(
        "CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '40001'; END $$;"
        "CREATE TRIGGER refuse BEFORE UPDATE ON {0}.records FOR EACH ROW EXECUTE FUNCTION {0}.refuse()"
    ).format(sql.Identifier(f"stepbench_{spec.tag}"))
    async with _session(endpoint) as session:
        await session.execute(refuse)


async def test_a_conflict_that_stays_is_a_failure_after_ten_retries(server: LocalStore) -> None:
    """A client must not try for ever; and its time is that of all attempts, pauses included."""
    spec = _spec()
    async with _running(_driver(spec, server.endpoint)) as driver:
        await _refuse_updates(server.endpoint, spec)
        operated = await driver.operate(_contents(spec).operation(Kind.OVERWRITE, 3, 1))
    assert (operated.outcome, operated.error, operated.retries) == (Outcome.FAILED, "40001", 10)
    shortest_s = sum(pause_s(retry, 0) for retry in range(10))
    assert operated.t2_ns - operated.t1_ns > 0.95 * shortest_s * 1e9  # asyncio rings up to a millisecond early


async def _withdrawn(driver: PostgresqlOperations, operation: Operation) -> Answer:
    """What is known of an operation that is cancelled."""
    try:
        return await driver.operate(operation)
    except WithdrawnError as withdrawn:
        return withdrawn.answer


@pytest.mark.parametrize("reuse", [True, False])
async def test_who_is_cancelled_between_attempts_knows_that_all_were_refused(
    server: LocalStore, *, reuse: bool
) -> None:
    """Each was rolled back, by the server's own word: nothing is open about it."""
    spec, clock = _spec(reuse=reuse), _HeldClock()
    contents = _contents(spec)
    async with _running(_driver(spec, server.endpoint, clock=clock)) as driver:
        await _refuse_updates(server.endpoint, spec)
        task = asyncio.create_task(_withdrawn(driver, contents.operation(Kind.OVERWRITE, 3, 1)))
        await clock.pausing.wait()
        task.cancel()
        refused = await task
        after = await driver.operate(contents.operation(Kind.READ, 3, 0))
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "40001")
    assert refused.t1_ns < refused.t2_ns
    assert after.outcome is Outcome.OK


async def test_a_session_that_dies_between_attempts_leaves_the_last_refusal(server: LocalStore) -> None:
    """The next attempt cannot leave us any more, so it is not one without an answer."""
    spec, clock = _spec(), _HeldClock()
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stepbench'"
    async with _running(_driver(spec, server.endpoint, clock=clock)) as driver:
        await _refuse_updates(server.endpoint, spec)
        task = asyncio.create_task(driver.operate(_contents(spec).operation(Kind.OVERWRITE, 3, 1)))
        await clock.pausing.wait()
        await _query(server.endpoint, others)
        while not all(each.broken for each in driver._operator._sessions._lanes):  # noqa: ASYNC110 -- it tells nobody
            await asyncio.sleep(0)
        clock.let_go.set()
        refused = await task
    assert (refused.outcome, refused.error, refused.retries) == (Outcome.FAILED, "40001", 0)


async def test_who_is_cancelled_while_it_waits_for_a_session_has_sent_nothing(server: LocalStore) -> None:
    """In open loop, operations may still be queued at the drain limit."""
    spec = _spec(clients=1)
    update, read = (_contents(spec).operation(kind, 3, 1) for kind in (Kind.OVERWRITE, Kind.READ))
    async with _running(_driver(spec, server.endpoint)) as driver, _session(server.endpoint) as other:
        await other.execute("BEGIN")
        await other.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(_table(spec)))
        first = asyncio.create_task(driver.operate(update))
        await _blocked(server.endpoint)
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
    store = serve("postgresql", install(WHEEL, tmp_path), tmp_path, {"max_connections": "6"})
    try:
        stage = _driver(spec, store.endpoint)
        await stage.open()
        await stage.prepare()
        assert await stage.ready()
        assert (await stage.operate(_contents(spec).operation(Kind.READ, 3, 0))).outcome is Outcome.OK
        assert await stage.tear_down()
        await stage.close()
    finally:
        terminate(store.pids)
        discard_postgresql(tmp_path)
