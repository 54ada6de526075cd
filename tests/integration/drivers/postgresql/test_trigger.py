"""The PostgreSQL driver against a real server, with the stand-in for Aurora's `aws_lambda`."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from typing import TYPE_CHECKING

import boto3
import pytest
from psycopg import sql
from tests.integration.drivers.postgresql.conftest import RECEIVER, PostgresqlSubject, postgresql_driver, table_of
from tests.integration.drivers.sql.superuser import superuser
from tests.integration.drivers.subjects import SubjectFixture
from tests.samples.lambda_api import ACCEPTED, LambdaApi, lambda_api
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.life import running, until_torn_down
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import KEY_BYTES, contract_spec, contract_write

from stepbench.contracts.identity import EVENT_ID_CHARS, EventId, delete_key, update_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.postgresql.operations import trial_access
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench.settings import Settings
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.postgresql import discard_postgresql, start_postgresql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.sql.access import Access
    from stepbench.services import Services
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 20


def _bounded(spec: TrialSpec, max_in_flight: int) -> TrialSpec:
    return spec.model_copy(update={"plan": spec.plan.model_copy(update={"max_in_flight": max_in_flight})})


class _Stall:
    """A receiver that answers each invocation when it is let go, at the latest after `LIMIT_S`."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.waiting, self.release = threading.Event(), threading.Event()
        self._answer = answer

    def __call__(self, _: object) -> bytes | None:
        self.waiting.set()
        self.release.wait(LIMIT_S)
        return self._answer


class TestPostgresqlDriver(SubjectFixture, TriggerContract):
    """The contract that all drivers share."""


class TestPostgresqlFilter(SubjectFixture, FilterContract):
    """Its filter is the trigger's WHEN."""


