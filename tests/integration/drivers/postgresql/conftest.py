"""PostgreSQL with TLS for the tests of operations, and the session's own as the triggers' tests see it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from psycopg import sql
from tests.integration.drivers.sql.superuser import call_receiver_at, superuser
from tests.samples.lambda_api import LambdaApi, lambda_api
from tests.samples.ports import UNSERVED_PORT

from stepbench.clock import AnchoredClock, SystemClock
from stepbench.drivers.postgresql.operations import PostgresqlOperations
from stepbench.drivers.postgresql.trigger import PostgresqlDriver
from stepbench.drivers.sql.access import WRITE_LIMIT_S
from stepbench.records.formats.deliveries import parse_delivery
from stepbench.settings import Settings
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.postgresql import discard_postgresql, start_postgresql_with_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.contracts.filter import Arrived

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

RECEIVER = "arn:aws:lambda:eu-central-1:000000000000:function:stepbench-ReceiveEvents"


def postgresql_driver(
    spec: TrialSpec, endpoint: str, receiver: str = RECEIVER, write_limit_s: float = WRITE_LIMIT_S, **limits: float
) -> PostgresqlDriver:
    """Return a driver of triggers for the server there."""
    arns = {"receive_events_function_arn": receiver}
    settings = Settings(results_table="unused", results_bucket="unused", postgresql_endpoint=endpoint, **arns)
    return PostgresqlDriver(spec, settings, SystemClock(), write_limit_s=write_limit_s, **limits)


def postgresql_operations(
    spec: TrialSpec,
    endpoint: str,
    authority: Path | None = None,
    *,
    limit_s: float = WRITE_LIMIT_S,
    clock: Clock | None = None,
) -> PostgresqlOperations:
    """Return a driver of operations for the server there."""
    settings = Settings(
        results_table="t",
        results_bucket="b",
        postgresql_endpoint="127.0.0.1:1/never",
        postgresql_tls_endpoint=endpoint,
        tls_authority=str(authority or ""),
    )
    return PostgresqlOperations(spec, settings, clock or AnchoredClock(), answer_limit_s=limit_s)


class PostgresqlSubject:
    """Looks at tables and catalogues with psycopg's own cursor."""

    target = {"store": "postgresql"}  # noqa: RUF012 -- read only

    def __init__(self, endpoint: str, api: LambdaApi) -> None:
        self.endpoint = endpoint
        self._api = api

    def driver(self, spec: TrialSpec) -> Driver:
        """Return a driver of the running server."""
        return postgresql_driver(spec, self.endpoint)

    def unreachable(self, spec: TrialSpec) -> Driver:
        """Return a driver of a port without a listener."""
        return postgresql_driver(spec, f"127.0.0.1:{UNSERVED_PORT}/postgres")

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """Return the value under a key."""
        query = sql.SQL("SELECT value FROM {}.records WHERE key = %s").format(sql.Identifier(f"stepbench_{spec.tag}"))
        async with superuser(self.endpoint) as connection:
            row = await (await connection.execute(query, (key,))).fetchone()
        return row[0].encode() if row else None

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return schema, relations, functions and triggers whose name or schema has the tag."""
        query = """
            SELECT nspname || '/' || name FROM pg_namespace, LATERAL (
                SELECT 'schema' AS name
                UNION ALL SELECT relname FROM pg_class WHERE relnamespace = pg_namespace.oid
                UNION ALL SELECT proname || '()' FROM pg_proc WHERE pronamespace = pg_namespace.oid
                UNION ALL SELECT tgname || '!' FROM pg_trigger JOIN pg_class ON tgrelid = pg_class.oid
                          WHERE relnamespace = pg_namespace.oid) AS part
            WHERE nspname LIKE %s ORDER BY 1"""
        async with superuser(self.endpoint) as connection:
            rows = await (await connection.execute(query, (f"%{spec.tag}%",))).fetchall()
        return [row[0] for row in rows]

    @asynccontextmanager
    async def receiving(self, _spec: TrialSpec) -> AsyncIterator[Arrived]:
        """Yield what returns the events that have been posted since."""
        before = len(self._api.invocations)

        async def arrived() -> list[tuple[int, int]]:
            posted = [parse_delivery(json.loads(each.body), 1) for each in self._api.invocations[before:]]
            return [(each.entry.phase, each.entry.sequence) for delivery in posted for each in delivery.arrivals]

        yield arrived


@pytest.fixture
def receiver_api(postgresql_server: LocalStore) -> Iterator[LambdaApi]:
    """Yield a Lambda API that new sessions of the server call."""
    with lambda_api() as api:
        call_receiver_at(postgresql_server.endpoint, api.endpoint)
        yield api


@pytest.fixture
def subject(postgresql_server: LocalStore, receiver_api: LambdaApi) -> PostgresqlSubject:
    """Return the session's server, whose invocations go to `receiver_api`."""
    return PostgresqlSubject(postgresql_server.endpoint, receiver_api)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[LocalStore]:
    """Start the server for all tests of this folder that ask for it."""
    directory = tmp_path_factory.mktemp("postgresql")
    store = start_postgresql_with_tls(directory, certificates)
    yield store
    terminate(store.pids)
    discard_postgresql(directory)


def table_of(spec: TrialSpec) -> sql.Identifier:
    """Return the name of the trial's table."""
    return sql.Identifier(f"stepbench_{spec.tag}", "records")
