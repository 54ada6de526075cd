"""What a session decides without a server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.fake_clock import FakeClock

from stepbench.drivers.sql.session import SqlSession, outcome_of
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn


@pytest.mark.parametrize(
    ("severity", "sqlstate", "outcome"),
    [
        ("ERROR", "23505", Outcome.FAILED),  # unique_violation
        ("ERROR", "38000", Outcome.FAILED),  # the trigger could not invoke
        ("ERROR", "57014", Outcome.FAILED),  # statement_timeout
        ("ERROR", "53200", Outcome.FAILED),  # out_of_memory
        ("FATAL", "57P01", Outcome.UNKNOWN),  # admin_shutdown
        ("PANIC", "XX000", Outcome.UNKNOWN),
        ("ERROR", "40003", Outcome.UNKNOWN),  # statement_completion_unknown
        ("ERROR", "08007", Outcome.UNKNOWN),  # transaction_resolution_unknown
        ("", "", Outcome.UNKNOWN),  # libpq's own report: the connection is gone
    ],
)
def test_only_a_rollback_is_failed(severity: str, sqlstate: str, outcome: Outcome) -> None:
    """A write that may have been committed, counted as failed, would turn its arrival into a contradiction."""
    assert outcome_of(severity, sqlstate) is outcome


class _Connection:
    """Stands in for libpq's connection, in a session that ends before it begins."""

    nonblocking = 0

    def __init__(self, descriptor: int) -> None:
        self.socket = descriptor

    def finish(self) -> None:
        """Nothing to end."""


async def test_nothing_is_sent_over_a_connection_that_is_broken() -> None:
    """What certainly never left is no open question."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        session = SqlSession(cast("PGconn", _Connection(ours.fileno())), FakeClock(), limit_s=1)
        session.close()
        sent: list[str] = []
        answer = await session.exchange(lambda _: sent.append("a statement"))
    assert (answer.outcome, answer.error, sent) == (Outcome.FAILED, "connection-closed", [])
