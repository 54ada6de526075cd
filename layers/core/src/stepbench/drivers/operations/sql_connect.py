"""
From an address to a session, with the time at which TCP, TLS and authentication were done.

psycopg makes a connection in one call. Below it libpq goes from step to step each time its socket is ready
(`PQconnectPoll`), and its status says which step it is at. TCP ends when the socket can be written to; TLS, of which
the request for it and the computing are parts, when libpq has done its last step of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from psycopg import pq

from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from stepbench.clock import Clock

_NAME_AND_TCP = frozenset({pq.ConnStatus.STARTED, pq.ConnStatus.NEEDED})


class Connected(NamedTuple):
    """
    A session that is ready for statements; times are ns since the epoch by the caller's clock.

    began_ns: before anything was sent. connected_ns: the other end has accepted the TCP connection. secured_ns: the TLS
    handshake is done, the server's certificate verified; without TLS the same as connected_ns. ready_ns: logged in.
    """

    pgconn: PGconn
    began_ns: int
    connected_ns: int
    secured_ns: int
    ready_ns: int


async def connect(conninfo: bytes, clock: Clock, limit_s: float) -> Connected:
    """
    A new session. `conninfo` names a numeric `hostaddr`, so that no name is looked up while this is timed.

    Raises:
        TargetUnavailableError: no answer within `limit_s`, or the server refuses, or its certificate is not trusted.
    """
    began_ns = clock.now_ns()
    pgconn = pq.PGconn.connect_start(conninfo)
    try:
        async with asyncio.timeout(limit_s):
            connected_ns, secured_ns, ready_ns = await _advance(pgconn, clock)
    except BaseException as error:
        pgconn.finish()
        if isinstance(error, TimeoutError):
            message = f"no session within {limit_s:g} s"
            raise TargetUnavailableError(message) from error
        raise
    return Connected(pgconn, began_ns, connected_ns, secured_ns, ready_ns)


async def _advance(pgconn: PGconn, clock: Clock) -> tuple[int, int, int]:
    """Step by step; when TCP, TLS and the login were done."""
    connected_ns = secured_ns = 0
    wanted = pq.PollingStatus.WRITING
    while True:
        _require(pgconn, wanted)
        status = pgconn.status
        now_ns = await _ready(pgconn.socket, clock, reading=wanted == pq.PollingStatus.READING)
        wanted = pq.PollingStatus(pgconn.connect_poll())
        if status in _NAME_AND_TCP and pgconn.status not in _NAME_AND_TCP:
            connected_ns = secured_ns = now_ns
        if status == pq.ConnStatus.SSL_STARTUP:
            secured_ns = clock.now_ns()  # what libpq computes for the handshake belongs to it
        if wanted == pq.PollingStatus.OK:
            _require(pgconn, wanted)
            return connected_ns, secured_ns, clock.now_ns()


def _require(pgconn: PGconn, wanted: pq.PollingStatus) -> None:
    if wanted == pq.PollingStatus.FAILED or pgconn.status == pq.ConnStatus.BAD:
        message = pgconn.get_error_message().strip() or "no connection"
        raise TargetUnavailableError(message)


async def _ready(descriptor: int, clock: Clock, *, reading: bool) -> int:
    """When the socket was. libpq may close it in its next step, so that nobody may be waiting for it by then."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[int] = loop.create_future()

    def note() -> None:
        if not ready.done():
            ready.set_result(clock.now_ns())

    (loop.add_reader if reading else loop.add_writer)(descriptor, note)
    try:
        return await ready
    finally:
        (loop.remove_reader if reading else loop.remove_writer)(descriptor)
