"""
One GET on a connection of its own, blocking: the head is read, the body goes into memory that the caller has.

No time limit is set on the connected socket: with one, Python would ask `poll` before each `recv`. `interrupt` ends it
from another thread in its place.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.contracts.endpoint import forbidden_name
from stepbench.wire.http1 import MalformedHttpError, parse_answer, parse_head
from stepbench.wire.http1.blocking import DEFAULT_PORTS, dial, error_code, secure

if TYPE_CHECKING:
    from stepbench.wire.http1 import HttpHead

CONNECT_S = 10.0
"""The limit for connecting to one address, and again for its handshake."""
_HEAD_BYTES = 4_096
"""What is asked for at a time while the head is awaited; some of it may be the body's begin."""


class HttpServer(NamedTuple):
    """A server to download from. authority: the Host header. tls: whether it is asked by HTTPS."""

    host: str
    port: int
    authority: str
    tls: bool

    @classmethod
    def of(cls, url: str) -> HttpServer:
        """Return the server of a URL; a path is ignored."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        return cls(host, port, parts.netloc if parts.port else host, parts.scheme == "https")


class DownloadRefusedError(Exception):
    """The server answered with another status than was expected; the text has it, and the service's own code."""


class Download:
    """A connection, and one answer over it."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.own_address = str(connected.getsockname()[0])
        self.receive_into = connected.recv_into
        """Receive into a buffer as `socket.recv_into`; 0: the peer has closed."""

    def send(self, request: bytes) -> None:
        """Hand the request to the kernel."""
        self._socket.sendall(request)

    def answer(self, expected: int) -> tuple[HttpHead, bytes]:
        """
        Return the head, and what came of the body with it.

        Raises:
            DownloadRefusedError: the status is not `expected`.
            MalformedHttpError: it is no HTTP, or ended within the head.
        """
        received, closed = b"", False
        while (head := parse_head(received, closed=closed)) is None:
            more = self._socket.recv(_HEAD_BYTES)
            received, closed = received + more, not more
        if head.status != expected:
            raise DownloadRefusedError(self._refusal(head.status, received))
        return head, received[head.body_at :]

    def interrupt(self) -> None:
        """End the connection; a thread that waits for the peer goes on at once, as if the peer had closed."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # of TLS, too, whose own would drop its state

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _refusal(self, status: int, received: bytes) -> str:
        """Return such as "HTTP 404 NoSuchKey", with the code that a whole answer has."""
        closed = False
        with contextlib.suppress(MalformedHttpError, OSError):
            while (answer := parse_answer(received, closed=closed)) is None:
                more = self._socket.recv(_HEAD_BYTES)
                received, closed = received + more, not more
            return f"HTTP {status} {error_code(answer.body)}".rstrip()
        return f"HTTP {status}"


def tls_context(server: HttpServer, authorities: str | None) -> ssl.SSLContext | None:
    """
    Return what connections to the server are secured with; None: it is not asked by HTTPS.

    To be made once, and ahead: with the system's authorities (`authorities` None, else a PEM file) it takes 30 ms.
    """
    return ssl.create_default_context(cafile=authorities) if server.tls else None


def connect(server: HttpServer, context: ssl.SSLContext | None = None, *, link_local: bool = False) -> Download:
    """
    Resolve the name, connect and shake hands.

    Args:
        server: where.
        context: see `tls_context`.
        link_local: whether the server may be at a link-local address, where credentials are handed out.

    Raises:
        OSError: nobody is there, or nobody whom we trust.
    """
    connected = dial(server.host, server.port, lambda: CONNECT_S, _anything if link_local else forbidden_name)
    if context is not None:
        connected.settimeout(CONNECT_S)
        connected = secure(connected, server.host, context)
    connected.settimeout(None)
    return Download(connected)


def fetch(url: str, limit_s: float, most_bytes: int = 65_536) -> bytes:
    """
    Return the body of a small answer from a link-local service of the platform itself, over plain HTTP.

    Raises:
        OSError, MalformedHttpError, DownloadRefusedError: there is none in `limit_s`, from the connection on.
    """
    server = HttpServer.of(url)
    download = connect(server, link_local=True)
    timer = threading.Timer(limit_s, download.interrupt)  # a limit on the socket would be of each piece
    timer.start()
    try:
        path = url.partition("://")[2].partition("/")[2]
        download.send(f"GET /{path} HTTP/1.1\r\nhost: {server.authority}\r\nconnection: close\r\n\r\n".encode())
        head, body = download.answer(200)
        while len(body) < (most_bytes if head.length is None else min(head.length, most_bytes)):
            more = bytearray(_HEAD_BYTES)
            if not (count := download.receive_into(more)):
                break
            body += more[:count]
        if timer.finished.is_set():
            message = f"no whole answer within {limit_s:g} s"
            raise TimeoutError(message)
        return body
    finally:
        timer.cancel()
        download.close()


def _anything(_host: str, _addresses: object) -> None:
    """Find no problem with a host."""
