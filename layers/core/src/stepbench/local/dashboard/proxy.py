"""The server on loopback: what the gate lets through goes to the stack's API, signed, without cookies and token."""

from __future__ import annotations

import contextlib
import html
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError

from stepbench.errors import StepbenchError
from stepbench.local.dashboard.gate import Admitted, Gate, Refused
from stepbench.local.processes import LOOPBACK

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from stepbench.local.dashboard.upstream import Answer

    Send = Callable[[str, str, Mapping[str, str], bytes], Answer]

MAX_BODY_BYTES = 1024 * 1024
"""A plan is far smaller."""
_MAX_THREADS = 16
_READ_S, _LOOK_S = 10, 0.5
_FORWARDED = ("Accept", "Content-Type", "Idempotency-Key")
_RETURNED = (
    "Cache-Control",
    "Content-Security-Policy",
    "Content-Type",
    "Location",
    "Referrer-Policy",
    "X-Content-Type-Options",
)
_BARE = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "default-src 'none'"}
_ONWARD = b'<!DOCTYPE html><title>Stepbench</title><meta http-equiv="refresh" content="0;url=/">'
_PAGE = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Stepbench</title><p>{}</p></html>'


class _Body(NamedTuple):
    """What a request carries."""

    content: bytes


class Server(ThreadingHTTPServer):
    """It answers so many requests at once at most; a connection carries one, so that none holds a thread for long."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, port: int, send: Send) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.gate = Gate(self.server_port)
        self.ask = send
        self.timeout = _LOOK_S
        self._slots = threading.BoundedSemaphore(_MAX_THREADS)

    def serve_while(self, wanted: Callable[[], bool]) -> None:
        """Answer for as long as is wanted."""
        while wanted():
            self.handle_request()

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Wait for a free thread, which takes the request."""
        if self._slots.acquire(timeout=_READ_S):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Answer in a thread, which is free afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a browser that goes away in the middle is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version, sys_version = "stepbench", ""
    timeout = _READ_S

    def do_GET(self) -> None:
        """Answer as the stack does, if the gate lets it through."""
        verdict = self.server.gate.judge(self.command, self.path, self.headers)
        if isinstance(verdict, Admitted):
            self._admit(verdict)
            return
        found = verdict or self._body()
        if isinstance(found, Refused):
            self._refuse(found)
            return
        headers = {name: value for name in _FORWARDED if (value := self.headers.get(name))}
        try:
            answer = self.server.ask(self.command, self.path, headers, found.content)
        except (BotoCoreError, StepbenchError) as error:
            self._refuse(Refused(HTTPStatus.BAD_GATEWAY, f"The stack's API does not answer: {error}"))
            return
        known = {name: value for name in _RETURNED if (value := answer.headers.get(name))}
        self._reply(answer.status, known, answer.body)

    do_POST = do_DELETE = do_GET  # noqa: N815 -- http.server's names

    def log_message(self, *_: object) -> None:
        """Log nothing: an address may hold the token."""

    def _body(self) -> _Body | Refused:
        """Return the request's body, or why it is not read."""
        if self.headers.get("Transfer-Encoding"):
            return Refused(HTTPStatus.LENGTH_REQUIRED, "The request does not say how long it is.")
        given = self.headers.get("Content-Length", "0")
        if not (given.isascii() and given.isdigit()):
            return Refused(HTTPStatus.BAD_REQUEST, "The request's length is no number.")
        if int(given) > MAX_BODY_BYTES:
            return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request has more than {MAX_BODY_BYTES} bytes.")
        content = self.rfile.read(int(given))
        if len(content) < int(given):
            return Refused(HTTPStatus.BAD_REQUEST, "The request breaks off.")
        return _Body(content)

    def _admit(self, admitted: Admitted) -> None:
        """Lead on to the first page; from another site's or a file's, only a page of ours gets the cookie back."""
        if self.headers.get("Sec-Fetch-Site") == "cross-site":
            self._reply(HTTPStatus.OK, {**_BARE, "Set-Cookie": admitted.cookie}, _ONWARD)
        else:
            self._reply(HTTPStatus.SEE_OTHER, {"Location": "/", "Set-Cookie": admitted.cookie}, b"")

    def _refuse(self, refused: Refused) -> None:
        self.close_connection = True
        self._reply(refused.status, _BARE, _PAGE.format(html.escape(refused.reason)).encode())

    def _reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.send_response(status)
            for name, value in {"Cache-Control": "no-store", **headers, "X-Frame-Options": "DENY"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
