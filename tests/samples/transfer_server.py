"""A server on loopback that plays results table, results bucket and bucket of files, and misbehaves as it is told."""

from __future__ import annotations

import json
import socket
import struct
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from stepbench.records.storage import layout

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    Answer = Callable[["Exchange"], None]

BUCKET = "files"


class Exchange(BaseHTTPRequestHandler):
    """One request, and what an answer is made with."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer as the server was told for this key, or with the object, or a range of it."""
        key = self.path.removeprefix(f"/{BUCKET}/")
        self.server.requests.append(dict(self.headers.items()))
        self.server.answers.get(key, whole)(self)

    def do_PUT(self) -> None:
        """Take an object of the results bucket, unless refusals are left."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.refusals:
            self.reply(self.server.refusals.pop(0), b"<Error><Code>Refused</Code></Error>")
            return
        self.server.stored[self.path.partition("/results/")[2]] = body
        self.reply(200)

    def do_POST(self) -> None:
        """Play the results table."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["x-amz-target"].endswith("PutItem"):
            self.server.items.append(asked["Item"])
            self.reply(200, b"{}")
            return
        is_set = self.server.cancelled.is_set() and asked["Key"]["sk"]["S"] == layout.CANCELLED
        self.reply(200, b'{"Item": {"reason": {"S": "by a test"}}}' if is_set else b"{}")

    def reply(self, status: int, body: bytes = b"") -> None:
        """Answer with a whole body."""
        self.begin(status, len(body))
        self.wfile.write(body)

    def begin(self, status: int, length: int) -> None:
        """Send a head."""
        self.send_response(status)
        self.send_header("content-length", str(length))
        self.end_headers()

    @property
    def status(self) -> int:
        """Return that of a whole file, or of a range."""
        return 206 if "range" in self.headers else 200

    def asked_bytes(self) -> bytes:
        """Return what the request asks for of its object."""
        found = self.server.objects[self.path.removeprefix(f"/{BUCKET}/")]
        if "range" not in self.headers:
            return found
        first, last = map(int, self.headers["range"].removeprefix("bytes=").split("-"))
        return found[first : last + 1]

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """
    What was stored and asked, and what is answered.

    objects: of the bucket of files. answers: in their place, by key. refusals: statuses for the next rows. cancelled:
    whether the trial is.
    """

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self._scheme = "https" if context else "http"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.objects: dict[str, bytes] = {}
        self.answers: dict[str, Answer] = {}
        self.stored: dict[str, bytes] = {}
        self.items: list[dict[str, Any]] = []
        self.requests: list[dict[str, str]] = []
        self.refusals: list[int] = []
        self.cancelled = threading.Event()
        self.released = threading.Event()
        """Set at the end: stalled answers go away."""

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, or https."""
        return f"{self._scheme}://127.0.0.1:{self.server_port}"

    @property
    def environ(self) -> dict[str, str]:
        """Return a function's environment, in which all of AWS is this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "access",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-west-1",
            "RESULTS_TABLE": "table",
            "RESULTS_BUCKET": "results",
        }

    def handle_error(self, *_: object) -> None:
        """Print nothing: clients leave as they like."""


def whole(exchange: Exchange) -> None:
    """Answer as S3 does."""
    key = exchange.path.removeprefix(f"/{BUCKET}/")
    if key not in exchange.server.objects:
        exchange.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return
    exchange.reply(exchange.status, exchange.asked_bytes())


def refusal(status: int, code: str) -> Answer:
    """Answer with an error, as S3 writes it."""
    return lambda exchange: exchange.reply(status, f"<Error><Code>{code}</Code></Error>".encode())


def of_length(length: int) -> Answer:
    """Announce, and send, another length than the object's."""
    return lambda exchange: exchange.reply(200, bytes(length))


def truncated(share: float) -> Answer:
    """Close in the middle of the body."""

    def answer(exchange: Exchange) -> None:
        body = exchange.asked_bytes()
        exchange.begin(exchange.status, len(body))
        exchange.wfile.write(body[: round(len(body) * share)])
        exchange.close_connection = True

    return answer


def reset(share: float) -> Answer:
    """Reset the connection in the middle of the body."""

    def answer(exchange: Exchange) -> None:
        truncated(share)(exchange)
        exchange.wfile.flush()
        exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        exchange.connection.close()

    return answer


def stalled(share: float, meanwhile: Callable[[], object] = lambda: None) -> Answer:
    """Send no more from the middle of the body on."""

    def answer(exchange: Exchange) -> None:
        body = exchange.asked_bytes()
        exchange.begin(exchange.status, len(body))
        exchange.wfile.write(body[: round(len(body) * share)])
        meanwhile()
        exchange.server.released.wait(60)
        exchange.close_connection = True

    return answer


def raw(data: bytes) -> Answer:
    """Answer with these bytes, and close."""

    def answer(exchange: Exchange) -> None:
        exchange.wfile.write(data)
        exchange.close_connection = True

    return answer


@contextmanager
def transfer_server(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server for the block; with a context it speaks TLS."""
    server = Server(context)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
