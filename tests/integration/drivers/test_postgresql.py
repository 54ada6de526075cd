"""The PostgreSQL driver against a real server, with the stand-in for Aurora's `aws_lambda`."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from stepbench.clock import SystemClock
from stepbench.contracts.identity import EVENT_ID_CHARS, EventId, delete_key, update_key
from stepbench.drivers.postgresql import PostgresqlDriver
from stepbench.drivers.postgresql.lane import WRITE_LIMIT_S
from stepbench.drivers.protocol import Outcome, Write
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.local.postgresql import start_postgresql
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.processes import free_port, terminate
from stepbench.records.deliveries import parse_delivery
from stepbench.settings import Settings
from stepbench.testing.driver_contract import DriverContract
from stepbench.testing.driver_subject import KEY_BYTES, Subject, contract_spec, contract_write
from stepbench.testing.filter_contract import FilterContract, FilterSubject
from stepbench.testing.lambda_api import LambdaApi, lambda_api
from stepbench.testing.store_life import running, until_torn_down

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.local.processes import LocalStore
    from stepbench.testing.filter_contract import Arrived

pytestmark = pytest.mark.stores
RECEIVER = "arn:aws:lambda:eu-central-1:000000000000:function:stepbench-ReceiveEvents"
LIMIT_S = 20


def _driver(
    spec: TrialSpec, endpoint: str, receiver: str = RECEIVER, write_limit_s: float = WRITE_LIMIT_S
) -> PostgresqlDriver:
    settings = Settings(
        results_table="unused",
        results_bucket="unused",
        postgresql_endpoint=endpoint,
        receive_events_function_arn=receiver,
    )
    return PostgresqlDriver(spec, settings, SystemClock(), write_limit_s=write_limit_s)


@asynccontextmanager
async def _session(endpoint: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection that is not the driver's."""
    address, _, database = endpoint.partition("/")
    host, _, port = address.partition(":")
    connection = await psycopg.AsyncConnection.connect(
        host=host, port=int(port), dbname=database, user="postgres", autocommit=True
    )
    try:
        yield connection
    finally:
        await connection.close()


class PostgresqlSubject:
    """Looks at tables and catalogues with psycopg's own cursor."""

    target = {"store": "postgresql"}  # noqa: RUF012 -- read only

    def __init__(self, endpoint: str, api: LambdaApi) -> None:
        self.endpoint = endpoint
        self._api = api

    def driver(self, spec: TrialSpec) -> Driver:
        """For the running server."""
        return _driver(spec, self.endpoint)

    def unreachable(self, spec: TrialSpec) -> Driver:
        """For a port without a listener."""
        return _driver(spec, f"127.0.0.1:{free_port()}/postgres")

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """The value under a key."""
        query = sql.SQL("SELECT value FROM {}.records WHERE key = %s").format(sql.Identifier(f"stepbench_{spec.tag}"))
        async with _session(self.endpoint) as connection:
            row = await (await connection.execute(query, (key,))).fetchone()
        return row[0].encode() if row else None

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Schema, relations, functions and triggers whose name or schema has the tag."""
        query = """
            SELECT nspname || '/' || name FROM pg_namespace, LATERAL (
                SELECT 'schema' AS name
                UNION ALL SELECT relname FROM pg_class WHERE relnamespace = pg_namespace.oid
                UNION ALL SELECT proname || '()' FROM pg_proc WHERE pronamespace = pg_namespace.oid
                UNION ALL SELECT tgname || '!' FROM pg_trigger JOIN pg_class ON tgrelid = pg_class.oid
                          WHERE relnamespace = pg_namespace.oid) AS part
            WHERE nspname LIKE %s ORDER BY 1"""
        async with _session(self.endpoint) as connection:
            rows = await (await connection.execute(query, (f"%{spec.tag}%",))).fetchall()
        return [row[0] for row in rows]

    @asynccontextmanager
    async def receiving(self, _spec: TrialSpec) -> AsyncIterator[Arrived]:
        """What has been posted since."""
        before = len(self._api.invocations)

        async def arrived() -> list[tuple[int, int]]:
            posted = [parse_delivery(json.loads(each.body), 1) for each in self._api.invocations[before:]]
            return [(each.entry.phase, each.entry.sequence) for delivery in posted for each in delivery.arrivals]

        yield arrived


@pytest.fixture
def receiver_api(postgresql_server: LocalStore) -> Iterator[LambdaApi]:
    """A Lambda API that new sessions of the server call."""
    with lambda_api() as api:
        _call_at(postgresql_server.endpoint, api.endpoint)
        yield api


def _call_at(endpoint: str, api: str) -> None:
    address, _, database = endpoint.partition("/")
    host, _, port = address.partition(":")
    with psycopg.connect(host=host, port=int(port), dbname=database, user="postgres", autocommit=True) as connection:
        setting = sql.SQL("ALTER DATABASE {} SET aws_lambda.endpoint_override = {}")
        connection.execute(setting.format(sql.Identifier(database), sql.Literal(api)))


@pytest.fixture
def subject(postgresql_server: LocalStore, receiver_api: LambdaApi) -> PostgresqlSubject:
    """The session's server; its invocations go to `receiver_api`."""
    return PostgresqlSubject(postgresql_server.endpoint, receiver_api)


