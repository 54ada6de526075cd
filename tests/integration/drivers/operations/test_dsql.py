"""
`DsqlOperations` on a real PostgreSQL with TLS that stands in for Aurora DSQL: protocol, isolation, role and schema.

What it cannot stand in for: IAM's check of a token (here a password is checked), limits, what DSQL refuses to parse.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.drivers.operations.superuser import superuser

from stepbench.clock import AnchoredClock, SystemClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.addresses import parse_endpoint
from stepbench.drivers.operations.dsql import MOST_BYTES, MOST_ROWS, PRELOAD_BYTES, PRELOAD_ROWS, DsqlOperations
from stepbench.drivers.operations.dsql_access import (
    DATABASE_ROLE,
    SCHEMA,
    TOKEN_USE_S,
    DsqlAccess,
    DsqlCluster,
    Tokens,
    signer,
)
from stepbench.drivers.operations.dsql_role import bindings, set_up
from stepbench.drivers.operations.sql_operator import code_of_refusal
from stepbench.drivers.postgresql.access import Tls
from stepbench.drivers.protocol import Operated, Outcome
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.local.certificates import make_certificates
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.postgresql_tls import start_postgresql_with_tls
from stepbench.local.processes import free_port, terminate
from stepbench.settings import Settings
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.fault_proxy import plain
from stepbench.testing.operable_contract import OperableContract
from stepbench.testing.operable_subject import SILENT_LIMIT_S, Shape, contents_of, fields_of, operating, operations_spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.certificates import Certificates
    from stepbench.testing.fault_proxy import FaultProxy, Framing
    from stepbench.testing.operable_subject import Stored

pytestmark = pytest.mark.stores
LIMIT_S = 20
ISOLATION = "ALTER ROLE stepbench SET default_transaction_isolation = 'repeatable read'"
"""DSQL's own, and its only one: who commits second gets 40001."""
ASKED = "hostssl all stepbench 127.0.0.1/32 scram-sha-256\nhostnossl all stepbench 127.0.0.1/32 reject\n"


class Server:
    """The stand-in, bootstrapped as `BootstrapDsql` would; role and schema are as good the second time."""

    def __init__(self, address: str, authority: Path) -> None:
        self.address = address
        self.authority = authority

    def settings(self) -> Settings:
        """That trust the server's certificate."""
        return Settings(
            results_table="t", results_bucket="b", tls_authority=str(self.authority), allow_custom_endpoints=True
        )

    async def query(self, query: str, spec: TrialSpec, *values: object) -> list[tuple[Any, ...]]:
        """`{table}` in it is the trial's."""
        table = sql.Identifier(SCHEMA, f"records_{spec.tag}")
        async with superuser(self.address) as connection:
            cursor = await connection.execute(sql.SQL(query).format(table=table), values or None)
            return await cursor.fetchall() if cursor.description else []

    async def bootstrap(self) -> None:
        """Twice, as an update of a stack would."""
        async with superuser(self.address) as connection:
            await set_up(connection, SystemClock())
            await set_up(connection, SystemClock())
            await connection.execute(ISOLATION)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Server]:
    """One for all tests."""
    directory = tmp_path_factory.mktemp("dsql")
    store = start_postgresql_with_tls(directory, certificates)
    started = Server(store.endpoint.partition("/")[0], certificates.authority)
    asyncio.run(started.bootstrap())
    yield started
    terminate(store.pids)
    discard_postgresql(directory)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function's role has some; the stand-in looks at the signature in no test but one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


