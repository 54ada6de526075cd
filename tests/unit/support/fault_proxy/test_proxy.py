"""Each fault on loopback, seen from both sides; which requests it happens to, and where these begin and end."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.samples.lambda_api import LambdaApi, lambda_api
from tests.samples.ports import silent_port
from tests.support.fault_proxy import (
    LAMBDA_TOO_MANY,
    Chooser,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultProxy,
    Framing,
    Limit,
    Replace,
    Rule,
    Throttle,
    fault_proxy,
    http1,
    http2,
    plain,
    postgresql,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fault_proxy import Piece


LIMIT_S = 60
REQUEST = b"POST /put HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
EXPECTING = b"POST /put HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def server() -> Iterator[LambdaApi]:
    """Answers, and remembers what it was asked."""
    with lambda_api() as api:
        api.answer = lambda _: ANSWER
        yield api


@pytest.fixture
def proxy(server: LambdaApi) -> Iterator[FaultProxy]:
    """In front of it."""
    with fault_proxy(server.endpoint, http1) as proxy:
        yield proxy


@contextmanager
def connected(proxy: FaultProxy) -> Iterator[socket.socket]:
    """A client."""
    host, _, port = proxy.endpoint.partition(":")
    with closing(socket.create_connection((host, int(port)), timeout=LIMIT_S)) as client:
        yield client


def receive(client: socket.socket, count: int = len(ANSWER)) -> bytes:
    """So many bytes, or fewer if the connection ends in order before."""
    got = b""
    while len(got) < count and (more := client.recv(count - len(got))):
        got += more
    return got


def ask(client: socket.socket) -> bytes:
    """One request, one answer."""
    client.sendall(REQUEST)
    return receive(client)


def test_without_rules_everything_passes(proxy: FaultProxy, server: LambdaApi) -> None:
    """The proxy stands in front of every test's store also while nothing is to fail."""
    with connected(proxy) as client:
        assert [ask(client) for _ in range(3)] == [ANSWER] * 3
    assert [each.body for each in server.invocations] == [b"body"] * 3
    stats = proxy.stats()
    assert (stats.connections, stats.requests, stats.forwarded, stats.answered, stats.faults) == (1, 3, 3, 3, {})


def test_a_throttled_request_never_reaches_the_server_and_the_connection_stays(
    proxy: FaultProxy, server: LambdaApi
) -> None:
    """As services do it: the next request on the same connection is served."""
    proxy.follow(Rule(Throttle(LAMBDA_TOO_MANY), times=1))
    with connected(proxy) as client:
        client.sendall(REQUEST)
        assert receive(client, len(LAMBDA_TOO_MANY)) == LAMBDA_TOO_MANY
        assert ask(client) == ANSWER
    assert len(server.invocations) == 1
    assert proxy.stats()._replace(connections=0) == (0, 2, 1, 2, {"throttle": 1})


