"""What the fakes were called with, told to a port: a sandbox of the emulator writes no files but its own."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Journal(socketserver.ThreadingTCPServer):
    """Calls by scenario, and the scenarios whose held stage may go on."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.port = int(self.server_address[1])
        self.released: set[str] = set()
        self._calls: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._lock = threading.Lock()

    def calls(self, scenario: str) -> list[dict[str, Any]]:
        """Return the calls of a scenario so far."""
        with self._lock:
            return list(self._calls[scenario])

    def note(self, scenario: str, call: dict[str, Any]) -> int:
        """Note a call, and return how many its stage has had."""
        with self._lock:
            calls = self._calls[scenario]
            calls.append(call)
            return sum(each["stage"] == call["stage"] for each in calls)


class _Answering(socketserver.StreamRequestHandler):
    server: Journal

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        if "call" in asked:
            answer = self.server.note(asked["id"], asked["call"])
        else:
            answer = asked["released"] in self.server.released
        self.wfile.write(b"%d\n" % answer)


@contextmanager
def open_journal() -> Iterator[Journal]:
    """Yield a journal that listens on loopback; gone at the end."""
    with Journal() as journal:
        thread = threading.Thread(target=journal.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield journal
        finally:
            journal.shutdown()
            thread.join(10)
