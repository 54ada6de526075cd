"""One connection on a transport that only takes notes: times, pairing, and every irregular end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from stepbench.testing.fake_clock import START_NS, FakeClock
from stepbench.wire.connection import Connection, Exchange

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class NotedTransport:
    """What was written; `unsent` is how much of it the kernel has not taken yet."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.written: list[bytes] = []
        self.aborted = False
        self.unsent = 0

    def write(self, data: bytes) -> None:
        """A write that takes a microsecond."""
        self.written.append(data)
        self._clock.advance(1_000)

    def abort(self) -> None:
        """End."""
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        """Bytes."""
        return self.unsent


class Wired:
    """A connection, its transport and its clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.transport = NotedTransport(self.clock)
        self.connection = Connection(self.clock)
        self.connection.connection_made(cast("asyncio.Transport", self.transport))

    def exchange(self, *steps: Any, timeout_s: float = 1.0) -> Exchange:  # noqa: ANN401 -- callables of any kind
        """Send a request, then let the peer do its steps, a turn of the loop apart."""

        async def both() -> Exchange:
            pending = asyncio.create_task(self.connection.exchange(b"request", timeout_s))
            for step in steps:
                await asyncio.sleep(0)
                step()
            return await pending

        return self.clock.run(both())

    def receives(self, data: bytes) -> Any:  # noqa: ANN401 -- a step
        """The peer sends."""
        return lambda: self.connection.data_received(data)

    def loses(self, error: Exception | None = None) -> Any:  # noqa: ANN401 -- a step
        """The peer closes, or the connection breaks."""
        return lambda: self.connection.connection_lost(error)


@pytest.fixture
def wired() -> Wired:
    """An open connection."""
    return Wired()


def test_t1_is_taken_before_the_write_and_t2_before_the_parse(wired: Wired) -> None:
    """The write's own microsecond belongs to the latency; the waiting for the loop before it does not."""
    result = wired.exchange(lambda: wired.clock.advance(5_000), wired.receives(ANSWER))
    assert (result.t1_ns - START_NS, result.t2_ns - START_NS) == (0, 6_000)
    assert wired.transport.written == [b"request"]


def test_an_answer_in_pieces_is_timed_by_its_last(wired: Wired) -> None:
    """Acknowledged means all of it."""
    result = wired.exchange(
        wired.receives(ANSWER[:20]), lambda: wired.clock.advance(7_000), wired.receives(ANSWER[20:])
    )
    assert result.answer is not None
    assert (result.answer.body, result.t2_ns - START_NS) == (b"ok", 8_000)
    assert wired.connection.usable


def test_silence_ends_at_the_time_out(wired: Wired) -> None:
    """The late answer would otherwise be paired with the next request, so the connection ends as well."""
    result = wired.exchange(timeout_s=2.0)
    assert (result.answer, result.error, result.sent) == (None, "timeout", True)
    assert result.t2_ns - result.t1_ns == pytest.approx(2_000_000_000, abs=10_000)
    assert (wired.transport.aborted, wired.connection.usable) == (True, False)


def test_a_trickle_does_not_extend_the_time_out(wired: Wired) -> None:
    """A peer that sends a byte now and then would hold the request for ever."""
    result = wired.exchange(wired.receives(b"H"), wired.receives(b"T"), timeout_s=2.0)
    assert result.error == "timeout"


def test_an_orderly_close_may_be_the_end_of_an_answer(wired: Wired) -> None:
    """Without a length it is the only end there is."""
    result = wired.exchange(wired.receives(b"HTTP/1.1 200 OK\r\n\r\nrest"), wired.loses())
    assert result.answer is not None
    assert result.answer.body == b"rest"


@pytest.mark.parametrize(
    ("data", "lost", "error"),
    [
        (b"", None, "connection-closed"),
        (ANSWER[:-1], None, "connection-closed"),
        (b"", ConnectionResetError(), "connection-reset"),
        (b"HTTP/1.1 200 OK\r\n\r\nrest", ConnectionResetError(), "connection-reset"),
    ],
)
def test_a_connection_that_breaks_leaves_the_outcome_open(
    wired: Wired, data: bytes, lost: Exception | None, error: str
) -> None:
    """The write was sent and may have happened."""
    result = wired.exchange(wired.receives(data) if data else lambda: None, wired.loses(lost))
    assert (result.answer, result.error, result.sent) == (None, error, True)


def test_garbage_ends_the_connection(wired: Wired) -> None:
    """Whatever comes after it has no known beginning."""
    result = wired.exchange(wired.receives(b"\x00\x01\x02"))
    assert (result.answer, result.error) == (None, "garbage-answer")
    assert (wired.transport.aborted, wired.connection.usable) == (True, False)


def test_a_spent_connection_still_gives_its_answer(wired: Wired) -> None:
    """`Connection: close` is no failure."""
    result = wired.exchange(wired.receives(ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
    assert result.answer is not None
    assert (result.answer.body, wired.connection.usable) == (b"ok", False)


def test_an_answer_to_half_a_request_spends_the_connection(wired: Wired) -> None:
    """The rest of a refused upload would be read as the head of the next request."""
    wired.transport.unsent = 100
    result = wired.exchange(wired.receives(ANSWER))
    assert result.answer is not None
    assert wired.transport.aborted


def test_bytes_that_nobody_asked_for_end_an_idle_connection(wired: Wired) -> None:
    """They would be the answer to the next request, at once."""
    wired.exchange(wired.receives(ANSWER))
    wired.connection.data_received(ANSWER)
    assert (wired.transport.aborted, wired.connection.usable) == (True, False)


def test_a_cancelled_request_ends_the_connection(wired: Wired) -> None:
    """Its answer may still come."""

    async def cancel() -> None:
        pending = asyncio.create_task(wired.connection.exchange(b"request", 1.0))
        await asyncio.sleep(0)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending

    wired.clock.run(cancel())
    assert (wired.transport.aborted, wired.connection.usable) == (True, False)


def test_a_second_request_in_flight_is_refused(wired: Wired) -> None:
    """No pipelining: with two in flight, one lost answer shifts all that follow."""

    async def twice() -> None:
        first = asyncio.create_task(wired.connection.exchange(b"request", 1.0))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one request at a time"):
            await wired.connection.exchange(b"second", 1.0)
        wired.connection.data_received(ANSWER)
        await first

    wired.clock.run(twice())
    assert wired.transport.written == [b"request"]


def test_abort_answers_the_request_in_flight(wired: Wired) -> None:
    """A pool that closes must leave nobody waiting."""
    assert wired.exchange(wired.connection.abort).error == "connection-closed"
    wired.connection.abort()
    wired.connection.connection_lost(None)
    assert not wired.connection.usable