async def test_an_insert_posts_the_event_before_it_is_acknowledged(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """Aurora calls inside the transaction: with a call after the commit, after-ack latency would mean another thing."""
    spec = contract_spec(subject.target)
    write = contract_write(spec, 7)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await perform(driver, write)
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
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        assert receiver_api.invocations == []  # preloading is no event
        written = await perform(driver, Request(Kind.INSERT, update_key(spec.tag, 1, KEY_BYTES), value))
    assert written.outcome is Outcome.OK
    assert [json.loads(each.body)["event"] for each in receiver_api.invocations] == [value[:EVENT_ID_CHARS].decode()]


async def test_a_delete_posts_the_event_in_its_key(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """The old value is the preloaded one's and names nobody; writing it, and a canary's, is no event."""
    spec = contract_spec(subject.target, "delete")
    key = delete_key(EventId(spec.tag, 0, 0, 0, 0, 5), KEY_BYTES)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        await perform(driver, Request(Kind.INSERT, f"{key[:48]}y", b"aside"))
        assert receiver_api.invocations == []
        written = await perform(driver, Request(Kind.DELETE, key))
    assert written.outcome is Outcome.OK
    assert [json.loads(each.body)["event"] for each in receiver_api.invocations] == [key[:EVENT_ID_CHARS]]


async def test_what_a_canary_deletes_cannot_be_written_without_a_server(subject: PostgresqlSubject) -> None:
    """It is an outcome, as of every write; the canary is sent again."""
    driver = subject.unreachable(contract_spec(subject.target, "delete"))
    written = await perform(driver, Request(Kind.INSERT, "key", b"value"))
    assert (written.outcome, written.error) == (Outcome.FAILED, "connect: refused")
    assert 0 < written.t1_ns <= written.t2_ns


async def test_request_response_waits_for_the_receiver(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """In this mode the receiver's whole run is part of the INSERT, which is what the experiment compares."""
    pause_s = 0.2

    def answer(_: object) -> bytes:
        time.sleep(pause_s)
        return b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"seen": 1}'

    receiver_api.answer = answer
    spec = contract_spec({"store": "postgresql", "invocation": "request_response"})
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await perform(driver, contract_write(spec, 0))
    assert [each.headers["x-amz-invocation-type"] for each in receiver_api.invocations] == ["RequestResponse"]
    assert written.outcome is Outcome.OK
    assert written.t2_ns - written.t1_ns > pause_s * 1e9


async def test_without_a_receiver_the_insert_fails_and_is_rolled_back(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """A trigger that cannot call is a store that refuses; the row must not be there as if nothing had happened."""
    receiver_api.close()
    spec = contract_spec(subject.target)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await perform(driver, contract_write(spec, 0))
        stored = await subject.read_back(spec, contract_write(spec, 0).key)
    assert (written.outcome, written.error) == (Outcome.FAILED, "38000")
    assert stored is None


async def test_a_slow_receiver_is_bounded_by_the_settings(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """Aurora gives up after `aws_lambda.request_timeout_ms`; without the bound a stuck receiver blocks every lane."""
    receiver_api.answer = stall = _Stall()
    spec = contract_spec(subject.target)
    async with superuser(subject.endpoint) as connection:
        await connection.execute("ALTER ROLE postgres SET aws_lambda.request_timeout_ms = 300")
        try:
            async with running(postgresql_driver(spec, subject.endpoint)) as driver:
                written = await perform(driver, contract_write(spec, 0))
        finally:
            await connection.execute("ALTER ROLE postgres RESET aws_lambda.request_timeout_ms")
            stall.release.set()
    assert (written.outcome, written.error) == (Outcome.FAILED, "38000")
    assert 0.29e9 < written.t2_ns - written.t1_ns < LIMIT_S * 1e9
    assert len(receiver_api.invocations) == 1


async def test_a_refused_value_is_failed_with_its_sqlstate(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """A NUL is no text: cut off silently it would be stored as another value than was sent."""
    spec = contract_spec(subject.target)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await perform(driver, Request(Kind.INSERT, "key", b"before\0after"))
        again = await perform(driver, contract_write(spec, 1))
    assert (written.outcome, written.error) == (Outcome.FAILED, "22021")
    assert again.outcome is Outcome.OK
    assert len(receiver_api.invocations) == 1


async def test_more_writes_than_connections_queue_and_all_succeed(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """At the cap requests queue in order; the server never sees more sessions than the plan allows."""
    spec = _bounded(contract_spec(subject.target), 3)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await asyncio.gather(*(perform(driver, contract_write(spec, sequence)) for sequence in range(40)))
    assert {result.outcome for result in written} == {Outcome.OK}
    assert len({each.connection for each in receiver_api.invocations}) <= 3
    assert [result.t1_ns for result in written] == sorted(result.t1_ns for result in written)


async def test_a_session_that_ends_is_unknown_and_replaced(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """A failover cuts sessions: what was under way may have been committed, and the next write needs a new one."""
    receiver_api.answer = stall = _Stall(ACCEPTED)
    spec = contract_spec(subject.target)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver, superuser(subject.endpoint) as connection:
        cut = asyncio.create_task(perform(driver, contract_write(spec, 0)))
        assert await asyncio.to_thread(stall.waiting.wait, LIMIT_S)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'stepbench' AND state = 'active'"
        )
        written = await asyncio.wait_for(cut, LIMIT_S)
        stall.release.set()
        after = await asyncio.wait_for(perform(driver, contract_write(spec, 1)), LIMIT_S)
    assert (written.outcome, written.error) == (Outcome.UNKNOWN, "57P01")
    assert after.outcome is Outcome.OK


async def test_a_killed_server_ends_every_write(tmp_path: Path) -> None:
    """The store may die in the middle of a trial; no write may hang, and later ones never left."""
    stall = _Stall()
    with lambda_api() as api:
        api.answer = stall
        server = start_postgresql(tmp_path, api.endpoint)
        spec = contract_spec(PostgresqlSubject.target)
        driver = postgresql_driver(spec, server.endpoint)
        try:
            await driver.prepare()
            await driver.open()
            cut = asyncio.create_task(perform(driver, contract_write(spec, 0)))
            assert await asyncio.to_thread(stall.waiting.wait, LIMIT_S)
            await asyncio.to_thread(terminate, server.pids, grace_s=0)
            written = await asyncio.wait_for(cut, LIMIT_S)
            after = await asyncio.wait_for(perform(driver, contract_write(spec, 1)), LIMIT_S)
            with pytest.raises(TargetUnavailableError):
                await driver.tear_down()
        finally:
            stall.release.set()
            terminate(server.pids)
            await driver.close()
            discard_postgresql(tmp_path)
    assert written.outcome is Outcome.UNKNOWN
    assert (after.outcome, after.error) == (Outcome.FAILED, "connect: refused")


async def test_tear_down_waits_for_no_lock(subject: PostgresqlSubject, receiver_api: LambdaApi) -> None:
    """Somebody may look into the table; tear-down says "not yet" within its bound and succeeds when called again."""
    assert receiver_api
    spec = contract_spec(subject.target)
    driver = postgresql_driver(spec, subject.endpoint)
    await driver.prepare()
    async with superuser(subject.endpoint) as connection:
        await connection.execute("BEGIN")
        await connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table_of(spec)))
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
    driver = postgresql_driver(spec, subject.endpoint)
    before = await driver.ready()
    async with running(postgresql_driver(spec, subject.endpoint)), superuser(subject.endpoint) as connection:
        prepared = await driver.ready()
        await connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER notify_receiver").format(table_of(spec)))
        disabled = await driver.ready()
    assert (before, prepared, disabled) == (False, True, False)


async def test_the_wheels_version_is_named(subject: PostgresqlSubject) -> None:
    """A result of PostgreSQL 18 from a wheel is not one of Aurora; the report prints this text."""
    assert re.fullmatch(r"PostgreSQL 18\.\d+ \(wheel\)", await subject.driver(contract_spec(subject.target)).provider())


async def test_aurora_is_named_with_its_own_version(subject: PostgresqlSubject) -> None:
    """Aurora's version is not PostgreSQL's, and its releases differ in speed."""
    async with superuser(subject.endpoint) as connection:
        await connection.execute("CREATE FUNCTION aurora_version() RETURNS text RETURN '16.4.1'")
        try:
            name = await subject.driver(contract_spec(subject.target)).provider()
        finally:
            await connection.execute("DROP FUNCTION aurora_version()")
    assert re.fullmatch(r"Aurora PostgreSQL 18\.\d+ \(Aurora 16\.4\.1\)", name)


async def test_a_server_without_the_extension_is_refused_for_good(subject: PostgresqlSubject) -> None:
    """No retry brings an extension; a trial that is tried again until the time is up would hide that."""
    spec = contract_spec(subject.target)
    async with superuser(subject.endpoint) as connection:
        await connection.execute("CREATE DATABASE bare")
        await connection.execute("ALTER DATABASE bare SET extension_control_path = '$system'")
        try:
            bare = postgresql_driver(spec, subject.endpoint.replace("/postgres", "/bare"))
            with pytest.raises(PlanError, match=r"aws_lambda.*rds_superuser"):
                await bare.prepare()
            await bare.close()
        finally:
            await connection.execute("DROP DATABASE bare WITH (FORCE)")


async def test_no_receiver_is_refused_before_anything_is_made(subject: PostgresqlSubject) -> None:
    """A trigger that calls nothing would make every insert fail, with an error that names no cause."""
    spec = contract_spec(subject.target)
    with pytest.raises(PlanError, match="RECEIVE_EVENTS_FUNCTION_ARN"):
        await postgresql_driver(spec, subject.endpoint, receiver="").prepare()
    assert await subject.leftovers(spec) == []


async def test_a_cancelled_write_does_not_leave_its_answer_to_the_next(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """The connection still owes an answer; given to the next write it would shift every result by one."""
    spec = _bounded(contract_spec(subject.target), 1)
    receiver_api.answer = stall = _Stall(ACCEPTED)
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        cancelled = asyncio.create_task(perform(driver, contract_write(spec, 0)))
        assert await asyncio.to_thread(stall.waiting.wait, LIMIT_S)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        stall.release.set()
        refused = await perform(driver, Request(Kind.INSERT, "key", b"\0"))
        accepted = await perform(driver, contract_write(spec, 1))
    assert [each.outcome for each in (refused, accepted)] == [Outcome.FAILED, Outcome.OK]


async def test_a_write_without_an_answer_is_given_up_as_unknown(
    subject: PostgresqlSubject, receiver_api: LambdaApi
) -> None:
    """A network that swallows packets sends no error; the writer has to end its slice all the same."""
    usual, stall = receiver_api.answer, _Stall()
    receiver_api.answer = stall
    spec = contract_spec(subject.target)
    async with running(postgresql_driver(spec, subject.endpoint, write_limit_s=0.3)) as driver:
        written = await perform(driver, contract_write(spec, 0))
        receiver_api.answer = usual
        stall.release.set()
        after = await perform(driver, contract_write(spec, 1))
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
    async with running(postgresql_driver(spec, subject.endpoint)) as driver:
        written = await perform(driver, Request(Kind.INSERT, "big", value))
        stored = await subject.read_back(spec, "big")
    assert written.outcome is Outcome.OK
    assert stored == value


async def test_a_write_without_a_table_is_failed(subject: PostgresqlSubject) -> None:
    """The table may be gone, when a sweeper tears down under a writer that lives on."""
    spec = contract_spec(subject.target)
    driver = postgresql_driver(spec, subject.endpoint)
    await driver.open()
    written = await perform(driver, contract_write(spec, 0))
    await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "42P01")


def _access(endpoint: str, secret: str, own: str | None = None) -> Access:
    settings = Settings(
        results_table="t", results_bucket="b", postgresql_endpoint=endpoint, postgresql_secret_arn=secret
    )
    return trial_access(contract_spec({"store": "postgresql", "endpoint": own}), settings)


def _secret(text: str) -> str:
    secrets = boto3.client("secretsmanager")
    return secrets.create_secret(Name=f"postgresql-{abs(hash(text))}", SecretString=text)["ARN"]


@pytest.fixture
async def role(postgresql_server: LocalStore) -> AsyncIterator[str]:
    """Make a role beside `postgres`."""
    async with superuser(postgresql_server.endpoint) as connection:
        await connection.execute("CREATE ROLE bench LOGIN PASSWORD 'swordfish'")
        yield "bench"
        await connection.execute("DROP ROLE bench")


async def _user(access: Access) -> str:
    async with await access.connect() as connection:
        (user,) = await connection.row("SELECT session_user")
    return str(user)


@pytest.mark.emulator
@pytest.mark.usefixtures("services")
async def test_the_stacks_secret_logs_in(postgresql_server: LocalStore, role: str) -> None:
    """RDS keeps its password in Secrets Manager, as JSON with more fields than these."""
    secret = _secret(json.dumps({"engine": "postgres", "username": role, "password": "swordfish"}))
    assert await _user(_access(postgresql_server.endpoint, secret)) == role


@pytest.mark.emulator
@pytest.mark.usefixtures("services")
async def test_a_plans_own_server_does_not_get_the_stacks_password(postgresql_server: LocalStore, role: str) -> None:
    """Whoever may write a plan could otherwise name a server of their own and read the password there."""
    secret = _secret(json.dumps({"username": role, "password": "swordfish", "case": "own"}))
    assert await _user(_access("127.0.0.1:1", secret, own=postgresql_server.endpoint)) == "postgres"


@pytest.mark.emulator
async def test_a_secret_that_is_missing_or_malformed_is_named(
    services: Services, postgresql_server: LocalStore
) -> None:
    """The message says what it is; a refused login would send the user to the wrong place."""
    assert services.settings.aws_endpoint_url
    malformed = _secret('{"user": "x"}')
    for secret, message in ((malformed, "no username and password"), (f"{malformed}-gone", "cannot be read")):
        with pytest.raises(TargetUnavailableError, match=message):
            await _access(postgresql_server.endpoint, secret).connect()
