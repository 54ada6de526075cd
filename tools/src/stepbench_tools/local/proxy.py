"""
The server on loopback: what is the user's own goes to the stack's API, signed, without cookies and token.

Anything on this machine, and any page in the user's browser, can reach the port. A page of another site may send
requests here, though not read the answers, and a name of its own may lead here (DNS rebinding): so the host has to be
ours, what changes something has to come from our own pages, and everything needs the secret that only the browser has
which was once at the address that the command printed.

A browser sends a cookie to every port of a host, so whoever serves another port of this one could be sent ours. It is
bound to a path that nobody can guess, below which all our pages are, and opens nothing without that path. The API knows
nothing of that path, so the addresses in its pages are led there.
"""

from __future__ import annotations

import contextlib
import hmac
import html
import re
import secrets
import socket
import threading
import time
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from botocore.exceptions import BotoCoreError

from stepbench.errors import StepbenchError
from stepbench_tools.local.processes import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench_tools.local.stack import Answer

    Send = Callable[[str, str, Mapping[str, str], bytes], Answer]
    from email.message import Message


SAFE_METHODS = ("GET", "HEAD")
_SECRET_BYTES = 32
_TARGET = re.compile(r"/(?!/)[\x21-\x7e]*")
_MOST_FIELDS = 50
OPEN_AGAIN = "Open the address that the command has printed, with its token."


class Refused(NamedTuple):
    """The request is not answered by the stack."""

    status: HTTPStatus
    reason: str


class Admitted(NamedTuple):
    """The browser has shown the token: it gets a cookie, and is led on to where it holds, without the token."""

    cookie: str
    location: str


class Gate:
    """It knows the token, the path and the cookie of one start of the server; `root` is the path, such as `/x7f`."""

    def __init__(self, port: int) -> None:
        self._token, self._secret, path = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
        self.root = f"/{path}"
        self._cookie = f"stepbench-{port}"  # cookies are of a host, whatever its port
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.address = f"http://127.0.0.1:{port}/?token={self._token}"

    def judge(self, method: str, target: str, headers: Message) -> Refused | Admitted | None:
        """Return why a request is refused, that its browser is admitted, or None: the stack shall answer it."""
        hosts = headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server is at 127.0.0.1 and localhost only.")
        if not _TARGET.fullmatch(target):
            return Refused(HTTPStatus.BAD_REQUEST, "That is no path.")
        if method not in SAFE_METHODS and not self._is_of_our_pages(headers, hosts[0]):
            return Refused(HTTPStatus.FORBIDDEN, "The request comes from another site.")
        return self._admission(target, headers)

    def target_of(self, target: str) -> str:
        """Return what the stack is asked for by a request that has passed."""
        return target.removeprefix(self.root)

    def _admission(self, target: str, headers: Message) -> Refused | Admitted | None:
        try:
            token = self._token_in(target)
        except ValueError:
            return Refused(HTTPStatus.BAD_REQUEST, f"The address has more than {_MOST_FIELDS} fields.")
        if token is not None:
            if _same(token, self._token):
                cookie = f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path={self.root}/"
                return Admitted(cookie, f"{self.root}/")
            return Refused(HTTPStatus.FORBIDDEN, f"The token is of an earlier start. {OPEN_AGAIN}")
        path, slash, below = target[1:].partition("/")
        if not (slash and _same(f"/{path}", self.root) and self._has_cookie(headers)):
            return Refused(HTTPStatus.FORBIDDEN, OPEN_AGAIN)
        return None if _TARGET.fullmatch(f"/{below}") else Refused(HTTPStatus.BAD_REQUEST, "That is no path.")

    def _is_of_our_pages(self, headers: Message, host: str) -> bool:
        """Return whether the browser says so; what says nothing is no browser of today, or hides it."""
        origins, sites = headers.get_all("Origin", []), headers.get_all("Sec-Fetch-Site", [])
        if not origins and not sites:
            return False
        return all(each == f"http://{host}" for each in origins) and all(each == "same-origin" for each in sites)

    def _token_in(self, target: str) -> str | None:
        """Return the token in an address, None where there is none; raises ValueError for an address of many fields."""
        parts = urlsplit(target)
        given = parse_qs(parts.query, keep_blank_values=True, max_num_fields=_MOST_FIELDS).get("token")
        return given[-1] if given and parts.path == "/" else None

    def _has_cookie(self, headers: Message) -> bool:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load("; ".join(headers.get_all("Cookie", [])))
        except CookieError:
            return False
        found = jar.get(self._cookie)
        return found is not None and _same(found.value, self._secret)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


