"""The blocking client against a server on loopback that answers what a test wants."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.samples.lambda_api import Invocation, LambdaApi, lambda_api

from stepbench.wire.http1 import blocking
from stepbench.wire.http1.blocking import IDLE_S, BlockingClient, RequestFailedError, RetryLimits
from stepbench.wire.http1.sigv4 import Credentials, Form
from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import ReadableBuffer

    from stepbench_tools.local.stores.certificates import Certificates

FORM = Form("POST", (("x-amz-target", "DynamoDB_20120810.PutItem"),))
WHO = Credentials("access", "secret", "session")
RETRY = RetryLimits(attempts=3, connect_s=2, answer_s=0.2)
THROTTLED = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}'


def response(status: int, body: bytes = b"{}", head: str = "") -> bytes:
    """An HTTP answer."""
    return f"HTTP/1.1 {status} X\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Scene:
    """A client, its server, and how long the client has slept."""

    def __init__(self, server: LambdaApi) -> None:
        self.server = server
        self.slept_s: list[float] = []
        self.client = BlockingClient(
            "dynamodb", "us-east-1", f"http://{server.endpoint}", WHO, RETRY, sleep=self.slept_s.append
        )

    def send(self, body: bytes = b"body") -> bytes:
        """One request."""
        return self.client.send(FORM, "/", body).body

    def answers(self, *each: bytes | None) -> None:
        """What the server says, one after the other, and then 200."""
        left = list(each)
        self.server.answer = lambda _: left.pop(0) if left else response(200)


class Clocks:
    """The client's, which stand still unless they are set."""

    def __init__(self) -> None:
        self.wall_s = 1_800_000_000.0
        self.monotonic_s = 100.0

    def time(self) -> float:
        """Stand for `time.time`."""
        return self.wall_s

    def time_ns(self) -> int:
        """Stand for `time.time_ns`."""
        return round(self.wall_s * 1e9)

    def monotonic(self) -> float:
        """Stand for `time.monotonic`."""
        return self.monotonic_s


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Instead of the module `time`."""
    made = Clocks()
    monkeypatch.setattr(blocking, "time", made)
    return made


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Closed at the end, so that no socket is left."""
    with lambda_api() as server:
        made = Scene(server)
        made.answers()
        yield made
        made.client.close()


def test_a_request_is_signed_and_its_connection_kept(scene: Scene) -> None:
    """A handshake for each item would be most of an invocation."""
    assert [scene.send(), scene.send()] == [b"{}", b"{}"]
    asked = scene.server.invocations
    assert {(each.body, each.connection, each.headers["x-amz-security-token"]) for each in asked} == {
        (b"body", 0, "session")
    }
    assert "Credential=access/" in asked[0].headers["authorization"]
    assert asked[0].headers["host"] == scene.server.endpoint


@pytest.mark.parametrize(
    "first",
    [response(500), response(503), response(429), response(400, THROTTLED), None, b"junk\r\n\r\n", b"HTTP/1.1 2"],
)
def test_what_may_pass_is_tried_again_after_a_pause(scene: Scene, first: bytes | None) -> None:
    """Each item is the only record of its arrivals."""
    scene.answers(first)
    assert scene.send() == b"{}"
    assert len(scene.server.invocations) == 2
    assert len(scene.slept_s) == 1
    assert 0 <= scene.slept_s[0] <= 1


def test_a_third_failure_is_the_last_and_is_named(scene: Scene) -> None:
    """The bucket has its turn within the function's time-out."""
    scene.answers(*[response(400, THROTTLED)] * 9)
    with pytest.raises(RequestFailedError, match=r"ProvisionedThroughputExceededException \(attempt 3\)"):
        scene.send()
    assert len(scene.server.invocations) == 3
    assert scene.slept_s[1] <= 2


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, b'{"__type":"x#ValidationException"}', "HTTP 400 ValidationException"),
        (404, b"<Error><Code>NoSuchBucket</Code></Error>", "HTTP 404 NoSuchBucket"),
        (403, b"", r"HTTP 403 \("),
    ],
)
def test_a_refusal_that_will_not_pass_is_not_tried_again(scene: Scene, status: int, body: bytes, message: str) -> None:
    """It would only take time."""
    scene.answers(response(status, body))
    with pytest.raises(RequestFailedError, match=message):
        scene.send()
    assert len(scene.server.invocations) == 1


