"""How a session ends when the server's side does, with a server that the test plays itself."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from stepbench.clock import AnchoredClock
from stepbench.drivers.sql.connection import connect
from stepbench.drivers.sql.session import Answer, SqlSession
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 20
NEVER_S = 3_600
WELCOME = b"R" + struct.pack(">ii", 8, 0)  # AuthenticationOk
READY = b"Z" + struct.pack(">ic", 5, b"I")
DONE = b"C" + struct.pack(">i", 4 + 9) + b"INSERT 0\0" + READY
HALF = DONE[:7]


class _Server:
    """The other end of one connection; blocking, so that the loop sees only all of what it did."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connected = listener

    def welcome(self) -> None:
        """Log the client in."""
        self._connected, _ = self._listener.accept()
        self._connected.settimeout(LIMIT_S)
        self._connected.recv(4_096)
        self._connected.sendall(WELCOME + READY)

    def read_statement(self) -> None:
        """Wait for a statement."""
        assert self._connected.recv(4_096)

    def send(self, data: bytes) -> None:
        """Send it."""
        self._connected.sendall(data)

    def reset(self) -> None:
        """End with RST instead of FIN."""
        self._connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connected.close()

    def close(self) -> None:
        """End with FIN."""
        self._connected.close()


@asynccontextmanager
async def _connected(limit_s: float = NEVER_S) -> AsyncIterator[tuple[_Server, SqlSession]]:
    """Yield a server with a session that is logged in there; a TimeoutError fails the test."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_S)
        server, port = _Server(listener), listener.getsockname()[1]
        conninfo = f"hostaddr=127.0.0.1 port={port} sslmode=disable gssencmode=disable user=x"
        async with asyncio.timeout(LIMIT_S):
            welcoming = asyncio.create_task(asyncio.to_thread(server.welcome))
            made = await connect(conninfo.encode(), AnchoredClock(), LIMIT_S)
            await welcoming
            session = SqlSession(made.pgconn, AnchoredClock(), limit_s)
            yield server, session
        session.close()
        server.close()


def _execute(session: SqlSession) -> asyncio.Future[Answer]:
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    session.start(
        lambda pgconn: pgconn.send_query_prepared(b"any", []), lambda *parts: answered.set_result(Answer(*parts))
    )
    return answered


@pytest.mark.parametrize("said", [b"", HALF], ids=["nothing", "half an answer"])
@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_connection_that_ends_before_its_answer_is_lost(how: str, said: bytes) -> None:
    """The loop tells of a reset once, together with the bytes before it: the end is not waited for until the limit."""
    async with _connected() as (server, session):
        answered = _execute(session)
        server.read_statement()
        server.send(said)
        getattr(server, how)()
        answer = await answered
        assert (answer.outcome, answer.error) == (Outcome.UNKNOWN, "connection-closed")
        assert session.broken


async def test_a_reset_behind_an_answer_breaks_the_connection_and_not_the_answer() -> None:
    """The write was acknowledged; and the next must not be sent where nobody is."""
    async with _connected() as (server, session):
        answered = _execute(session)
        server.read_statement()
        server.send(DONE)
        server.reset()
        answer = await answered
        while not session.broken:  # noqa: ASYNC110 -- it tells nobody
            await asyncio.sleep(0.01)
        assert answer.outcome is Outcome.OK


async def test_silence_ends_at_the_limit() -> None:
    """The answer may still come, so that nothing else is asked on this connection."""
    async with _connected(limit_s=0.25) as (_server, session):
        answer = await _execute(session)
        assert (answer.outcome, answer.error) == (Outcome.UNKNOWN, "timeout")
        assert answer.t2_ns - answer.t1_ns >= 0.25e9
        assert session.broken


async def test_what_was_said_while_nothing_was_asked_is_no_answer() -> None:
    """A server may warn at any time; the next exchange has its own answer."""
    notice = b"N" + struct.pack(">i", 4 + 9) + b"SNOTICE\0\0"
    async with _connected() as (server, session):
        server.send(notice)
        for _ in range(2):
            answered = _execute(session)
            server.read_statement()
            assert not answered.done()
            server.send(notice + DONE)
            assert (await answered).outcome is Outcome.OK
        assert not session.broken