def test_a_client_that_waits_to_be_told_to_go_on_is_told_so_by_the_proxy(proxy: FaultProxy) -> None:
    """Boto3 sends S3 bodies so; it would otherwise wait a second in each throttled put."""
    proxy.follow(Rule(Throttle(LAMBDA_TOO_MANY)))
    with connected(proxy) as client:
        client.sendall(EXPECTING)
        assert receive(client, 25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert receive(client, len(LAMBDA_TOO_MANY)) == LAMBDA_TOO_MANY


def test_a_duplicated_request_reaches_the_server_twice_and_is_answered_once(
    proxy: FaultProxy, server: LambdaApi
) -> None:
    """A second answer would be taken for the one to the next request."""
    proxy.follow(Rule(Duplicate(), times=1))
    with connected(proxy) as client:
        assert [ask(client), ask(client)] == [ANSWER, ANSWER]
    assert [each.body for each in server.invocations] == [b"body"] * 3
    assert proxy.stats()._replace(connections=0) == (0, 2, 3, 2, {"duplicate": 1})


@pytest.mark.parametrize(
    ("fault", "requests", "answer"),
    [
        (Cut("before-request", "fin"), 0, b""),
        (Cut("in-request", "fin", after_bytes=10), 0, b""),
        (Cut("in-request", "fin", after_bytes=10_000), 1, b""),
        (Cut("before-answer", "fin"), 1, b""),
        (Cut("in-answer", "fin", after_bytes=9), 1, ANSWER[:9]),
        (Cut("in-answer", "fin", after_bytes=len(ANSWER) - 1), 1, ANSWER[:-1]),
    ],
)
def test_a_closed_connection_ends_in_order_where_it_was_cut(
    proxy: FaultProxy, server: LambdaApi, fault: Fault, requests: int, answer: bytes
) -> None:
    """The client reads an end, and the server has seen a whole request or none."""
    proxy.follow(Rule(fault))
    with connected(proxy) as client:
        assert ask(client) == answer
        assert client.recv(1) == b""
    proxy.await_idle(LIMIT_S)
    _until(lambda: len(server.invocations) == requests)
    assert proxy.stats().faults == {fault.name: 1}


@pytest.mark.parametrize("at", ["before-request", "in-request", "before-answer", "in-answer"])
def test_a_reset_connection_is_an_error_to_the_client(proxy: FaultProxy, at: str) -> None:
    """A reset and a close are different errors, and drivers name them apart."""
    proxy.follow(Rule(Cut(at)))  # type: ignore[arg-type]
    with connected(proxy) as client:
        client.sendall(REQUEST)
        with pytest.raises(ConnectionResetError):
            receive(client)
    proxy.await_idle(LIMIT_S)


@pytest.mark.parametrize(("part", "requests"), [("request", 0), ("answer", 2)])
def test_a_black_hole_keeps_the_connection_open(proxy: FaultProxy, server: LambdaApi, part: str, requests: int) -> None:
    """Only the client's own time-out helps; a second request on the connection shares the first one's fate."""
    proxy.follow(Rule(Drop(part), times=1))  # type: ignore[arg-type]
    with connected(proxy) as client:
        client.settimeout(0.1)
        for _ in range(2):
            client.sendall(REQUEST)
            with pytest.raises(TimeoutError):
                client.recv(1)
        server.hang_up()  # nor does it hear of the server's end
        with pytest.raises(TimeoutError):
            client.recv(1)
    _until(lambda: len(server.invocations) == requests)
    assert proxy.stats().faults == {f"drop {part}": 1}


@pytest.mark.parametrize("fault", [Delay(request_s=0.2), Delay(answer_s=0.2), Limit(bytes_per_s=500)])
def test_a_slow_connection_carries_everything_late(proxy: FaultProxy, fault: Fault) -> None:
    """The lower bound is the fault's own; an upper one would be the machine's."""
    proxy.follow(Rule(fault, times=1))
    with connected(proxy) as client:
        started = time.monotonic()
        assert ask(client) == ANSWER
        assert time.monotonic() - started > 0.15
        assert ask(client) == ANSWER


@pytest.mark.parametrize(
    ("fault", "answer", "asked"),
    [
        (Replace("answer", b"ok", b"no"), ANSWER[:-2] + b"no", REQUEST),
        (Replace("request", b"body", b"else"), ANSWER, REQUEST[:-4] + b"else"),
    ],
)
def test_bytes_are_replaced_and_counted_where_they_are(
    proxy: FaultProxy, server: LambdaApi, fault: Replace, answer: bytes, asked: bytes
) -> None:
    """A test compares the number of wrong values that were found with it."""
    proxy.follow(Rule(fault))
    with connected(proxy) as client:
        assert [ask(client), ask(client)] == [answer] * 2
        assert proxy.stats().faults == {fault.name: 2}
        proxy.follow(Rule(Replace(fault.part, b"elsewhere", b"somewhere")))
        assert ask(client) == ANSWER
    assert proxy.stats().faults == {fault.name: 2}
    assert [each.body for each in server.invocations] == [asked[-4:], asked[-4:], b"body"]


def test_bytes_of_another_length_are_refused() -> None:
    """What says how long things are would no longer be so."""
    with pytest.raises(ValueError, match="one length"):
        Replace("answer", b"long", b"short")


def test_what_is_open_can_be_stalled_cut_and_black_holed_at_once(proxy: FaultProxy) -> None:
    """For streams such as a watch, where no new request comes that a rule could meet."""
    with connected(proxy) as client, connected(proxy) as other:
        assert [ask(client), ask(other)] == [ANSWER, ANSWER]
        assert proxy.stall() == 2
        client.sendall(REQUEST)
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.resume()
        client.settimeout(LIMIT_S)
        assert receive(client) == ANSWER
        assert proxy.black_hole() == 2
        client.sendall(REQUEST)
        assert proxy.cut("fin") == 2
        assert client.recv(1) == b""
        assert proxy.cut() == 2
        with suppress(ConnectionResetError):
            assert other.recv(1) == b""
    proxy.await_idle(LIMIT_S)
    assert proxy.open_connections == 0


def test_counters_can_be_set_back(proxy: FaultProxy) -> None:
    """A test counts its own faults, not those of the test's preparation."""
    with connected(proxy) as client:
        ask(client)
    proxy.forget()
    assert proxy.stats() == (0, 0, 0, 0, {})


def test_one_who_keeps_a_connection_is_found_out(proxy: FaultProxy) -> None:
    """A leak that a test only waits for would pass."""
    with connected(proxy) as client:
        ask(client)
        with pytest.raises(TimeoutError, match="1 connections to 127"):
            proxy.await_idle(0.05)


def test_a_server_that_is_gone_is_a_reset(server: LambdaApi) -> None:
    """The proxy accepts before it can know."""
    assert server.endpoint
    with silent_port() as port, fault_proxy(f"http://127.0.0.1:{port}/path", http1) as proxy:
        with pytest.raises(ConnectionError), connected(proxy) as client:
            ask(client)
        assert proxy.url.startswith("http://127.0.0.1:")


def test_faults_that_speak_http_are_refused_in_front_of_another_protocol(server: LambdaApi) -> None:
    """They would never happen, and the test would pass."""
    with fault_proxy(server.endpoint, plain) as proxy:
        with pytest.raises(ValueError, match="throttle takes the framing http1"):
            proxy.follow(Rule(Throttle()))
        proxy.follow(Rule(Cut("in-answer", "fin", after_bytes=3)))
        with connected(proxy) as client:
            assert ask(client) == ANSWER[:3]


def test_bytes_that_are_not_of_the_protocol_are_told_at_the_end(server: LambdaApi) -> None:
    """A wrong framing must not look like a store that hangs."""
    server.answer = lambda _: b"SMTP ready, what is it?\r\n\r\n"
    proxy = FaultProxy(server.endpoint, http1)
    with connected(proxy) as client:
        assert ask(client) == b""
    with pytest.raises(ValueError, match="invalid literal"):
        proxy.stop()


def test_stopping_ends_connections_and_the_thread(server: LambdaApi) -> None:
    """Also with one that is black-holed, and twice."""
    proxy = FaultProxy(server.endpoint, http1)
    with connected(proxy) as client:
        ask(client)
        proxy.black_hole()
        proxy.stop()
        proxy.stop()
        assert client.recv(1) == b""
    assert "fault-proxy" not in {thread.name for thread in threading.enumerate()}


def _until(condition: object) -> None:
    assert callable(condition)
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


DROP, CUT = Drop("request"), Cut("before-answer")


def hits(*rules: Rule, requests: list[bytes]) -> list[int]:
    """The numbers, from 1, of the requests that something happens to."""
    chooser = Chooser(rules)
    return [number for number, request in enumerate(requests, start=1) if chooser.choose(request)]


def test_a_rule_starts_at_its_nth_request_and_ends_after_its_times() -> None:
    """Tests compare counts exactly, so one more or less is a failure of the proxy."""
    assert hits(Rule(DROP, from_nth=3, times=2), requests=[b"x"] * 9) == [3, 4]


def test_a_rule_counts_the_requests_that_it_matches() -> None:
    """One proxy often stands in front of two services, and only one of them is to fail."""
    requests = [b"GET /a", b"PUT /a", b"PUT /b", b"PUT /a"]
    assert hits(Rule(DROP, match=b"PUT /a", from_nth=2), requests=requests) == [4]


def test_a_share_is_the_same_for_the_same_seed() -> None:
    """A storm that found a defect has to be met again."""
    one, same, other = (hits(Rule(DROP, share=0.3, seed=seed), requests=[b"x"] * 1_000) for seed in (7, 7, 8))
    assert one == same
    assert one != other
    assert 250 < len(one) < 350


def test_the_first_rule_that_fits_wins() -> None:
    """Otherwise two faults would happen to one request, and neither could be told from the other."""
    chooser = Chooser([Rule(DROP, times=1), Rule(CUT, from_nth=2)])
    assert [chooser.choose(b"x") for _ in range(3)] == [DROP, CUT, CUT]


@pytest.mark.parametrize("fields", [{"from_nth": 0}, {"share": 1.1}, {"times": -1}])
def test_an_impossible_rule_is_refused(fields: dict[str, float]) -> None:
    """A rule that never acts makes a test that cannot fail."""
    with pytest.raises(ValueError, match="from_nth begins at 1"):
        Rule(Throttle(), **fields)  # type: ignore[arg-type]


HEAD = b"PUT /key HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\n\r\n"
TRAILED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nCrc: 1\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(kind: bytes, payload: bytes = b"") -> bytes:
    """A PostgreSQL message; the start-up message has no kind."""
    return kind + (len(payload) + 4).to_bytes(4, "big") + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PUT = frame(1, 4, 1, b"head") + frame(0, 1, 1, b"body")
REQUESTS = {
    "http1": (http1, HEAD + b"abc" + b"GET / HTTP/1.1\r\n\r\n", ["begins", "ends", "begins ends"]),
    "http2": (http2, PREFACE + frame(4, 0, 0) + PUT + frame(1, 5, 3), ["", "", "begins", "ends", "begins ends"]),
    "postgresql": (
        postgresql,
        message(b"", b"\0\3\0\0")
        + message(b"p", b"secret")
        + message(b"B")
        + message(b"E")
        + message(b"S")
        + message(b"X"),
        ["begins ends", "", "begins", "", "ends", ""],
    ),
}
ANSWERS = {
    "interim": (http1, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", ["", "begins ends"]),
    "chunked": (http1, CHUNKED, ["begins", "", "ends"]),
    "trailers": (http1, TRAILED, ["begins", "", "ends"]),
    "http2": (http2, frame(1, 4, 1) + frame(0, 0, 1, b"x") + frame(1, 5, 1), ["begins", "", "ends"]),
    "postgresql": (postgresql, message(b"2") + message(b"C") + message(b"Z", b"I"), ["begins", "", "ends"]),
}


def roles(pieces: list[Piece]) -> list[str]:
    """Return what each piece is."""
    return [" ".join(name for name in ("begins", "ends") if getattr(piece, name)) for piece in pieces]


@pytest.mark.parametrize(("make", "data", "wanted"), REQUESTS.values(), ids=REQUESTS)
def test_requests_begin_and_end_where_the_protocol_says(
    make: Callable[[], Framing], data: bytes, wanted: list[str]
) -> None:
    """A fault in the wrong place is another fault."""
    assert roles(make().requests(data)) == wanted


@pytest.mark.parametrize(("make", "data", "wanted"), ANSWERS.values(), ids=ANSWERS)
def test_answers_begin_and_end_where_the_protocol_says(
    make: Callable[[], Framing], data: bytes, wanted: list[str]
) -> None:
    """So do requests."""
    assert roles(make().answers(data)) == wanted


@pytest.mark.parametrize(("make", "data", "_wanted"), REQUESTS.values(), ids=REQUESTS)
def test_no_byte_is_lost_however_the_network_cuts_them(
    make: Callable[[], Framing], data: bytes, _wanted: object
) -> None:
    """TCP has no messages: a proxy that changed a byte would test itself."""
    framing = make()
    one_by_one = [piece for at in range(len(data)) for piece in framing.requests(data[at : at + 1])]
    assert b"".join(piece.data for piece in one_by_one) == data


@pytest.mark.parametrize("data", [CHUNKED, TRAILED, b"HTTP/1.1 200 OK\r\n\r\nto the end"])
def test_no_byte_of_an_answer_is_lost_either(data: bytes) -> None:
    """Chunks, trailers, and bodies that end with the connection."""
    framing = http1()
    one_by_one = [piece for at in range(len(data)) for piece in framing.answers(data[at : at + 1])]
    assert b"".join(piece.data for piece in one_by_one) == data


def test_the_answer_to_a_head_has_no_body() -> None:
    """Its Content-Length is that of a body which does not come; the next answer would be taken for it."""
    framing = http1()
    (asked,) = framing.requests(b"HEAD / HTTP/1.1\r\n\r\n")
    framing.forwarded(asked)
    assert roles(framing.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) == ["begins ends"]


def test_of_an_unknown_protocol_each_reading_is_one() -> None:
    """Good enough for small messages on loopback, one at a time."""
    framing = plain()
    assert roles(framing.requests(b"PING\r\n")) == roles(framing.answers(b"+PONG\r\n")) == ["begins ends"]
    framing.forwarded(framing.requests(b"PING\r\n")[0])
