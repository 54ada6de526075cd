"""Rows of the user's own in PostgreSQL, where the server refuses them."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import sql

from stepbench.contracts.workload import Kind
from stepbench.drivers.postgresql.rows import RowTable
from stepbench.errors import PlanError
from stepbench.model.request import Request


class _Refusing:
    """A server that quotes what it refuses, as PostgreSQL does."""

    async def execute(self, *_: object) -> None:
        message = 'value "private" is out of range for type integer'
        raise psycopg.errors.NumericValueOutOfRange(message)


def test_a_row_that_the_server_refuses_at_the_preload_is_not_repeated() -> None:
    """Its message has the row, and goes into logs and an execution's history; its code says what is wrong."""
    table = RowTable(sql.Identifier("records"), {"a": "integer"}, "")
    refusing: Any = _Refusing()
    with pytest.raises(PlanError) as refused:
        asyncio.run(table.preload(refusing, [Request(Kind.INSERT, "key", b"", row=(b"private",))]))
    assert "private" not in str(refused.value)
    assert "SQLSTATE 22003" in str(refused.value)
    assert refused.value.__suppress_context__
