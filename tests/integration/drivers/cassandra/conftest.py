"""A node, and another way to ask it than our drivers', for the tests of Cassandra."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from stepbench.clock import AnchoredClock
from stepbench.wire import cql
from stepbench.wire.connect import ServerAddress
from stepbench.wire.cql.answers import Row, refusal, rows
from stepbench.wire.cql.connection import ANONYMOUS, connect_cql
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.cassandra.node import start_cassandra

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from stepbench.wire.cql.connection import CqlConnection
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

PASSWORDS = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "AllowAllAuthorizer",
    "role_manager": "CassandraRoleManager",
}


@asynccontextmanager
async def connection_to(address: str, login: tuple[str, str] = ANONYMOUS) -> AsyncIterator[CqlConnection]:
    """Yield a connection, and close it."""
    host, _, port = address.rpartition(":")
    connected = await connect_cql(ServerAddress(host, int(port)), AnchoredClock(), login, answer_s=30)
    try:
        yield connected.connection
    finally:
        connected.connection.close()


async def ask(address: str, statement: str) -> list[Row]:
    """Return what a statement finds."""
    async with connection_to(address) as connection:
        answered = await connection.call(cql.query(statement, cql.Consistency.ONE))
        assert answered.error == ""
        assert refusal(answered.frame) is None
        return rows(answered.frame)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[LocalStore]:
    """Start one node that asks for a password, with and without TLS."""
    store = start_cassandra(tmp_path_factory.mktemp("cassandra"), certificates, PASSWORDS)
    yield store
    terminate(store.pids, grace_s=1)  # it takes 5 s to go by itself, and leaves nothing of use
