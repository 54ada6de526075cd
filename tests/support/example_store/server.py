r"""
The example store's server: a request a line, an answer a line, on loopback.

    PUT <key> <value>        OK <position>
    DELETE <key>             OK <position>
    GET <key>                VALUE <value>, or NONE
    KEYS <prefix>            KEYS <key> <key> …, 1,000 of them at most
    WATCH <prefix> <after>   WATCHING <position>, then for each change after it: CHANGE <position> <value>

A position counts the changes; after -1 come those from now on. A deletion's change has the key for a value. Values hold
no line feed.
"""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_KEYS = 1_000
"""In an answer to KEYS at most."""


class _Change(NamedTuple):
    key: bytes
    content: bytes


class ExampleServer(socketserver.ThreadingTCPServer):
    """Keys, values, and all changes since the start; each connection has a thread."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.values: dict[bytes, bytes] = {}
        self.endpoint = f"127.0.0.1:{self.server_address[1]}"
        self._changes: list[_Change] = []
        self._changed = threading.Condition()
        self._ended = False

    def end_watches(self) -> None:
        """Let the threads of all watches end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def reply(self, word: bytes, rest: bytes) -> bytes:
        """Carry out a request, and return its answer."""
        key, _, value = rest.partition(b" ")
        with self._changed:
            match word:
                case b"PUT":
                    self.values[key] = value
                    return self._record(_Change(key, value))
                case b"DELETE" if self.values.pop(key, None) is not None:
                    return self._record(_Change(key, key))
                case b"DELETE":
                    return b"OK %d" % len(self._changes)
                case b"GET":
                    return b"VALUE " + self.values[key] if key in self.values else b"NONE"
                case b"KEYS":
                    found = (each for each in self.values if each.startswith(key))
                    return b" ".join([b"KEYS", *islice(found, PAGE_KEYS)])
                case _:
                    return b"ERROR unknown-request"

    def changes(self, prefix: bytes, after: bytes) -> Iterator[bytes]:
        """Yield the lines of a watch, until `end_watches`."""
        seen = len(self._changes) if after == b"-1" else int(after)
        yield b"WATCHING %d" % seen
        while not self._ended:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or len(self._changes) > seen)  # noqa: B023 -- called at once
            for change in self._changes[seen:]:
                seen += 1
                if change.key.startswith(prefix):
                    yield b"CHANGE %d %b" % (seen, change.content)

    def _record(self, change: _Change) -> bytes:
        self._changes.append(change)
        self._changed.notify_all()
        return b"OK %d" % len(self._changes)


class _Connection(socketserver.StreamRequestHandler):
    server: ExampleServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer one connection until it ends."""
        with suppress(OSError):  # the client, or the test, has gone
            while line := self.rfile.readline():
                word, _, rest = line.rstrip(b"\n").partition(b" ")
                if word == b"WATCH":
                    prefix, _, after = rest.partition(b" ")
                    for change in self.server.changes(prefix, after):
                        self.wfile.write(change + b"\n")
                self.wfile.write(self.server.reply(word, rest) + b"\n")


@contextmanager
def example_server() -> Iterator[ExampleServer]:
    """Run a server on a free port of loopback, in threads of this process."""
    with ExampleServer() as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.end_watches()
            serving.join()
