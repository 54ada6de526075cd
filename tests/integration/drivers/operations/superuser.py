"""A connection to a PostgreSQL that is not the driver's."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def superuser(address: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Of the superuser, for the block. address: HOST:PORT."""
    host, _, port = address.partition(":")
    connection = await psycopg.AsyncConnection.connect(
        host=host, port=int(port), dbname="postgres", user="postgres", autocommit=True, connect_timeout=5
    )
    try:
        yield connection
    finally:
        await connection.close()