class TestPostgresqlDriver(DriverContract):
    """The contract that all drivers share."""

    @pytest.fixture
    def subject(self, postgresql_server: LocalStore, receiver_api: LambdaApi) -> Subject:
        """The session's server, with a receiver."""
        return PostgresqlSubject(postgresql_server.endpoint, receiver_api)


class TestPostgresqlFilter(FilterContract):
    """Its filter is the trigger's WHEN."""

    @pytest.fixture
    def subject(self, subject: PostgresqlSubject) -> FilterSubject:
        """See above."""
        return subject


async def test_an_insert_posts_the_event_before_it_is_acknowledged(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """Aurora calls inside the transaction: with a call after the commit, after-ack latency would mean another thing."""
    spec = contract_spec(subject.target)
    write = contract_write(spec, 7)
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(write)
    (invocation,) = receiver_api.invocations
    payload = json.loads(invocation.body)
    assert invocation.path == f"/2015-03-31/functions/{RECEIVER.replace(':', '%3A')}/invocations"
    assert invocation.headers["x-amz-invocation-type"] == "Event"
    assert "/eu-central-1/lambda/" in invocation.headers["authorization"]
    assert set(payload) == {"source", "event", "t3_us"}
    assert (payload["source"], payload["event"]) == ("stepbench:postgresql", write.value[:EVENT_ID_CHARS].decode())
    assert written.t1_ns <= payload["t3_us"] * 1000 + 999
    assert payload["t3_us"] * 1000 <= invocation.at_ns <= written.t2_ns


async def test_an_update_posts_the_new_event(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """The row's key names another event, or none: the identity is the new value's."""
    spec = contract_spec(subject.target, "update", distinct_keys=2)
    value = contract_write(spec, 5).value
    async with running(_driver(spec, subject.endpoint)) as driver:
        assert receiver_api.invocations == []  # preloading is no event
        written = await driver.write(Write(update_key(spec.tag, 1, KEY_BYTES), value))
    assert written.outcome is Outcome.OK
    assert [json.loads(each.body)["event"] for each in receiver_api.invocations] == [value[:EVENT_ID_CHARS].decode()]


async def test_a_delete_posts_the_event_in_its_key(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """The old value is the preloaded one's and names nobody; writing it, and a canary's, is no event."""
    spec = contract_spec(subject.target, "delete")
    key = delete_key(EventId(spec.tag, 0, 0, 0, 0, 5), KEY_BYTES)
    async with running(_driver(spec, subject.endpoint)) as driver:
        await driver.write(Write(f"{key[:48]}y", b"aside"))
        assert receiver_api.invocations == []
        written = await driver.write(Write(key, b"", delete=True))
    assert written.outcome is Outcome.OK
    assert [json.loads(each.body)["event"] for each in receiver_api.invocations] == [key[:EVENT_ID_CHARS]]


async def test_what_a_canary_deletes_cannot_be_written_without_a_server(subject: PostgresqlSubject) -> None:
    """An outcome, as of every write; the canary is sent again."""
    driver = subject.unreachable(contract_spec(subject.target, "delete"))
    written = await driver.write(Write("key", b"value"))
    assert (written.outcome, written.error) == (Outcome.UNKNOWN, "TargetUnavailableError")
    assert 0 < written.t1_ns <= written.t2_ns


async def test_request_response_waits_for_the_receiver(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """In this mode the receiver's whole run is part of the INSERT, which is what the experiment compares."""
    pause_s = 0.2

    def answer(_: object) -> bytes:
        time.sleep(pause_s)
        return b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"seen": 1}'

    receiver_api.answer = answer
    spec = contract_spec({"store": "postgresql", "invocation": "request_response"})
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(contract_write(spec, 0))
    assert [each.headers["x-amz-invocation-type"] for each in receiver_api.invocations] == ["RequestResponse"]
    assert written.outcome is Outcome.OK
    assert written.t2_ns - written.t1_ns > pause_s * 1e9


async def test_without_a_receiver_the_insert_fails_and_is_rolled_back(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """A trigger that cannot call is a store that refuses; the row must not be there as if nothing had happened."""
    receiver_api.close()
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(contract_write(spec, 0))
        stored = await subject.read_back(spec, contract_write(spec, 0).key)
    assert (written.outcome, written.error) == (Outcome.FAILED, "38000")
    assert stored is None


async def test_a_slow_receiver_is_bounded_by_the_settings(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """Aurora gives up after `aws_lambda.request_timeout_ms`; without the bound a stuck receiver blocks every lane."""
    release = threading.Event()

    def stall(_: object) -> None:
        release.wait(LIMIT_S)

    receiver_api.answer = stall
    spec = contract_spec(subject.target)
    async with _session(subject.endpoint) as connection:
        await connection.execute("ALTER ROLE postgres SET aws_lambda.request_timeout_ms = 300")
        try:
            async with running(_driver(spec, subject.endpoint)) as driver:
                written = await driver.write(contract_write(spec, 0))
        finally:
            await connection.execute("ALTER ROLE postgres RESET aws_lambda.request_timeout_ms")
            release.set()
    assert (written.outcome, written.error) == (Outcome.FAILED, "38000")
    assert 0.29e9 < written.t2_ns - written.t1_ns < LIMIT_S * 1e9
    assert len(receiver_api.invocations) == 1


async def test_a_refused_value_is_failed_with_its_sqlstate(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """A NUL is no text: cut off silently it would be stored as another value than was sent."""
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(Write("key", b"before\0after"))
        again = await driver.write(contract_write(spec, 1))
    assert (written.outcome, written.error) == (Outcome.FAILED, "22021")
    assert again.outcome is Outcome.OK
    assert len(receiver_api.invocations) == 1


async def test_more_writes_than_connections_queue_and_all_succeed(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """At the cap requests queue in order; the server never sees more sessions than the plan allows."""
    spec = contract_spec(subject.target)
    spec = spec.model_copy(update={"plan": spec.plan.model_copy(update={"max_in_flight": 3})})
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await asyncio.gather(*(driver.write(contract_write(spec, sequence)) for sequence in range(40)))
    assert {result.outcome for result in written} == {Outcome.OK}
    assert len({each.connection for each in receiver_api.invocations}) <= 3
    assert [result.t1_ns for result in written] == sorted(result.t1_ns for result in written)


async def test_a_session_that_ends_is_unknown_and_replaced(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """A failover cuts sessions: what was under way may have been committed, and the next write needs a new one."""
    waiting, release = threading.Event(), threading.Event()

    def stall(_: object) -> bytes:
        waiting.set()
        release.wait(LIMIT_S)
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"

    receiver_api.answer = stall
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver, _session(subject.endpoint) as connection:
        cut = asyncio.create_task(driver.write(contract_write(spec, 0)))
        assert await asyncio.to_thread(waiting.wait, LIMIT_S)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'stepbench' AND state = 'active'"
        )
        written = await asyncio.wait_for(cut, LIMIT_S)
        release.set()
        after = await asyncio.wait_for(driver.write(contract_write(spec, 1)), LIMIT_S)
    assert (written.outcome, written.error) == (Outcome.UNKNOWN, "57P01")
    assert after.outcome is Outcome.OK


async def test_a_killed_server_ends_every_write(tmp_path: Path) -> None:
    """The store may die in the middle of a trial; no write may hang, and later ones never left."""
    waiting, release = threading.Event(), threading.Event()

    def stall(_: object) -> None:
        waiting.set()
        release.wait(LIMIT_S)

    with lambda_api() as api:
        api.answer = stall
        server = start_postgresql(tmp_path, api.endpoint)
        spec = contract_spec(PostgresqlSubject.target)
        driver = _driver(spec, server.endpoint)
        try:
            await driver.prepare()
            await driver.open()
            cut = asyncio.create_task(driver.write(contract_write(spec, 0)))
            assert await asyncio.to_thread(waiting.wait, LIMIT_S)
            await asyncio.to_thread(terminate, server.pids, grace_s=0)
            written = await asyncio.wait_for(cut, LIMIT_S)
            after = await asyncio.wait_for(driver.write(contract_write(spec, 1)), LIMIT_S)
            with pytest.raises(TargetUnavailableError):
                await driver.tear_down()
        finally:
            release.set()
            terminate(server.pids)
            await driver.close()
            discard_postgresql(tmp_path)
    assert written.outcome is Outcome.UNKNOWN
    assert (after.outcome, after.error) == (Outcome.FAILED, "08001")


async def test_tear_down_waits_for_no_lock(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """Somebody may look into the table; tear-down says "not yet" within its bound and succeeds when called again."""
    assert receiver_api
    spec = contract_spec(subject.target)
    driver = _driver(spec, subject.endpoint)
    await driver.prepare()
    async with _session(subject.endpoint) as connection:
        schema = sql.Identifier(f"stepbench_{spec.tag}")
        await connection.execute("BEGIN")
        await connection.execute(sql.SQL("LOCK TABLE {}.records IN ACCESS SHARE MODE").format(schema))
        started = time.monotonic()
        first = await driver.tear_down()
        elapsed_s = time.monotonic() - started
        await connection.execute("COMMIT")
    assert first is False
    assert elapsed_s < LIMIT_S
    await until_torn_down(driver)
    assert await subject.leftovers(spec) == []


async def test_ready_means_an_enabled_trigger(subject: PostgresqlSubject) -> None:
    """Canaries would only time out where the trigger is missing; this tells why."""
    spec = contract_spec(subject.target)
    driver = _driver(spec, subject.endpoint)
    before = await driver.ready()
    async with running(_driver(spec, subject.endpoint)), _session(subject.endpoint) as connection:
        prepared = await driver.ready()
        table = sql.Identifier(f"stepbench_{spec.tag}", "records")
        await connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER notify_receiver").format(table))
        disabled = await driver.ready()
    assert (before, prepared, disabled) == (False, True, False)


async def test_the_wheels_version_is_named(subject: PostgresqlSubject) -> None:
    """A result of PostgreSQL 18 from a wheel is not one of Aurora; the report prints this text."""
    assert re.fullmatch(r"PostgreSQL 18\.\d+ \(wheel\)", await subject.driver(contract_spec(subject.target)).provider())


async def test_aurora_is_named_with_its_own_version(subject: PostgresqlSubject) -> None:
    """Aurora's version is not PostgreSQL's, and its releases differ in speed."""
    async with _session(subject.endpoint) as connection:
        await connection.execute("CREATE FUNCTION aurora_version() RETURNS text RETURN '16.4.1'")
        try:
            name = await subject.driver(contract_spec(subject.target)).provider()
        finally:
            await connection.execute("DROP FUNCTION aurora_version()")
    assert re.fullmatch(r"Aurora PostgreSQL 18\.\d+ \(Aurora 16\.4\.1\)", name)


async def test_a_server_without_the_extension_is_refused_for_good(subject: PostgresqlSubject) -> None:
    """No retry brings an extension; a trial that is tried again until the time is up would hide that."""
    spec = contract_spec(subject.target)
    async with _session(subject.endpoint) as connection:
        await connection.execute("CREATE DATABASE bare")
        await connection.execute("ALTER DATABASE bare SET extension_control_path = '$system'")
        try:
            bare = _driver(spec, subject.endpoint.replace("/postgres", "/bare"))
            with pytest.raises(PlanError, match=r"aws_lambda.*rds_superuser"):
                await bare.prepare()
            await bare.close()
        finally:
            await connection.execute("DROP DATABASE bare WITH (FORCE)")


async def test_no_receiver_is_refused_before_anything_is_made(subject: PostgresqlSubject) -> None:
    """A trigger that calls nothing would make every insert fail, with an error that names no cause."""
    spec = contract_spec(subject.target)
    with pytest.raises(PlanError, match="RECEIVE_EVENTS_FUNCTION_ARN"):
        await _driver(spec, subject.endpoint, receiver="").prepare()
    assert await subject.leftovers(spec) == []


async def test_a_cancelled_write_does_not_leave_its_answer_to_the_next(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """The connection still owes an answer; given to the next write it would shift every result by one."""
    spec = contract_spec(subject.target)
    spec = spec.model_copy(update={"plan": spec.plan.model_copy(update={"max_in_flight": 1})})
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(_: object) -> bytes:
        loop.call_soon_threadsafe(arrived.set)
        time.sleep(0.1)
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"

    receiver_api.answer = slow
    async with running(_driver(spec, subject.endpoint)) as driver:
        cancelled = asyncio.create_task(driver.write(contract_write(spec, 0)))
        await asyncio.wait_for(arrived.wait(), LIMIT_S)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        refused = await driver.write(Write("key", b"\0"))
        accepted = await driver.write(contract_write(spec, 1))
    results: list[Any] = [refused.outcome, accepted.outcome]
    assert results == [Outcome.FAILED, Outcome.OK]


async def test_a_write_without_an_answer_is_given_up_as_unknown(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """A network that swallows packets sends no error; the writer has to end its slice all the same."""
    release = threading.Event()

    def stall(_: object) -> None:
        release.wait(LIMIT_S)

    usual = receiver_api.answer
    receiver_api.answer = stall
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint, write_limit_s=0.3)) as driver:
        written = await driver.write(contract_write(spec, 0))
        receiver_api.answer = usual
        release.set()
        after = await driver.write(contract_write(spec, 1))
    assert (written.outcome, written.error) == (Outcome.UNKNOWN, "timeout")
    assert 0.29e9 < written.t2_ns - written.t1_ns < LIMIT_S * 1e9
    assert after.outcome is Outcome.OK


async def test_a_value_larger_than_the_sockets_buffer_arrives_whole(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """The kernel takes such a value in parts; a lost rest would hang the statement."""
    assert receiver_api
    spec = contract_spec(subject.target)
    value = contract_write(spec, 0).value + b"x" * 30_000_000
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(Write("big", value))
        stored = await subject.read_back(spec, "big")
    assert written.outcome is Outcome.OK
    assert stored == value


async def test_a_write_without_a_table_is_failed(subject: PostgresqlSubject) -> None:
    """The table may be gone, when a sweeper tears down under a writer that lives on."""
    spec = contract_spec(subject.target)
    driver = _driver(spec, subject.endpoint)
    await driver.open()
    written = await driver.write(contract_write(spec, 0))
    await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "42P01")