def test_a_large_answer_is_read_whole_where_one_is_expected(scene: Scene) -> None:
    """A DAG's input is a video; elsewhere an answer that does not end is no reason to fill the memory."""
    video = bytes(range(256)) * 8_192
    scene.answers(response(200, video), response(200, video), response(200, video), response(200, video))
    assert scene.client.send(FORM, "/", b"", most_bytes=2 * len(video)).body == video
    with pytest.raises(RequestFailedError, match="oversized-answer"):
        scene.send()


def test_a_connection_that_ended_meanwhile_costs_no_attempt(scene: Scene) -> None:
    """A sandbox stands still between invocations, and servers close what is idle."""
    scene.send()
    scene.server.hang_up()
    assert scene.send() == b"{}"
    assert [each.connection for each in scene.server.invocations] == [0, 1]
    assert scene.slept_s == []


def test_a_connection_that_dies_while_it_is_used_again_costs_no_pause(scene: Scene) -> None:
    """It says nothing of the service; the sandbox may have stood still for an hour. What a new one says, does."""
    scene.answers(response(200), None, response(500))
    scene.send()
    scene.send()
    assert [each.connection for each in scene.server.invocations] == [0, 0, 1, 1]
    assert len(scene.slept_s) == 1


@pytest.mark.parametrize(("rested_s", "connections"), [(IDLE_S, [0, 0]), (IDLE_S + 1, [0, 1]), (-1, [0, 1])])
def test_a_connection_that_has_rested_long_is_not_used_again(
    scene: Scene, clocks: Clocks, rested_s: float, connections: list[int]
) -> None:
    """A balancer may have forgotten it without a word, and five seconds would pass before that is known."""
    scene.send()
    clocks.wall_s += rested_s
    scene.send()
    assert [each.connection for each in scene.server.invocations] == connections


def test_all_attempts_together_have_a_limit(scene: Scene, clocks: Clocks) -> None:
    """The bucket has its turn within the function's time-out, however long each failure takes."""

    def refuse(_: Invocation) -> bytes:
        clocks.monotonic_s += 8
        return response(500)

    scene.server.answer = refuse
    with pytest.raises(RequestFailedError, match=r"HTTP 500 \(attempt 2\)"):
        scene.send()


def test_all_requests_since_a_moment_have_a_limit_together(scene: Scene, clocks: Clocks) -> None:
    """A batch of many trials takes many requests, and its function has no more time than for one."""
    begun_s = clocks.monotonic_s
    retry = RETRY._replace(whole_s=15)
    url = f"http://{scene.server.endpoint}"
    with closing(BlockingClient("s3", "us-east-1", url, WHO, retry, begun_s=lambda: begun_s)) as client:
        client.send(FORM, "/", b"")
        clocks.monotonic_s += 15
        with pytest.raises(RequestFailedError, match=r"no time is left \(attempt 0\)"):
            client.send(FORM, "/", b"")
        begun_s = clocks.monotonic_s
        client.send(FORM, "/", b"")
    assert len(scene.server.invocations) == 2