MAX_BODY_BYTES = 5 * 1024 * 1024
"""A plan is far smaller; a file of rows that comes with its form has 4 MiB at most."""
_MAX_THREADS, MOST_UNREAD = 16, 64
_READ_S, _IDLE_POLL_S = 10, 0.5
_MOST_DIGITS = 20
_ADDRESS = re.compile(rb'\b(href|src|action)="/(?!/)')
"""An address in pages, where texts have no quotation marks."""
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
_ONWARD = '<!DOCTYPE html><title>Stepbench</title><meta http-equiv="refresh" content="0;url={}">'
_PAGE = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Stepbench</title><p>{}</p></html>'


class Server(ThreadingHTTPServer):
    """
    It answers so many requests at once at most, and a connection carries one.

    One that has not said after 10 s what it wants is closed, and the oldest of those where there are many of them: who
    says nothing, or says it slowly, holds nobody up.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, port: int, send: Send) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.gate = Gate(self.server_port)
        self.ask = send
        self.timeout = _IDLE_POLL_S
        self.slots = threading.BoundedSemaphore(_MAX_THREADS)
        self._unread: dict[socket.socket, float] = {}
        self._changing = threading.Lock()

    def serve_while(self, wanted: Callable[[], bool]) -> None:
        """Answer for as long as is wanted."""
        while wanted():
            self.handle_request()
            self._close_slow()

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Read and answer in a thread."""
        with self._changing:
            self._unread[request] = time.monotonic()
        self._close_slow()
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Close a connection."""
        self.has_read(request)
        super().shutdown_request(request)

    def has_read(self, request: socket.socket) -> None:
        """Note that a request is whole."""
        with self._changing:
            self._unread.pop(request, None)

    def _close_slow(self) -> None:
        with self._changing:
            beyond, now_s = len(self._unread) - MOST_UNREAD, time.monotonic()
            for place, (request, since_s) in enumerate(tuple(self._unread.items())):
                if place < beyond or now_s - since_s > _READ_S:
                    del self._unread[request]
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

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
        self.server.has_read(self.connection)
        headers = {name: value for name in _FORWARDED if (value := self.headers.get(name))}
        target = self.server.gate.target_of(self.path)
        try:
            with self.server.slots:
                answer = self.server.ask(self.command, target, headers, found)
        except (BotoCoreError, StepbenchError) as error:
            self._refuse(Refused(HTTPStatus.BAD_GATEWAY, f"The stack's API does not answer: {error}"))
            return
        self._return(answer)

    do_POST = do_DELETE = do_GET  # noqa: N815 -- http.server's names

    def log_message(self, *_: object) -> None:
        """Log nothing: an address may hold the token."""

    def _body(self) -> bytes | Refused:
        """Return the request's body, or why it is not read."""
        if "Transfer-Encoding" in self.headers:
            return Refused(HTTPStatus.LENGTH_REQUIRED, "The request does not say how long it is.")
        given, *others = self.headers.get_all("Content-Length", ["0"])
        if others:
            return Refused(HTTPStatus.BAD_REQUEST, "The request says twice how long it is.")
        if not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
            return Refused(HTTPStatus.BAD_REQUEST, "The request's length is no number.")
        if int(given) > MAX_BODY_BYTES:
            return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request has more than {MAX_BODY_BYTES} bytes.")
        content = self.rfile.read(int(given))
        if len(content) < int(given):
            return Refused(HTTPStatus.BAD_REQUEST, "The request breaks off.")
        return content

    def _admit(self, admitted: Admitted) -> None:
        """Lead on to the first page; from another site's or a file's, only a page of ours gets the cookie back."""
        if self.headers.get("Sec-Fetch-Site") == "cross-site":
            page = _ONWARD.format(admitted.location).encode()
            self._reply(HTTPStatus.OK, {**_BARE, "Set-Cookie": admitted.cookie}, page)
        else:
            self._reply(HTTPStatus.SEE_OTHER, {"Location": admitted.location, "Set-Cookie": admitted.cookie}, b"")

    def _return(self, answer: Answer) -> None:
        """Pass on what the stack has answered, with addresses of its own led below our path."""
        root, body = self.server.gate.root, answer.body
        known = {name: value for name in _RETURNED if (value := answer.headers.get(name))}
        if known.get("Location", "").startswith("/"):
            known["Location"] = root + known["Location"]
        if known.get("Content-Type", "").startswith("text/html"):
            body = _ADDRESS.sub(rb'\1="%b/' % root.encode(), body)
        self._reply(answer.status, known, body)

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
