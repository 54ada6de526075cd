"""
`DsqlOperations` on a real PostgreSQL with TLS that stands in for Aurora DSQL: protocol, isolation, role and schema.

What it cannot stand in for: IAM's check of a token (here a password is checked), limits, what DSQL refuses to parse.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.drivers.sql.superuser import superuser, until_blocked
from tests.integration.drivers.subjects import ServedSubject, SubjectFixture
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import (
    Shape,
    contents_of,
    fields_of,
    operating,
    operations_spec,
    workload_of,
)
from tests.support.fake_clock import FakeClock

from stepbench.clock import AnchoredClock, SystemClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.access import parse_endpoint
from stepbench.drivers.dsql.access import (
    DATABASE_ROLE,
    SCHEMA,
    TOKEN_USE_S,
    WRITER_ROLE,
    DsqlCluster,
    Tokens,
    bindings,
    set_up,
    signer,
    token_access,
)
from stepbench.drivers.dsql.operations import MOST_BYTES, MOST_ROWS, PRELOAD_BYTES, PRELOAD_ROWS, DsqlOperations
from stepbench.drivers.sql.access import Tls
from stepbench.drivers.sql.connection import refusal_error
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.model.errors import NOT_FOUND
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Result
from stepbench.settings import Settings
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.postgresql import discard_postgresql, start_postgresql_with_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.contracts.operations_subject import Stored

    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores
LIMIT_S = 20
_COLUMNS = (
    "SELECT column_name, data_type, column_default FROM information_schema.columns WHERE table_name = %s "
    "ORDER BY ordinal_position"
)
ISOLATION = "ALTER ROLE {} SET default_transaction_isolation = 'repeatable read'"
"""DSQL's own, and its only one: who commits second gets 40001."""
ASKED = "hostssl all stepbench 127.0.0.1/32 scram-sha-256\nhostnossl all stepbench 127.0.0.1/32 reject\n"


class DsqlSubject(ServedSubject):
    """The stand-in, looked at with a superuser's session."""

    def __init__(self, address: str, authority: Path) -> None:
        super().__init__(address)
        self.authority = authority
        self.target = {"store": "dsql", "endpoint": address}
        self.settings = Settings(
            results_table="t", results_bucket="b", tls_authority=str(authority), allow_custom_endpoints=True
        )

    async def bootstrap(self) -> None:
        """Make role and schema twice, as an update of a stack would: they are as good the second time."""
        async with superuser(self.upstream) as connection:
            await set_up(connection, SystemClock())
            await set_up(connection, SystemClock())
            for role in (DATABASE_ROLE, WRITER_ROLE):
                await connection.execute(sql.SQL(ISOLATION).format(sql.Identifier(role)))

    async def query(self, query: str, spec: TrialSpec, *values: object) -> list[tuple[Any, ...]]:
        """Execute a query, in which `{table}` is the trial's."""
        table = sql.Identifier(SCHEMA, f"records_{spec.tag}")
        async with superuser(self.upstream) as connection:
            cursor = await connection.execute(sql.SQL(query).format(table=table), values or None)
            return await cursor.fetchall() if cursor.description else []

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> DsqlOperations:
        """See `ServedSubject`."""
        limits = {"answer_limit_s": limit_s} if limit_s else {}
        return DsqlOperations(_elsewhere(spec, endpoint), self.settings, AnchoredClock(), **limits)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """Return the text, or a product's fields."""
        rows = await self.query("SELECT value FROM {table} WHERE key = %s", spec, key)
        if not rows:
            return None
        ((value,),) = rows
        return fields_of(value) if workload_of(spec).record.shape == "product" else str(value).encode()

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the table, and its rows."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE %s"
        tables = [name for (name,) in await self.query(query, spec, SCHEMA, f"%{spec.tag}%")]
        keys = await self.query("SELECT key FROM {table}", spec) if tables else []
        return [*tables, *(key for (key,) in keys)]


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[DsqlSubject]:
    """Start the server for all tests, bootstrapped as `BootstrapDsql` would."""
    directory = tmp_path_factory.mktemp("dsql")
    store = start_postgresql_with_tls(directory, certificates)
    started = DsqlSubject(store.endpoint.partition("/")[0], certificates.authority)
    asyncio.run(started.bootstrap())
    yield started
    terminate(store.pids)
    discard_postgresql(directory)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the credentials that a function's role has; the stand-in looks at the signature in no test but one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def _elsewhere(spec: TrialSpec, endpoint: str) -> TrialSpec:
    target = spec.plan.target.model_copy(update={"endpoint": endpoint})
    return spec.model_copy(update={"plan": spec.plan.model_copy(update={"target": target})})


