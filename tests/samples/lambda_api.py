"""A Lambda Invoke API on loopback that records what it gets and answers what a test wants, byte by byte."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


class Invocation(NamedTuple):
    """One request. `connection` counts the connections from 0; `at_ns` is when its last byte was in."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    at_ns: int


class LambdaApi:
    """
    The server, on a thread per connection.

    Set `answer` to change what it says: raw bytes of an HTTP response, or None to hang up without one. A function
    that blocks makes the server slow.
    """

    def __init__(self) -> None:
        self.invocations: list[Invocation] = []
        self.answer: Callable[[Invocation], bytes | None] = lambda _: ACCEPTED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def endpoint(self) -> str:
        """Return `127.0.0.1:port`."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def hang_up(self) -> None:
        """Close all connections that are open now, as an idle time-out does."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening and hang up."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()  # no connection comes after those that are hung up
        self._listener.close()
        self.hang_up()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number = len(self._connections)
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        buffer = b""
        with connection, suppress(OSError):
            while (request := _read_request(connection, buffer)) is not None:
                head, body, buffer = request
                lines = head.split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
                invocation = Invocation(lines[0].split(" ")[1], headers, body, number, time.time_ns())
                self.invocations.append(invocation)
                answer = self.answer(invocation)
                if answer is None:
                    return
                connection.sendall(answer)


def _read_request(connection: socket.socket, buffer: bytes) -> tuple[str, bytes, bytes] | None:
    """Return head, body and what came after them; None when the peer is gone."""
    while b"\r\n\r\n" not in buffer:
        if not (more := connection.recv(65_536)):
            return None
        buffer += more
    head, _, rest = buffer.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(rest) < length:
        if not (more := connection.recv(65_536)):
            return None
        rest += more
    return head.decode(), rest[:length], rest[length:]


@contextmanager
def lambda_api() -> Iterator[LambdaApi]:
    """Yield a server that ends with the block."""
    api = LambdaApi()
    try:
        yield api
    finally:
        api.close()
