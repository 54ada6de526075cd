"""PostgreSQL's operations under the contract that all stores have, and what is PostgreSQL's own about `make`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.drivers.operations.superuser import superuser

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.postgresql import PostgresqlOperations
from stepbench.drivers.postgresql.lane import WRITE_LIMIT_S
from stepbench.drivers.protocol import Operated, Operation, Outcome
from stepbench.drivers.tasked import NO_ANSWER
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.postgresql_tls import start_postgresql_with_tls
from stepbench.local.processes import free_port, terminate
from stepbench.settings import Settings
from stepbench.testing.fault_proxy import plain
from stepbench.testing.operable_contract import OperableContract
from stepbench.testing.operable_subject import SILENT_LIMIT_S, contents_of, fields_of, operating, operations_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.certificates import Certificates
    from stepbench.testing.fault_proxy import FaultProxy, Framing
    from stepbench.testing.operable_subject import Stored

pytestmark = pytest.mark.stores
LIMIT_S = 20


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """Of one server for all tests."""
    directory = tmp_path_factory.mktemp("postgresql")
    store = start_postgresql_with_tls(directory, certificates)
    yield store.endpoint.partition("/")[0]
    terminate(store.pids)
    discard_postgresql(directory)


class PostgresqlOperationsSubject:
    """What the contract looks at."""

    framing: Callable[[], Framing] = staticmethod(plain)
    target: dict[str, Any] = {"store": "postgresql"}  # noqa: RUF012 -- as the contract has it; nobody changes it

    def __init__(self, address: str) -> None:
        self.upstream = address

    def operable(self, spec: TrialSpec) -> PostgresqlOperations:
        """On the server."""
        return _driver(spec, self.upstream)

    def unreachable(self, spec: TrialSpec) -> PostgresqlOperations:
        """On nothing."""
        return _driver(spec, f"127.0.0.1:{free_port()}")

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> PostgresqlOperations:
        """Through the proxy."""
        return _driver(spec, proxy.endpoint, SILENT_LIMIT_S)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """Text; of a product JSON."""
        async with superuser(self.upstream) as session:
            query = sql.SQL("SELECT value::text FROM {} WHERE key = %s").format(table_of(spec))
            row = await (await session.execute(query, (key,))).fetchone()
        if row is None:
            return None
        product = spec.plan.workload is not None and spec.plan.workload.record.shape == "product"
        return fields_of(row[0]) if product else str(row[0]).encode()

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """The schema, and its rows."""
        async with superuser(self.upstream) as session:
            query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE %s"
            schemas = await (await session.execute(query, (f"%{spec.tag}%",))).fetchall()
            keys: list[tuple[str]] = []
            if schemas:
                cursor = await session.execute(sql.SQL("SELECT key FROM {}").format(table_of(spec)))
                keys = await cursor.fetchall()
        return [name for (name,) in (*schemas, *keys)]


def _driver(spec: TrialSpec, address: str, limit_s: float = WRITE_LIMIT_S) -> PostgresqlOperations:
    settings = Settings(results_table="t", results_bucket="b", postgresql_tls_endpoint=f"{address}/postgres")
    return PostgresqlOperations(spec, settings, AnchoredClock(), answer_limit_s=limit_s)


def table_of(spec: TrialSpec) -> sql.Identifier:
    """The trial's."""
    return sql.Identifier(f"stepbench_{spec.tag}", "records")


class TestPostgresqlOperations(OperableContract):
    """The contract."""

    @pytest.fixture
    def subject(self, address: str) -> PostgresqlOperationsSubject:
        """Looks in as superuser."""
        return PostgresqlOperationsSubject(address)


async def test_an_operation_takes_no_task(address: str) -> None:
    """Waking one costs what a tenth of a read takes, in every latency that is told."""
    subject = PostgresqlOperationsSubject(address)
    spec = operations_spec(subject.target)
    async with operating(driver := subject.operable(spec)), asyncio.timeout(LIMIT_S):
        made = driver.make(contents_of(spec).operation(Kind.READ, 0, 0))
        answered: asyncio.Future[Operated] = asyncio.get_running_loop().create_future()
        before = asyncio.all_tasks()
        made.send(answered.set_result)
        assert asyncio.all_tasks() == before
        assert not answered.done()
        assert (await answered).outcome is Outcome.OK


async def test_the_answer_of_an_abandoned_operation_meets_no_other(address: str) -> None:
    """It still comes, for a record that nobody asks about any more; one answer too early would be one for ever."""
    subject = PostgresqlOperationsSubject(address)
    spec = operations_spec(subject.target, clients=1)
    held, other = (contents_of(spec).operation(Kind.OVERWRITE, record, 1) for record in (3, 4))
    found: list[Operated] = []
    async with (
        operating(driver := subject.operable(spec)),
        superuser(subject.upstream) as holder,
        asyncio.timeout(LIMIT_S),
    ):
        await _hold(holder, spec, held)
        made = driver.make(held)
        made.send(found.append)
        await _until_blocked(holder)
        made.abandon()
        await holder.execute("ROLLBACK")
        after = await driver.operate(other)
        missing = await driver.operate(Operation(Kind.READ, "nobody's"))
    assert [(each.outcome, each.error) for each in found] == [(Outcome.UNKNOWN, NO_ANSWER)]
    assert found[0].t1_ns < found[0].t2_ns <= after.t1_ns
    assert after.outcome is Outcome.OK
    assert (missing.outcome, missing.error) == (Outcome.FAILED, "not_found")


async def _hold(session: psycopg.AsyncConnection, spec: TrialSpec, operation: Operation) -> None:
    """The record's lock, until ROLLBACK."""
    await session.execute("BEGIN")
    await session.execute(
        sql.SQL("SELECT 1 FROM {} WHERE key = %s FOR UPDATE").format(table_of(spec)), (operation.key,)
    )


async def _until_blocked(session: psycopg.AsyncConnection) -> None:
    """Until somebody waits for a lock."""
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    while await (await session.execute(waiting)).fetchone() is None:  # noqa: ASYNC110 -- a server has no event
        await asyncio.sleep(0)
