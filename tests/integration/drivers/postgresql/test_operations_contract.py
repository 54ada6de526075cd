"""PostgreSQL's operations under the contract that all stores have, and what is PostgreSQL's own about `make`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from tests.integration.drivers.postgresql.conftest import postgresql_operations, table_of
from tests.integration.drivers.sql.superuser import superuser, until_blocked
from tests.integration.drivers.subjects import ServedSubject, UnencryptedOperations
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import (
    contents_of,
    fields_of,
    operating,
    operations_spec,
    workload_of,
)

from stepbench.contracts.workload import Kind
from stepbench.drivers.postgresql.operations import PostgresqlOperations
from stepbench.drivers.sql.access import WRITE_LIMIT_S
from stepbench.model.errors import NO_ANSWER
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request, Result

if TYPE_CHECKING:
    from tests.support.contracts.operations_subject import Stored

    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 20


class PostgresqlOperationsSubject(ServedSubject):
    """Looks at the server with a superuser's session."""

    target: dict[str, Any] = {"store": "postgresql"}  # noqa: RUF012 -- as the contract has it; nobody changes it

    def __init__(self, server: LocalStore) -> None:
        super().__init__(server.endpoint.partition("/")[0])

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> PostgresqlOperations:
        """See `ServedSubject`."""
        return postgresql_operations(spec, f"{endpoint}/postgres", limit_s=limit_s or WRITE_LIMIT_S)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """Return the text, or a product's fields."""
        async with superuser(self.upstream) as session:
            query = sql.SQL("SELECT value::text FROM {} WHERE key = %s").format(table_of(spec))
            row = await (await session.execute(query, (key,))).fetchone()
        if row is None:
            return None
        return fields_of(row[0]) if workload_of(spec).record.shape == "product" else str(row[0]).encode()

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the schema, and its rows."""
        async with superuser(self.upstream) as session:
            query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE %s"
            schemas = await (await session.execute(query, (f"%{spec.tag}%",))).fetchall()
            keys: list[tuple[str]] = []
            if schemas:
                cursor = await session.execute(sql.SQL("SELECT key FROM {}").format(table_of(spec)))
                keys = await cursor.fetchall()
        return [name for (name,) in (*schemas, *keys)]


@pytest.fixture
def subject(server: LocalStore) -> PostgresqlOperationsSubject:
    """Return the subject on the folder's server."""
    return PostgresqlOperationsSubject(server)


class TestPostgresqlOperations(UnencryptedOperations, OperationsContract):
    """The contract."""

    @pytest.fixture(autouse=True)
    def _silence_lasts_a_second(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        """Wait for a silent server's greeting no longer than that."""
        if "silent" in request.node.name:
            monkeypatch.setattr("stepbench.drivers.sql.executor.CONNECT_LIMIT_S", 1.0)


async def test_an_operation_takes_no_task(subject: PostgresqlOperationsSubject) -> None:
    """Waking one costs what a tenth of a read takes, in every latency that is told."""
    spec = operations_spec(subject.target)
    async with operating(driver := subject.operable(spec)), asyncio.timeout(LIMIT_S):
        made = driver.prepare_request(contents_of(spec).operation(Kind.READ, 0, 0))
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        before = asyncio.all_tasks()
        made.send(answered.set_result)
        assert asyncio.all_tasks() == before
        assert not answered.done()
        assert (await answered).outcome is Outcome.OK


async def test_the_answer_of_an_abandoned_operation_meets_no_other(subject: PostgresqlOperationsSubject) -> None:
    """It still comes, for a record that nobody asks about any more; one answer too early would be one for ever."""
    spec = operations_spec(subject.target, clients=1)
    held, other = (contents_of(spec).operation(Kind.OVERWRITE, record, 1) for record in (3, 4))
    found: list[Result] = []
    async with (
        operating(driver := subject.operable(spec)),
        superuser(subject.upstream) as holder,
        asyncio.timeout(LIMIT_S),
    ):
        await holder.execute("BEGIN")
        lock = sql.SQL("SELECT 1 FROM {} WHERE key = %s FOR UPDATE").format(table_of(spec))
        await holder.execute(lock, (held.key,))
        made = driver.prepare_request(held)
        made.send(found.append)
        await until_blocked(subject.upstream)
        made.abandon()
        await holder.execute("ROLLBACK")
        after = await perform(driver, other)
        missing = await perform(driver, Request(Kind.READ, "nobody's"))
    assert [(each.outcome, each.error) for each in found] == [(Outcome.UNKNOWN, NO_ANSWER)]
    assert found[0].t1_ns < found[0].t2_ns <= after.t1_ns
    assert after.outcome is Outcome.OK
    assert (missing.outcome, missing.error) == (Outcome.FAILED, "not_found")
