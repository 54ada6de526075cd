"""
One signed request after the other to one AWS service, blocking, out of the standard library alone.

For a process that starts often and asks little: to import boto3 and to make its clients takes more CPU than some
hundred invocations of a receiver. Requests are repeated as boto3's standard mode repeats them, so each has to be one
that may arrive twice.
"""

from __future__ import annotations

import random
import re
import select
import socket
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.wire.http1 import (
    MAX_ANSWER_BYTES,
    HttpAnswer,
    MalformedHttpError,
    parse_answer,
    parse_head,
)
from stepbench.wire.http1.sigv4 import Credentials, Form, Signer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    FindProblem = Callable[[str, Iterable[str]], str | None]

DEFAULT_PORTS = {"http": 80, "https": 443}
_RECEIVE_BYTES = 65_536
IDLE_S = 10.0
"""What has rested longer may be dead without a sign: a frozen sandbox answers nothing, and balancers forget."""
_SUCCESSES = range(200, 300)
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, range(500, 600)
_CODE = re.compile(rb'"__type"\s*:\s*"(?:[\w.]*#)?([\w.]{1,64})"|<Code>([\w.]{1,64})</Code>')
_PASSING = re.compile(r"Throttl|Exceeded|SlowDown|RequestTimeout")
"""What codes of refusals have in common that the next attempt may not meet."""


class RequestFailedError(Exception):
    """The service refused, or did not answer; says which, and after how many attempts."""


class RetryLimits(NamedTuple):
    """
    How often and how long to try; between attempts there are up to 1 s, 2 s, 4 s, at random.

    connect_s: for one address, and again for its handshake. answer_s: from the request's first byte to the answer's
    last. whole_s: for all attempts together. Only the look-up of a name, which nothing in the standard library can
    interrupt, may go beyond it, by what `RES_OPTIONS` in the process's environment grants the system's resolver.
    """

    attempts: int = 3
    connect_s: float = 2.0
    answer_s: float = 5.0
    whole_s: float = 15.0