def test_many_addresses_share_the_limit(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 has eight: at two seconds each, and three attempts, nobody would be alive to ask the ninth."""
    limits_s: list[float] = []

    class Nowhere(socket.socket):
        """Whatever is sent gets lost."""

        def connect(self, _address: object) -> None:
            limits_s.append(self.gettimeout() or 0)
            clocks.monotonic_s += limits_s[-1]
            raise TimeoutError

    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{host}", 443)) for host in range(8)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    monkeypatch.setattr(socket, "socket", Nowhere)
    client = BlockingClient("s3", "us-east-1", "http://s3", WHO, RetryLimits(3, 2, 5, 15), sleep=lambda _: None)
    with pytest.raises(RequestFailedError, match="TimeoutError"):
        client.send(FORM, "/", b"")
    assert limits_s[:7] == [2] * 7
    assert sum(limits_s) == pytest.approx(15, abs=0.1)


def test_an_answer_s_limit_begins_with_the_request(
    scene: Scene, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receive that had the whole of it after a slow send would double it."""
    limits_s: list[float] = []

    class Slow(socket.socket):
        """Takes half the time to send; the server's, which has no limit, does not."""

        def sendall(self, data: ReadableBuffer, *_: object) -> None:
            clocks.monotonic_s += 0 if self.gettimeout() is None else RETRY.answer_s / 2
            super().sendall(data)

        def recv(self, *most: int) -> bytes:
            limit_s = self.gettimeout()
            limits_s.extend([] if limit_s is None else [limit_s])
            return super().recv(*most)

    monkeypatch.setattr(socket, "socket", Slow)
    scene.send()
    assert limits_s == [pytest.approx(RETRY.answer_s / 2, abs=0.001)]


def test_a_connection_that_the_server_will_close_is_not_used_again(scene: Scene) -> None:
    """The next request would cross its end."""
    scene.answers(response(200, head="Connection: close\r\n"))
    scene.send()
    scene.send()
    assert [each.connection for each in scene.server.invocations] == [0, 1]


def test_an_answer_that_does_not_come_is_not_awaited_for_ever(scene: Scene) -> None:
    """Nor is a late one taken for that of another request: its connection is gone."""
    hold = threading.Event()

    def late(asked: Invocation) -> bytes:
        if asked.connection == 0:
            hold.wait(10)
            return response(200, b"late")
        return response(200, b"in time")

    scene.server.answer = late
    try:
        assert scene.send() == b"in time"
    finally:
        hold.set()
    assert scene.send() == b"in time"


def test_a_server_that_is_not_there_is_named() -> None:
    """The reader of the log has this line only."""
    with lambda_api() as server:
        endpoint = server.endpoint
    client = BlockingClient("s3", "us-east-1", f"http://{endpoint}", WHO, RETRY, sleep=lambda _: None)
    with pytest.raises(RequestFailedError, match=endpoint):
        client.send(FORM, "/", b"")


def test_an_answer_in_pieces_is_one(scene: Scene) -> None:
    """TCP knows no messages."""
    body = b"x" * 50_000
    scene.answers(response(200, body))
    assert scene.send() == body


@contextmanager
def tls_server(certificates: Certificates) -> Iterator[str]:
    """Answers one request on each of two connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            with suppress(OSError), closing(context.wrap_socket(listener.accept()[0], server_side=True)) as connection:
                connection.recv(65_536)
                connection.sendall(response(200, b"by TLS"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        served = threading.Thread(target=serve, args=(listener,), daemon=True)
        served.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        served.join(10)


def test_tls_is_spoken_and_the_authority_looked_at(tmp_path: Path) -> None:
    """On AWS nothing else is spoken, and whoever answered instead would get what we know."""
    right, wrong = make_certificates(tmp_path / "right"), make_certificates(tmp_path / "wrong")
    with tls_server(right) as url:
        made = {
            authority: BlockingClient("s3", "us-east-1", url, WHO, RetryLimits(1, 5, 5), authorities=str(authority))
            for authority in (right.authority, wrong.authority)
        }
        assert made[right.authority].send(FORM, "/", b"").body == b"by TLS"
        with pytest.raises(RequestFailedError, match="CERTIFICATE_VERIFY_FAILED"):
            made[wrong.authority].send(FORM, "/", b"")
        made[right.authority].close()
