"""
A new connection with the time at which TCP, TLS and authentication were done, and the error where there is none.

psycopg makes a connection in one call. Below it libpq goes from step to step each time its socket is ready
(`PQconnectPoll`), and its status says which step it is at. TCP ends when the socket can be written to; TLS, of which
the request for it and the computing are parts, when libpq has done its last step of it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import TYPE_CHECKING, NamedTuple

from psycopg import pq

from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import connect_error, with_login_remedy
from stepbench.model.request import ConnectionParts

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from stepbench.clock import Clock

_NAME_AND_TCP = frozenset({pq.ConnStatus.STARTED, pq.ConnStatus.NEEDED})
_SERVER_CODES = {"rate exceeded": "53400", "too many": "53300", "remaining connection slots": "53300"}
"""SQLSTATEs of refusals by the words of DSQL and PostgreSQL: libpq hands on a refused login's text, not its code."""
_TLS_REASON = re.compile(r"SSL error: ([\w ]+)")
_LASTING = re.compile(
    r"SSL error|certificate|server does not support SSL|invalid response to SSL|expected authentication request|"
    r"no password supplied|FATAL:  (?:\w+ authentication failed|no pg_hba|role |database )"
)
"""What libpq or a server says where waiting is no use: of TLS, another protocol, a login, a database that is none."""
_PASSING = re.compile(r"the database system is|unexpected eof")
"""What is said, though it looks like the above, by a server that is only starting, or that ends under a handshake."""


class TimedConnection(NamedTuple):
    """
    A connection that is ready for statements; times are ns since the epoch by the caller's clock.

    started_ns: before anything was sent. connected_ns: the other end has accepted the TCP connection. secured_ns: the
    TLS handshake is done, the server's certificate verified; without TLS equal to connected_ns. ready_ns: logged in.
    """

    pgconn: PGconn
    started_ns: int
    connected_ns: int
    secured_ns: int
    ready_ns: int

    def parts(self, t2_ns: int) -> ConnectionParts:
        """Return the parts of the time of a request whose answer came on this connection at `t2_ns`."""
        return ConnectionParts(
            connect_ns=self.connected_ns - self.started_ns,
            tls_ns=self.secured_ns - self.connected_ns,
            authenticate_ns=self.ready_ns - self.secured_ns,
            operate_ns=t2_ns - self.ready_ns,
        )


async def connect(conninfo: bytes, clock: Clock, limit_s: float) -> TimedConnection:
    """
    Make a connection. `conninfo` names a numeric `hostaddr`, so that no name is looked up while this is timed.

    Raises:
        TargetUnavailableError: no answer within `limit_s`, or the server refuses, or its certificate is not trusted;
            `refusal_error` says which.
    """
    started_ns = clock.now_ns()
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
    return TimedConnection(pgconn, started_ns, connected_ns, secured_ns, ready_ns)


def unavailable(message: str, reason: str) -> TargetUnavailableError:
    """Return the error of a control method; `reason` is libpq's, which says by text alone whether waiting is of use."""
    lasts = _LASTING.search(reason) is not None and _PASSING.search(reason) is None
    return (TargetUnreachableError if lasts else TargetUnavailableError)(with_login_remedy(message, reason))


def refusal_error(error: TargetUnavailableError) -> str:
    """Return the error of a request for want of a connection: the server's code, else `connect_error`'s word."""
    message = str(error)
    code = next((code for part, code in _SERVER_CODES.items() if part in message), None)
    return code or connect_error(error)


async def _advance(pgconn: PGconn, clock: Clock) -> tuple[int, int, int]:
    """Take libpq's steps one by one; return when TCP, TLS and the login were done."""
    connected_ns = secured_ns = 0
    wanted = pq.PollingStatus.WRITING
    while True:
        _require(pgconn, wanted)
        status = pgconn.status
        now_ns = await _wait(pgconn.socket, clock, reading=wanted == pq.PollingStatus.READING)
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
        raise unavailable(message, message) from _cause(message)


def _cause(message: str) -> Exception:
    """Return what Python would have raised: libpq distinguishes causes by its text only."""
    if tls := _TLS_REASON.search(message):
        error = ssl.SSLError(ssl.SSL_ERROR_SSL, message)
        error.reason = tls[1].strip().upper().replace(" ", "_")  # "certificate verify failed", as OpenSSL names it
        return error
    if "Connection refused" in message or "FATAL:" in message:
        return ConnectionRefusedError(message)
    if "Connection reset" in message or "closed the connection" in message:
        return ConnectionResetError(message)
    return ConnectionError(message)


async def _wait(descriptor: int, clock: Clock, *, reading: bool) -> int:
    """Return when the socket was ready. libpq may close it in its next step: nobody may be waiting for it by then."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[int] = loop.create_future()

    def stamp() -> None:
        if not ready.done():
            ready.set_result(clock.now_ns())

    (loop.add_reader if reading else loop.add_writer)(descriptor, stamp)
    try:
        return await ready
    finally:
        (loop.remove_reader if reading else loop.remove_writer)(descriptor)
