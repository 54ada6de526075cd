"""boto3 against servers that never come to an end, and against name servers that change their minds."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError, HTTPClientError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

from stepbench.wire.http1 import boto
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
TABLES = b'{"TableNames": ["t"]}'
GOOD = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(TABLES) + TABLES
PIECE_S = 0.02
"""Much less than the time-out of each receipt, which is therefore never reached."""
QUICK = {"connect_timeout": 0.5, "read_timeout": 0.5, "retries": {"total_max_attempts": 1}}


class Server:
    """Answers each connection's first request with pieces, one each `PIECE_S`, until it is left."""

    def __init__(self, pieces: Callable[[], Iterable[bytes]]) -> None:
        self.requests: list[bytes] = []
        self._pieces = pieces
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        """End all that is under way."""
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._answer, args=(connected,)))
            self._threads[-1].start()

    def _answer(self, connected: socket.socket) -> None:
        with connected:
            self.requests.append(connected.recv(65_536))
            for piece in self._pieces():
                try:
                    connected.sendall(piece)
                except OSError:
                    return
                if self._over.wait(PIECE_S):
                    return


@contextmanager
def serving(*begin: bytes, then: bytes = b"") -> Iterator[Server]:
    """Serve an answer that begins so, and goes on for ever if there is `then`."""

    def pieces() -> Iterator[bytes]:
        yield from begin
        if then:
            yield from repeat(then)

    server = Server(pieces)
    try:
        yield server
    finally:
        server.close()


def client(service: str, port: int, host: str = "127.0.0.1", **config: Any) -> Any:  # noqa: ANN401 -- boto3's
    """Return a bounded client of a server."""
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    given = Config(**{**QUICK, **config}, s3={"addressing_style": "path"})
    made: Any = boto3.client(service, endpoint_url=f"http://{host}:{port}", config=given, **keys)  # type: ignore[call-overload]
    return bounded_client(made, most_bytes=1_000_000)


@pytest.mark.parametrize(
    ("begin", "then"),
    [
        (HEAD + b"X-A: ", b"a"),
        (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (HEAD + b"\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["head", "body", "body without a length", "chunks"],
)
def test_an_answer_that_drips_ends_with_the_call(begin: bytes, then: bytes) -> None:
    """One byte in two seconds held PrepareTarget for its 15 minutes, twice: each receipt was in time."""
    with serving(begin, then=then) as server, pytest.raises(ReadTimeoutError, match=r"127\.0\.0\.1"):
        client("dynamodb", server.port).list_tables()


def test_an_answer_without_end_is_left_at_its_limit() -> None:
    """A function's memory is smaller than what a server can send in time."""
    with serving(HEAD + b"\r\n", then=b" " * 600_000) as server, pytest.raises(HTTPClientError, match="1,000,000"):
        client("dynamodb", server.port, read_timeout=60).list_tables()


def test_a_stream_that_drips_ends_with_its_reading() -> None:
    """What looks like its end is none: the file would be taken for a shorter one."""
    with serving(HEAD + b"\r\n", then=b"x") as server:
        body = client("s3", server.port).get_object(Bucket="bucket", Key="key")["Body"]
        with pytest.raises(ReadTimeoutError):
            body.read()


def test_a_refusal_that_drips_ends_with_the_call() -> None:
    """Of an operation whose answer is a stream botocore reads it whole, without an end."""
    bad = HEAD.replace(b"200 OK", b"400 Bad Request")
    with serving(bad + b"\r\n", then=b"x") as server, pytest.raises(ReadTimeoutError):
        client("s3", server.port).get_object(Bucket="bucket", Key="key")


def test_a_slow_line_that_goes_on_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file over a slow line takes longer than any one answer may."""
    monkeypatch.setattr(boto, "_PIECE_BYTES", 10)
    letters = [bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz" * 5]
    with serving(HEAD + b"Content-Length: %d\r\n\r\n" % len(letters), *letters) as server:
        body = client("s3", server.port).get_object(Bucket="bucket", Key="key")["Body"]
        assert body.read() == b"".join(letters)


@pytest.mark.parametrize("of_body", ["Content-Length", "X-Amz-Decoded-Content-Length"])
def test_a_payload_has_its_own_time(monkeypatch: pytest.MonkeyPatch, of_body: str) -> None:
    """Over HTTPS botocore sends it in chunks, and says how long it is in another place."""
    request = AWSRequest("PUT", "http://127.0.0.1:9/", headers={of_body: str(2**20)}).prepare()
    seen: list[float] = []

    @contextmanager
    def noting(limit_s: float) -> Iterator[None]:
        seen.append(limit_s)
        raise ConnectionRefusedError
        yield

    session: Any = URLLib3Session()
    monkeypatch.setattr(boto, "within", noting)
    with pytest.raises(ConnectionRefusedError):
        boto.WholeSession(session, 1.0).send(request)
    assert seen == [33.0]


def test_a_name_without_an_address_is_told_as_one() -> None:
    """A wrong region reads like a server that hung up otherwise."""
    with pytest.raises(EndpointConnectionError):
        client("dynamodb", 9, host="nonexistent.invalid").list_tables()


def test_answers_and_streams_that_end_are_whole() -> None:
    """What comes in pieces is whole all the same."""
    with serving(GOOD) as server:
        made = client("dynamodb", server.port)
        assert [made.list_tables()["TableNames"] for _ in range(2)] == [["t"], ["t"]]
    with serving(HEAD + b"Content-Length: 6\r\n\r\n", b"dig", b"its") as server:
        answer = client("s3", server.port).get_object(Bucket="bucket", Key="key")
        assert (answer["Body"].read(2), answer["Body"].read()) == (b"di", b"gits")


class NameServer:
    """Knows `store.test`; all else is looked up as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.asked = 0
        self._answers = answers
        self._look_up = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:  # noqa: ANN401 -- the library's
        """Return the next answer; the last one, if there is no other."""
        if host != "store.test":
            return [*self._look_up(host, port, *args, **kwargs)]
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


def test_a_name_is_resolved_once_and_what_was_judged_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers otherwise the second time would have the signed request led to the metadata."""
    names = NameServer(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    with serving(GOOD) as server:
        client("dynamodb", server.port, "store.test").list_tables()
        assert f"\r\nHost: store.test:{server.port}\r\n".encode() in server.requests[0]
    assert names.asked == 1


@pytest.mark.parametrize("addresses", [["169.254.169.254"], ["127.0.0.1", "::ffff:0:a9fe:a9fe"]])
def test_a_name_with_a_forbidden_address_is_not_connected_to(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its addresses comes first."""
    NameServer(monkeypatch, addresses)
    with serving(GOOD) as server:
        with pytest.raises(HTTPClientError, match=r"store\.test is the link-local or metadata address"):
            client("dynamodb", server.port, "store.test").list_tables()
        assert server.requests == []


def test_an_address_at_which_nobody_answers_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boto3 does it by itself: S3 has eight."""
    NameServer(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    with serving(GOOD) as server:
        assert client("dynamodb", server.port, "store.test").list_tables()["TableNames"] == ["t"]