class TestDsqlOperations(SubjectFixture, OperationsContract):
    """The contract."""

    @pytest.fixture(autouse=True)
    def _silence_lasts_a_second(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        """Wait for a silent server's greeting no longer than that."""
        if "silent" in request.node.name:
            monkeypatch.setattr("stepbench.drivers.sql.executor.CONNECT_LIMIT_S", 1.0)


@pytest.mark.parametrize("reuse", [True, False])
async def test_rows_are_stored_as_they_were_published(subject: DsqlSubject, *, reuse: bool) -> None:
    """The published table and statements: another key type would be another index, and a read by key another plan."""
    workload = {"mix": {"insert": 1, "read": 1}, "record": {"shape": "row"}}
    spec = operations_spec(subject.target, records=20, reuse=reuse, workload=workload)
    contents = contents_of(spec)
    insert = contents.operation(Kind.INSERT, 1_000, 0)
    async with operating(subject.operable(spec)) as driver, asyncio.timeout(LIMIT_S):
        await driver.prepare()  # once more, as a retry would: the table is there, and its rows
        done = [await perform(driver, each) for each in (insert, contents.operation(Kind.READ, 6, 0))]
        typed = await subject.query(_COLUMNS, spec, f"records_{spec.tag}")
        rows = await subject.query("SELECT id, data, created_at <= now() FROM {table}", spec)
    assert [(each.outcome, each.error) for each in done] == [(Outcome.OK, "")] * 2
    assert typed == [
        ("id", "uuid", "gen_random_uuid()"),
        ("data", "text", None),
        ("created_at", "timestamp with time zone", "now()"),
    ]
    keys = {uuid.UUID(each.key) for each in (insert, *map(contents.preloaded, range(20)))}
    assert {key for key, *_ in rows} == keys
    assert {tuple(rest) for _, *rest in rows} == {("bench", True)}


async def test_without_a_row_there_is_nothing_to_select(subject: DsqlSubject) -> None:
    """An empty answer is faster than a row."""
    spec = operations_spec(subject.target, records=1, workload={"mix": {"read": 1}, "record": {"shape": "row"}})
    async with operating(subject.operable(spec)) as driver:
        await subject.query("DELETE FROM {table}", spec)
        read = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
    assert (read.outcome, read.error) == (Outcome.FAILED, NOT_FOUND)


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_conflict_is_tried_again_and_counted(subject: DsqlSubject, *, reuse: bool) -> None:
    """Nothing is locked in DSQL, so a record that two want is a 40001 for one: part of what an operation takes."""
    spec = operations_spec(subject.target, reuse=reuse)
    operation = contents_of(spec).operation(Kind.OVERWRITE, 3, 1)
    async with (
        operating(subject.operable(spec)) as driver,
        superuser(subject.upstream) as other,
        asyncio.timeout(LIMIT_S),
    ):
        await other.execute("BEGIN")
        table = sql.Identifier(SCHEMA, f"records_{spec.tag}")
        await other.execute(sql.SQL("UPDATE {} SET value = 'x' WHERE key = %s").format(table), (operation.key,))
        waiting = asyncio.create_task(perform(driver, operation))
        await until_blocked(subject.upstream)
        await other.execute("COMMIT")
        operated = await waiting
        assert await subject.read_back(spec, operation.key) == operation.value
    assert (operated.outcome, operated.error, operated.retries) == (Outcome.OK, "", 1)


async def test_clients_that_fight_for_a_record_all_get_it(subject: DsqlSubject) -> None:
    """Pauses differ by chance, so that those who have met do not meet again for ever."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)

    async def client(number: int) -> list[Result]:
        updates = (contents.operation(Kind.UPDATE, 0, 100 * number + turn, client=number) for turn in range(25))
        return [await perform(driver, update) for update in updates]

    async with operating(subject.operable(spec)) as driver, asyncio.timeout(LIMIT_S):
        done = [each for mine in await asyncio.gather(*map(client, range(4))) for each in mine]
    assert {(each.outcome, each.error) for each in done} == {(Outcome.OK, "")}


async def test_a_refused_connection_has_the_stores_code(subject: DsqlSubject) -> None:
    """Quotas of connections are what a plan without reuse meets first; they are counted by their own name."""
    spec = operations_spec(subject.target, reuse=False)
    async with operating(subject.operable(spec)) as driver, superuser(subject.upstream) as admin:
        await admin.execute("ALTER ROLE stepbench_writer CONNECTION LIMIT 0")
        try:
            refused = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
        finally:
            await admin.execute("ALTER ROLE stepbench_writer CONNECTION LIMIT -1")
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "53300")
    too_fast = TargetUnavailableError("FATAL:  Unable to accept connection, rate exceeded.")
    assert refusal_error(too_fast) == "53400"


_RIGHTS = """
SELECT has_schema_privilege('stepbench_writer', 'stepbench', 'USAGE'),
       has_schema_privilege('stepbench_writer', 'stepbench', 'CREATE'),
       (SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type)
        FROM information_schema.role_table_grants WHERE grantee = 'stepbench_writer' AND table_name = %s),
       (SELECT tableowner FROM pg_tables WHERE tablename = %s)"""


async def test_writers_have_the_published_rights_and_no_others(subject: DsqlSubject) -> None:
    """USAGE on the schema and four rights on the table; the contract above runs with them."""
    spec = operations_spec(subject.target)
    table = f"records_{spec.tag}"
    async with operating(subject.operable(spec)):
        (rights,) = await subject.query(_RIGHTS, spec, table, table)
    assert rights == (True, False, "DELETE INSERT SELECT UPDATE", DATABASE_ROLE)


async def test_a_token_is_the_password_and_goes_stale(subject: DsqlSubject) -> None:
    """Each new session takes one that is fresh enough; a session that is there needs none any more."""
    clock = FakeClock()
    signed = iter(("first", "second"))
    tokens = Tokens(lambda: next(signed), clock)
    tls = Tls(wanted=True, authority=str(subject.authority))
    access = token_access(parse_endpoint(subject.upstream, 5432), tokens, tls, DATABASE_ROLE)
    async with _passwords(subject), superuser(subject.upstream) as admin, asyncio.timeout(LIMIT_S):
        await admin.execute("ALTER ROLE stepbench PASSWORD 'first'")
        session = await access.connect()
        await admin.execute("ALTER ROLE stepbench PASSWORD 'second'")
        with pytest.raises(TargetUnavailableError, match=r"(?s)password authentication failed.*dsql:DbConnect"):
            await access.connect()
        clock.advance(TOKEN_USE_S * 10**9)
        renewed = await access.connect()
        assert [await (await each.execute("SELECT current_user")).fetchone() for each in (session, renewed)] == [
            (DATABASE_ROLE,),
            (DATABASE_ROLE,),
        ]
        await session.close()
        await renewed.close()


async def test_a_signed_token_is_sent_as_it_is(subject: DsqlSubject) -> None:
    """It holds `&`, `=` and `%`, and is long: nothing on the way may cut or unquote it."""
    cluster = DsqlCluster.at(subject.upstream, "ap-northeast-1")
    token = signer(cluster, DATABASE_ROLE)()
    assert re.search(r"X-Amz-Credential=[^&]*%2Fdsql%2F", token)
    tls = Tls(wanted=True, authority=str(subject.authority))
    access = token_access(cluster.endpoint, Tokens(lambda: token, FakeClock()), tls, DATABASE_ROLE)
    async with _passwords(subject), superuser(subject.upstream) as admin, asyncio.timeout(LIMIT_S):
        await admin.execute(sql.SQL("ALTER ROLE stepbench PASSWORD {}").format(sql.Literal(token)))
        connection = await access.connect()
        assert connection.pgconn.ssl_in_use
        await connection.close()


async def test_the_provider_tells_how_long_the_cluster_took(subject: DsqlSubject) -> None:
    """Published beside latencies; only the stack knows it."""
    known = {"dsql_endpoints": f"single={subject.upstream}@8.2", "aws_region": "us-west-2"}
    settings = subject.settings.model_copy(update=known)
    provider = await DsqlOperations(operations_spec({"store": "dsql"}), settings, AnchoredClock()).provider()
    assert provider.startswith("Aurora DSQL, single-region, in us-west-2 (PostgreSQL ")
    assert provider.endswith("), TLS, active 8.2 s after its creation")


async def test_anothers_certificate_is_refused(subject: DsqlSubject, tmp_path: Path) -> None:
    """A token in the wrong hands is a login."""
    settings = subject.settings.model_copy(update={"tls_authority": str(make_certificates(tmp_path).authority)})
    driver = DsqlOperations(operations_spec(subject.target), settings, AnchoredClock())
    with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
        await driver.prepare()


async def test_a_cluster_without_its_schema_is_the_plans_problem(subject: DsqlSubject) -> None:
    """No retry can help, and the message says who makes it. Tearing down finds nothing to do."""
    spec = operations_spec(subject.target)
    driver = subject.operable(spec)
    async with superuser(subject.upstream) as admin:
        await admin.execute("ALTER SCHEMA stepbench RENAME TO hidden")
        try:
            with pytest.raises(PlanError, match="Bootstrap the cluster"):
                await driver.prepare()
            assert await driver.tear_down()
        finally:
            await admin.execute("ALTER SCHEMA hidden RENAME TO stepbench")


@pytest.mark.parametrize("shape", ["blob", "product"])
async def test_preloading_takes_several_transactions_and_goes_on(subject: DsqlSubject, shape: Shape) -> None:
    """Each is below the limits of one; and a second call writes what the first has not."""
    spec = operations_spec(subject.target, shape, records=2_500)
    async with operating(subject.operable(spec)), asyncio.timeout(LIMIT_S):
        await subject.query("DELETE FROM {table} WHERE key > %s", spec, contents_of(spec).preloaded(1_500).key)
        await subject.operable(spec).prepare()
        assert await subject.query("SELECT count(*) FROM {table}", spec) == [(2_500,)]


def test_batches_are_below_the_limits_of_a_transaction() -> None:
    """Above them an INSERT is refused as a whole."""
    assert PRELOAD_ROWS <= MOST_ROWS / 2
    assert PRELOAD_BYTES <= MOST_BYTES / 2


async def test_roles_of_iam_are_bound_and_unbound_by_difference() -> None:
    """Binding twice may be an error; leaving a role that was replaced bound would be a right for nobody we know."""
    statements = [
        each.as_string(None) for each in bindings(WRITER_ROLE, ["arn:kept", "arn:old"], ["arn:new'", "arn:kept"])
    ]
    assert statements == [
        """AWS IAM GRANT "stepbench_writer" TO 'arn:new'''""",
        """AWS IAM REVOKE "stepbench_writer" FROM 'arn:old'""",
    ]


@asynccontextmanager
async def _passwords(subject: DsqlSubject) -> AsyncIterator[None]:
    """Have the role give a password over TLS, and get nowhere without; before and after everybody is trusted."""
    async with superuser(subject.upstream) as admin:
        ((path,),) = await (await admin.execute("SHOW hba_file")).fetchall()
        before = _replace(path, lambda rules: ASKED + rules)
        await _reload(subject, admin, asked=True)
        try:
            yield
        finally:
            _replace(path, lambda _: before)
            await _reload(subject, admin, asked=False)


def _replace(path: str, change: Callable[[str], str]) -> str:
    """Change a file, which keeps its mode and owner; return what was in it before."""
    file = Path(path)
    before = file.read_text()
    file.write_text(change(before))
    return before


async def _reload(subject: DsqlSubject, admin: psycopg.AsyncConnection, *, asked: bool) -> None:
    """Wait until a session without a password is refused, or let in again."""
    await admin.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(LIMIT_S):
        while await _is_asked(subject) is not asked:  # noqa: ASYNC110 -- a server has no event
            await asyncio.sleep(0.02)


async def _is_asked(subject: DsqlSubject) -> bool:
    host, _, port = subject.upstream.partition(":")
    try:
        connection = await psycopg.AsyncConnection.connect(
            host=host, port=int(port), dbname="postgres", user=DATABASE_ROLE, sslmode="require", connect_timeout=5
        )
    except psycopg.OperationalError:
        return True
    await connection.close()
    return False
