"""
Blocking calls that end in total, whoever makes them: libraries' own time limits are of each wait for a piece.

A server that drips one byte a second ends no such wait. So another thread shuts the connection down once the call's
time is up, and whatever waits for it goes on at once, as if the peer had closed.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPHandler, HTTPSHandler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from urllib.request import Request

_CURRENT = threading.local()


class CallLimit:
    """
    The socket that a call uses now, and whether its time is up.

    The socket, and not the connection: that of an answer without a length forgets it once the head is read.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.socket: socket.socket | None = None
        self._lock = threading.Lock()

    def use(self, connected: socket.socket | None) -> None:
        """End this connection when the time is up; at once if it is."""
        with self._lock:
            self.socket = connected
        if self.is_over:
            self.end()

    def end(self) -> None:
        """Shut down the connection in use, and each that is taken later."""
        self.is_over = True
        with self._lock, suppress(OSError):
            if self.socket is not None:
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # of TLS, too: its own would drop its state

    def release(self) -> None:
        """Leave the connection alone from now on: it may serve another call."""
        with self._lock:
            self.socket = None


@contextmanager
def within(limit_s: float) -> Iterator[CallLimit]:
    """
    Have all that this thread asks over `LimitedConnection`s end within so long, in total.

    Raises:
        TimeoutError: it has not, whatever came of that: an error, or what looks like a shorter answer.
    """
    limit = CallLimit()
    timer = threading.Timer(limit_s, limit.end)
    timer.daemon = True
    timer.start()
    before, _CURRENT.limit = getattr(_CURRENT, "limit", None), limit
    problem: Exception | None = None
    try:
        yield limit
    except Exception as error:
        if not limit.is_over:
            raise
        problem = error
    finally:
        _CURRENT.limit = before
        timer.cancel()
        limit.release()
    if limit.is_over:
        message = f"no whole answer within {limit_s:g} s"
        raise TimeoutError(message) from problem


class LimitedConnection(HTTPConnection):
    """A connection of `http.client`, or a library's kind of it, that the limit of the call under way can end."""

    def connect(self) -> None:
        """Connect, which has a limit of its own."""
        super().connect()
        self._note()

    def request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- the library's
        """Send a request."""
        self._note()
        super().request(*args, **kwargs)

    @property
    def is_late(self) -> bool:
        """Return whether the time of the call under way is up: it is of no use to try another address."""
        limit: CallLimit | None = getattr(_CURRENT, "limit", None)
        return limit is not None and limit.is_over

    def _note(self) -> None:
        limit: CallLimit | None = getattr(_CURRENT, "limit", None)
        if limit is not None:
            limit.use(self.sock)


class _LimitedHttpsConnection(LimitedConnection, HTTPSConnection):
    """A connection with TLS."""


class LimitedHandler(HTTPHandler, HTTPSHandler):
    """Has an opener of `urllib.request` use connections that `within` can end."""

    def http_open(self, req: Request) -> Any:  # noqa: ANN401 -- urllib's
        """Open."""
        return self.do_open(LimitedConnection, req)

    def https_open(self, req: Request) -> Any:  # noqa: ANN401 -- urllib's
        """Open."""
        return self.do_open(_LimitedHttpsConnection, req)