class DsqlSubject:
    """What the contract looks at."""

    framing: Callable[[], Framing] = staticmethod(plain)

    def __init__(self, server: Server) -> None:
        self._server = server
        self.upstream = server.address

    @property
    def target(self) -> dict[str, Any]:
        """By its endpoint."""
        return {"store": "dsql", "endpoint": self.upstream}

    def operable(self, spec: TrialSpec) -> DsqlOperations:
        """On the server."""
        return DsqlOperations(spec, self._server.settings(), AnchoredClock())

    def unreachable(self, spec: TrialSpec) -> DsqlOperations:
        """On nothing."""
        return DsqlOperations(_elsewhere(spec, f"127.0.0.1:{free_port()}"), self._server.settings(), AnchoredClock())

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> DsqlOperations:
        """Through the proxy."""
        elsewhere = _elsewhere(spec, proxy.endpoint)
        settings = self._server.settings()
        return DsqlOperations(elsewhere, settings, AnchoredClock(), answer_limit_s=SILENT_LIMIT_S)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """Text; of a product JSON."""
        rows = await self._server.query("SELECT value FROM {table} WHERE key = %s", spec, key)
        if not rows:
            return None
        ((value,),) = rows
        product = spec.plan.workload is not None and spec.plan.workload.record.shape == "product"
        return fields_of(value) if product else str(value).encode()

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """The table, and its rows."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE %s"
        tables = [name for (name,) in await self._server.query(query, spec, SCHEMA, f"%{spec.tag}%")]
        keys = await self._server.query("SELECT key FROM {table}", spec) if tables else []
        return [*tables, *(key for (key,) in keys)]


def _elsewhere(spec: TrialSpec, endpoint: str) -> TrialSpec:
    target = spec.plan.target.model_copy(update={"endpoint": endpoint})
    return spec.model_copy(update={"plan": spec.plan.model_copy(update={"target": target})})


class TestDsqlOperations(OperableContract):
    """The contract."""

    @pytest.fixture
    def subject(self, server: Server) -> DsqlSubject:
        """Looks in as superuser."""
        return DsqlSubject(server)


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_conflict_is_tried_again_and_counted(server: Server, *, reuse: bool) -> None:
    """Nothing is locked in DSQL, so a record that two want is a 40001 for one: part of what an operation takes."""
    subject = DsqlSubject(server)
    spec = operations_spec(subject.target, reuse=reuse)
    operation = contents_of(spec).operation(Kind.OVERWRITE, 3, 1)
    async with (
        operating(subject.operable(spec)) as driver,
        superuser(server.address) as other,
        asyncio.timeout(LIMIT_S),
    ):
        await other.execute("BEGIN")
        table = sql.Identifier(SCHEMA, f"records_{spec.tag}")
        await other.execute(sql.SQL("UPDATE {} SET value = 'x' WHERE key = %s").format(table), (operation.key,))
        waiting = asyncio.create_task(driver.operate(operation))
        await _until_blocked(server, spec)
        await other.execute("COMMIT")
        operated = await waiting
        assert await subject.read_back(spec, operation.key) == operation.value
    assert (operated.outcome, operated.error, operated.retries) == (Outcome.OK, "", 1)


async def test_clients_that_fight_for_a_record_all_get_it(server: Server) -> None:
    """Pauses differ by chance, so that those who have met do not meet again for ever."""
    subject = DsqlSubject(server)
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)

    async def client(number: int) -> list[Operated]:
        updates = (contents.operation(Kind.UPDATE, 0, 100 * number + turn, client=number) for turn in range(25))
        return [await driver.operate(update) for update in updates]

    async with operating(subject.operable(spec)) as driver, asyncio.timeout(LIMIT_S):
        done = [each for mine in await asyncio.gather(*map(client, range(4))) for each in mine]
    assert {(each.outcome, each.error) for each in done} == {(Outcome.OK, "")}


async def test_a_refused_connection_has_the_stores_code(server: Server) -> None:
    """Quotas of connections are what a plan without reuse meets first; they are counted by their own name."""
    subject = DsqlSubject(server)
    spec = operations_spec(subject.target, reuse=False)
    async with operating(subject.operable(spec)) as driver, superuser(server.address) as admin:
        await admin.execute("ALTER ROLE stepbench CONNECTION LIMIT 0")
        try:
            refused = await driver.operate(contents_of(spec).operation(Kind.READ, 0, 0))
        finally:
            await admin.execute("ALTER ROLE stepbench CONNECTION LIMIT -1")
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "53300")
    assert code_of_refusal("FATAL:  Unable to accept connection, rate exceeded.") == "53400"


async def test_a_token_is_the_password_and_goes_stale(server: Server) -> None:
    """Each new session takes one that is fresh enough; a session that is there needs none any more."""
    clock = FakeClock()
    signed = iter(("first", "second"))
    tokens = Tokens(lambda: next(signed), clock)
    tls = Tls(wanted=True, authority=str(server.authority))
    access = DsqlAccess(parse_endpoint(server.address, 5432), tokens, tls, DATABASE_ROLE)
    async with _passwords(server), superuser(server.address) as admin, asyncio.timeout(LIMIT_S):
        await admin.execute("ALTER ROLE stepbench PASSWORD 'first'")
        session = await access.connect()
        await admin.execute("ALTER ROLE stepbench PASSWORD 'second'")
        with pytest.raises(TargetUnavailableError, match="password authentication failed"):
            await access.connect()
        clock.advance(TOKEN_USE_S * 10**9)
        renewed = await access.connect()
        assert [await (await each.execute("SELECT current_user")).fetchone() for each in (session, renewed)] == [
            (DATABASE_ROLE,),
            (DATABASE_ROLE,),
        ]
        await session.close()
        await renewed.close()


async def test_a_signed_token_is_sent_as_it_is(server: Server) -> None:
    """It holds `&`, `=` and `%`, and is long: nothing on the way may cut or unquote it."""
    cluster = DsqlCluster.at(server.address, "ap-northeast-1")
    token = signer(cluster, DATABASE_ROLE)()
    assert re.search(r"X-Amz-Credential=[^&]*%2Fdsql%2F", token)
    tls = Tls(wanted=True, authority=str(server.authority))
    access = DsqlAccess(cluster.endpoint, Tokens(lambda: token, FakeClock()), tls, DATABASE_ROLE)
    async with _passwords(server), superuser(server.address) as admin, asyncio.timeout(LIMIT_S):
        await admin.execute(sql.SQL("ALTER ROLE stepbench PASSWORD {}").format(sql.Literal(token)))
        connection = await access.connect()
        assert connection.pgconn.ssl_in_use
        await connection.close()


async def test_anothers_certificate_is_refused(server: Server, tmp_path: Path) -> None:
    """A token in the wrong hands is a login."""
    settings = server.settings().model_copy(update={"tls_authority": str(make_certificates(tmp_path).authority)})
    driver = DsqlOperations(operations_spec(DsqlSubject(server).target), settings, AnchoredClock())
    with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
        await driver.prepare()


async def test_a_cluster_without_its_schema_is_the_plans_problem(server: Server) -> None:
    """No retry can help, and the message says who makes it. Tearing down finds nothing to do."""
    spec = operations_spec(DsqlSubject(server).target)
    driver = DsqlSubject(server).operable(spec)
    async with superuser(server.address) as admin:
        await admin.execute("ALTER SCHEMA stepbench RENAME TO hidden")
        try:
            with pytest.raises(PlanError, match="Bootstrap the cluster"):
                await driver.prepare()
            assert await driver.tear_down()
        finally:
            await admin.execute("ALTER SCHEMA hidden RENAME TO stepbench")


@pytest.mark.parametrize(("shape", "records"), [("blob", 2_500), ("product", 2_500)])
async def test_preloading_takes_several_transactions_and_goes_on(server: Server, shape: Shape, records: int) -> None:
    """Below the limits of one; and a second call writes what the first has not."""
    subject = DsqlSubject(server)
    spec = operations_spec(subject.target, shape, records=records)
    async with operating(subject.operable(spec)), asyncio.timeout(LIMIT_S):
        await server.query("DELETE FROM {table} WHERE key > %s", spec, contents_of(spec).preloaded(1_500).key)
        await subject.operable(spec).prepare()
        assert await server.query("SELECT count(*) FROM {table}", spec) == [(records,)]


def test_batches_are_below_the_limits_of_a_transaction() -> None:
    """At which an INSERT is refused as a whole."""
    assert PRELOAD_ROWS <= MOST_ROWS / 2
    assert PRELOAD_BYTES <= MOST_BYTES / 2


async def test_roles_of_iam_are_bound_and_unbound_by_difference() -> None:
    """Binding twice may be an error; leaving a role that was replaced bound would be a right for nobody we know."""
    statements = [each.as_string(None) for each in bindings(["arn:kept", "arn:old"], ["arn:new'", "arn:kept"])]
    assert statements == [
        """AWS IAM GRANT "stepbench" TO 'arn:new'''""",
        """AWS IAM REVOKE "stepbench" FROM 'arn:old'""",
    ]


@asynccontextmanager
async def _passwords(server: Server) -> AsyncIterator[None]:
    """The role has to give one over TLS, and gets nowhere without; before and after everybody is trusted."""
    async with superuser(server.address) as admin:
        ((path,),) = await (await admin.execute("SHOW hba_file")).fetchall()
        before = _replace(path, lambda rules: ASKED + rules)
        await _reload(server, admin, asked=True)
        try:
            yield
        finally:
            _replace(path, lambda _: before)
            await _reload(server, admin, asked=False)


def _replace(path: str, change: Callable[[str], str]) -> str:
    """The file with its mode and owner; what was in it before."""
    file = Path(path)
    before = file.read_text()
    file.write_text(change(before))
    return before


async def _reload(server: Server, admin: psycopg.AsyncConnection, *, asked: bool) -> None:
    """Until a session without a password is refused, or let in again."""
    await admin.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(LIMIT_S):
        while await _is_asked(server) is not asked:  # noqa: ASYNC110 -- a server has no event
            await asyncio.sleep(0.02)


async def _is_asked(server: Server) -> bool:
    host, _, port = server.address.partition(":")
    try:
        connection = await psycopg.AsyncConnection.connect(
            host=host, port=int(port), dbname="postgres", user=DATABASE_ROLE, sslmode="require", connect_timeout=5
        )
    except psycopg.OperationalError:
        return True
    await connection.close()
    return False


async def _until_blocked(server: Server, spec: TrialSpec) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'stepbench' AND wait_event_type = 'Lock'"
    while await server.query(query, spec) != [(1,)]:  # noqa: ASYNC110 -- a server has no event
        await asyncio.sleep(0.02)
