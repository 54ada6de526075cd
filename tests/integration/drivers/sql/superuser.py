"""Sessions on a PostgreSQL that are not the driver's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 20
_BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@asynccontextmanager
async def superuser(endpoint: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Yield the superuser's session. endpoint: HOST:PORT, or HOST:PORT/DATABASE."""
    address, _, database = endpoint.partition("/")
    host, _, port = address.partition(":")
    connection = await psycopg.AsyncConnection.connect(
        host=host, port=int(port), dbname=database or "postgres", user="postgres", autocommit=True, connect_timeout=5
    )
    try:
        yield connection
    finally:
        await connection.close()


async def until_blocked(endpoint: str) -> None:
    """Return once a session waits for another's lock."""
    async with superuser(endpoint) as session, asyncio.timeout(LIMIT_S):
        while await (await session.execute(_BLOCKED)).fetchone() is None:  # noqa: ASYNC110 -- a server has no event
            await asyncio.sleep(0.01)


def call_receiver_at(endpoint: str, api: str) -> None:
    """Have new sessions of the server invoke Lambda at another address."""
    address, _, database = endpoint.partition("/")
    host, _, port = address.partition(":")
    with psycopg.connect(host=host, port=int(port), dbname=database, user="postgres", autocommit=True) as connection:
        setting = sql.SQL("ALTER DATABASE {} SET aws_lambda.endpoint_override = {}")
        connection.execute(setting.format(sql.Identifier(database), sql.Literal(api)))