class BlockingClient:
    """
    A client of one service; keeps its connection.

    Not for several threads at once. After a failure on a kept connection there is no pause: it is not the service's.

    Args:
        service: as signatures spell it.
        region: likewise.
        url: `http://` or `https://` and a host; a path is ignored.
        credentials: to sign with; they do not change as long as the process lives.
        retry: how long to try.
        begun_s: the `time.monotonic` from which `whole_s` counts, for all requests since then together; None: each
            request has the whole of it.
        authorities: PEM file of the authorities to trust; None: the system's.
        sleep: between attempts.
    """

    def __init__(  # noqa: PLR0913 -- what a connection takes
        self,
        service: str,
        region: str,
        url: str,
        credentials: Credentials,
        retry: RetryLimits,
        *,
        begun_s: Callable[[], float] | None = None,
        authorities: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._socket: socket.socket | None = None
        self._used_s = 0.0
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = parts.scheme == "https"
        self._port = parts.port or DEFAULT_PORTS[parts.scheme]
        self._authority = parts.netloc if parts.port else self._host
        self._signer = Signer(service, region, self._authority)
        self._credentials = credentials
        self._retry = retry
        self._begun_s = begun_s
        self._authorities = authorities
        self._sleep = sleep

    def send(self, form: Form, path: str, body: bytes, most_bytes: int = MAX_ANSWER_BYTES) -> HttpAnswer:
        """
        Send a request until it has succeeded; `path` is percent-encoded. `most_bytes`: larger answers are refused.

        Raises:
            RequestFailedError: it has not, and has been tried as often and as long as it may.
        """
        until_s = self._retry.whole_s + (time.monotonic() if self._begun_s is None else self._begun_s())
        problem, attempt, pause_s = "no time is left", 0, 0.0
        while attempt < self._retry.attempts and time.monotonic() + pause_s < until_s:
            if pause_s:
                self._sleep(pause_s)
            pause_s = random.random() * 2**attempt  # noqa: S311 -- no secret
            attempt += 1
            kept = self._keeps_connection()
            try:
                signed = self._signer.signed(form, path, body, self._credentials, time.time_ns())
                answer = self._exchange(signed, until_s, most_bytes)
            except (OSError, MalformedHttpError) as error:
                self.close()
                problem = str(error) or type(error).__name__
                pause_s = 0.0 if kept else pause_s
                continue
            if answer.status in _SUCCESSES:
                return answer
            code = error_code(answer.body)
            problem = f"HTTP {answer.status} {code}".rstrip()
            if not _passes(answer.status, code):
                break
        message = f"{self._authority}: {problem} (attempt {attempt})"
        raise RequestFailedError(message)

    def close(self) -> None:
        """End the connection; the next request makes another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        """Close: nothing announces the end of a sandbox."""
        self.close()

    def _exchange(self, data: bytes, until_s: float, most_bytes: int) -> HttpAnswer:
        if self._socket is None:
            self._socket = self._connect(until_s)
        connection = self._socket
        until_s = min(until_s, time.monotonic() + self._retry.answer_s)
        connection.settimeout(_left_s(until_s))
        connection.sendall(data)
        received, answer, whole_bytes = bytearray(), None, 0
        while answer is None:
            connection.settimeout(_left_s(until_s))
            more = connection.recv(_RECEIVE_BYTES)
            received += more
            if more and len(received) < whole_bytes <= most_bytes:
                continue  # a large one is not looked at again and again
            answer = parse_answer(bytes(received), closed=not more, most_bytes=most_bytes)
            if answer is None and not whole_bytes and (head := parse_head(bytes(received))) is not None:
                whole_bytes = head.body_at + (head.length or 0)
        self._used_s = time.time()
        if not answer.reusable:
            self.close()
        return answer

    def _keeps_connection(self) -> bool:
        """Check whether the last request's connection may be used; end one that has ended, or has rested long."""
        if self._socket is None:
            return False
        rested_s = time.time() - self._used_s  # the other clock may stand still with the sandbox
        if 0 <= rested_s <= IDLE_S and not _has_something_to_say(self._socket):
            return True
        self.close()
        return False

    def _connect(self, until_s: float) -> socket.socket:
        def limit_s() -> float:
            return min(self._retry.connect_s, _left_s(until_s))

        connection = dial(self._host, self._port, limit_s)
        if not self._tls:
            return connection
        import ssl  # noqa: PLC0415 -- 30 ms with the system's authorities, which no cold start has to wait for

        connection.settimeout(limit_s())
        return secure(connection, self._host, ssl.create_default_context(cafile=self._authorities))


def dial(
    host: str, port: int, limit_s: Callable[[], float], problem_of: FindProblem = lambda _host, _addresses: None
) -> socket.socket:
    """
    Connect as `socket.create_connection`, which would give each of S3's eight addresses its time.

    Args:
        host: a name or an address.
        port: of TCP.
        limit_s: for the next address, in seconds.
        problem_of: returns why a host with its numeric addresses may not be connected to; None: it may.

    Raises:
        OSError: the last address's problem, or one of them is never to be asked.
    """
    problem = OSError("the name has no address")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if reason := problem_of(host, (str(address[0]) for *_, address in found)):
        raise ConnectionRefusedError(reason)
    for *kind, _, address in found:
        connection = socket.socket(*kind)
        try:
            connection.settimeout(limit_s())
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem


def secure(connection: socket.socket, host: str, context: ssl.SSLContext) -> socket.socket:
    """Return the connection with TLS, or close it and raise OSError."""
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError:
        connection.close()
        raise


def _left_s(until_s: float) -> float:
    """Return what is left as a socket's time limit, for which 0 would mean not to wait at all."""
    return max(until_s - time.monotonic(), 0.001)


def _has_something_to_say(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def error_code(body: bytes) -> str:
    """Return the service's own code, as DynamoDB and S3 spell it; "" if there is none."""
    found = _CODE.search(body)
    return (found[1] or found[2]).decode() if found else ""


def _passes(status: int, code: str) -> bool:
    return status in _SERVER_ERRORS or status == _TOO_MANY_REQUESTS or _PASSING.search(code) is not None
