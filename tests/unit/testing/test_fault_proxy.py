"""Each fault on loopback, seen from both sides: what the client gets, and what the server got."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from stepbench.local.processes import free_port
from stepbench.testing.fault_proxy import (
    LAMBDA_TOO_MANY,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultProxy,
    Limit,
    Rule,
    Throttle,
    fault_proxy,
    http1,
    plain,
)
from stepbench.testing.lambda_api import LambdaApi, lambda_api

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 5
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
    with fault_proxy(f"http://127.0.0.1:{free_port()}/path", http1) as proxy:
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
