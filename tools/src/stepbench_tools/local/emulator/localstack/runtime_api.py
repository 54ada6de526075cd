"""
Lambda's Runtime API for one sandbox: events go out one at a time, answers and errors come back.

The protocol is AWS's own ("Using the Lambda runtime API" in Lambda's guide). `shim.py` loads this by path, so it
imports nothing of ours.
"""

from __future__ import annotations

import queue
import re
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_NEXT = "/2018-06-01/runtime/invocation/next"
_ANSWER = re.compile(r"/2018-06-01/runtime/(?:invocation/(?P<request>[^/]+)/(?P<kind>response|error)|init/error)")


@dataclass(frozen=True)
class Event:
    """The event of one invocation, with the headers that go with it."""

    request_id: str
    payload: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """A sandbox has answered; `request_id` is empty where it could not start."""

    request_id: str
    payload: bytes
    is_error: bool


class RuntimeApi(ThreadingHTTPServer):
    """The server of one sandbox, on loopback: it takes `events`, gives `replies`, and is `ready` once it asks."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.ready = threading.Event()
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True, name=f"runtime-api-{self.address}").start()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 -- as the original
        """Pass over a connection that its sandbox has closed: how that ended is seen in its process."""

    def close(self) -> None:
        """End the server, soon; a sandbox that still asks for an event gets none."""
        self.events.put(None)
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: RuntimeApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65_536  # headers and body in one segment

    def do_GET(self) -> None:
        """Wait for the next event; nothing else can be asked for."""
        if self.path != _NEXT:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self.server.ready.set()
        event = self.server.events.get()
        if event is None:
            self.close_connection = True
            return
        self._answer(HTTPStatus.OK, event.payload, {"Lambda-Runtime-Aws-Request-Id": event.request_id, **event.headers})

    def do_POST(self) -> None:
        """Take an answer, or an error, also of the start."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = _ANSWER.fullmatch(self.path)
        if found is None:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self.server.replies.put(Reply(found["request"] or "", body, is_error=found["kind"] != "response"))
        self._answer(HTTPStatus.ACCEPTED)

    def _answer(self, status: HTTPStatus, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- as the original
        """Write nothing: the sandbox's own lines are the log."""
