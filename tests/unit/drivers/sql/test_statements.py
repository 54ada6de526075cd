"""Requests as SQL, and how many sessions they may have."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import sql

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.workload import Kind
from stepbench.drivers.sql import Table, statements, table_of_rows
from stepbench.drivers.sql.executor import limits_of, pause_s
from stepbench.model.request import Request

CLOSED = {"name": "closed", "closed": {"clients": 10, "duration_s": 1}}
OPEN = {"name": "open", "load": [{"rate_per_s": 1, "count": 2}]}


def _table(merged: str | None) -> Table:
    return Table(sql.Identifier("records"), sql.SQL(""), None if merged is None else sql.SQL(merged))


def test_a_table_without_updates_overwrites_what_it_has_read() -> None:
    """A blob has no fields; a store whose statement were missing would fail in the middle of the load."""
    found = statements(_table(None))
    assert Kind.UPDATE not in found
    assert [each.name for each in found[Kind.READ_MODIFY_WRITE]] == [b"stepbench_read", b"stepbench_overwrite"]


def test_a_table_with_updates_merges_into_what_it_has_read() -> None:
    """A read-modify-write of a product changes some fields, and keeps the others."""
    found = statements(_table("value || $2"))
    assert [each.name for each in found[Kind.READ_MODIFY_WRITE]] == [b"stepbench_read", b"stepbench_update"]
    assert found[Kind.UPDATE][0].text == b'UPDATE "records" SET value = value || $2 WHERE key = $1'


def test_rows_have_the_published_statements() -> None:
    """An insert that looks for a conflict, or a read by key, would be other work."""
    found = statements(table_of_rows(sql.Identifier("perf_test")))
    assert {kind: [each.text for each in run] for kind, run in found.items()} == {
        Kind.READ: [b'SELECT id, data FROM "perf_test" LIMIT 1'],
        Kind.INSERT: [b'INSERT INTO "perf_test" (id, data) VALUES ($1::text::uuid, $2)'],
    }
    assert found[Kind.READ][0].arguments(Request(Kind.READ, "k")) == []


def test_arguments_are_binary() -> None:
    """In text format libpq cuts a value at a NUL; a bigint is eight bytes, the highest first."""
    found = statements(_table(None))
    scan, overwrite = found[Kind.SCAN][0], found[Kind.OVERWRITE][0]
    assert scan.arguments(Request(Kind.SCAN, "ä", rows=258)) == ["ä".encode(), b"\0\0\0\0\0\0\1\2"]
    assert overwrite.arguments(Request(Kind.OVERWRITE, "k", b"a\0b")) == [b"k", b"a\0b"]


@pytest.mark.parametrize(
    ("phases", "writers", "sessions", "warm", "queue"),
    [
        ([CLOSED], 1, 10, 10, False),
        ([CLOSED], 4, 3, 3, False),
        ([OPEN], 1, 64, 8, True),
        ([CLOSED, OPEN], 1, 64, 8, True),
    ],
)
def test_a_writer_has_a_session_per_client(
    phases: list[dict[str, Any]], writers: int, sessions: int, warm: int, *, queue: bool
) -> None:
    """A closed loop has all of them before the load, an open loop makes more when needed, up to the plan's cap."""
    plan = TrialPlan.model_validate(
        {
            "experiment": "operations",
            "target": {"store": "postgresql"},
            "workload": {},
            "phases": phases,
            "writers": writers,
        }
    )
    limits = limits_of(plan, answer_limit_s=5)
    assert (limits.sessions, limits.warm, limits.queue) == (sessions, warm, queue)


def test_pauses_double_up_to_a_bound() -> None:
    """Clients that have met must not meet again, nor sleep for long while the record is free."""
    assert [pause_s(retry, 0.0) for retry in (0, 1, 2)] == [0.0025, 0.005, 0.01]
    assert pause_s(3, 0.5) == pytest.approx(0.03)
    assert pause_s(20, 1.0) == 0.5
