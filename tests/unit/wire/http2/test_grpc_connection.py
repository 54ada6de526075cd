"""gRPC calls by themselves, and a connection over a real pair of sockets by a clock of the test's own."""

from __future__ import annotations

import asyncio
import gc
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.wire.http2 import END_HEADERS, END_STREAM, HEADERS, ErrorCode, Head, encode_frame
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus, MalformedMessageError, MessageReader, prefixed
from stepbench.wire.http2.grpc_call import Subscription, UnaryCall
from stepbench.wire.http2.grpc_connection import GrpcConnection, GrpcLimits
from stepbench.wire.http2.streams import StreamEnd
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from stepbench.clock import Clock
    from stepbench.wire.http2.streams import Http2Stream


LIMIT_S = 2.0
NO_SUCH_KEY = b"\x88\x00\x0bgrpc-status\x015"
"""An answer's fields: HTTP status 200, NOT_FOUND."""


class Wired:
    """A connection, and the socket at its other end."""

    def __init__(self, clock: Clock) -> None:
        ours, self.peer = socket.socketpair()
        ours.settimeout(0)
        self.connection = GrpcConnection(ours, clock, "host:1", GrpcLimits(answer_s=LIMIT_S))


def run(scenario: Callable[[Wired, FakeClock], Coroutine[Any, Any, None]]) -> None:
    """With a connection that is closed afterwards."""
    clock = FakeClock()

    async def wired() -> None:
        made = Wired(clock)
        try:
            await scenario(made, clock)
        finally:
            made.connection.close()
            made.peer.close()

    clock.run(wired())


async def turns() -> None:
    """Let the loop look at its sockets, without time passing."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_call_ends_at_its_limit_whatever_is_asked_after_it() -> None:
    """The later steps of other operations have what is left of theirs: a little less, again and again."""

    async def scenario(wired: Wired, clock: FakeClock) -> None:
        first, others = list[GrpcAnswer](), list[GrpcAnswer]()
        wired.connection.call("/a/b", b"", first.append)
        for _ in range(5):
            await clock.sleep_async(LIMIT_S / 4)
            wired.connection.call("/a/b", b"", others.append, LIMIT_S * 0.9)
        (ended,) = first
        assert ended.status is GrpcStatus.DEADLINE_EXCEEDED
        assert (ended.t2_ns - START_NS) / 1e9 == pytest.approx(LIMIT_S)
        await clock.sleep_async(LIMIT_S)
        assert [(each.t2_ns - each.t1_ns) / 1e9 for each in others] == pytest.approx([LIMIT_S * 0.9] * 5)

    run(scenario)


def test_a_call_of_a_shorter_limit_ends_at_that() -> None:
    """It overtakes the one that was asked before it."""

    async def scenario(wired: Wired, clock: FakeClock) -> None:
        ended: list[tuple[str, int]] = []
        wired.connection.call("/a/b", b"", lambda answer: ended.append(("long", answer.t2_ns - START_NS)))
        wired.connection.call("/a/b", b"", lambda answer: ended.append(("short", answer.t2_ns - START_NS)), 0.5)
        await clock.sleep_async(2 * LIMIT_S)
        assert [name for name, _ in ended] == ["short", "long"]
        assert [after_ns / 1e9 for _, after_ns in ended] == pytest.approx([0.5, LIMIT_S])

    run(scenario)


def test_an_error_of_ours_at_an_answer_lets_nobody_wait() -> None:
    """The answers behind it are lost: their calls end at once, and the error is not hushed up."""

    async def scenario(wired: Wired, _clock: FakeClock) -> None:
        told: list[BaseException | None] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context.get("exception")))
        others: list[GrpcAnswer] = []
        problem = ValueError("of ours")

        def fail(_answer: GrpcAnswer) -> None:
            raise problem

        wired.connection.call("/a/b", b"", fail)
        wired.connection.call("/a/b", b"", others.append)
        wired.peer.send(b"".join(encode_frame(HEADERS, END_HEADERS | END_STREAM, n, NO_SUCH_KEY) for n in (1, 3)))
        await turns()
        assert [(each.status, each.is_untouched) for each in others] == [(GrpcStatus.UNAVAILABLE, False)]
        assert (told, wired.connection.is_open) == ([problem], False)

    run(scenario)


@pytest.mark.parametrize("how", ["closed by the server", "never greeted"])
def test_a_connection_without_a_greeting_leaves_no_garbage(how: str) -> None:
    """The collector is off under load, and a server that is down is dialled again and again."""

    async def refused(clock: FakeClock) -> None:
        wired = Wired(clock)
        if how == "closed by the server":
            wired.peer.close()
        try:
            async with asyncio.timeout(LIMIT_S):
                await wired.connection.wait_for_settings()
        except OSError:
            pass
        finally:
            wired.connection.close()
            wired.peer.close()

    async def scenario(_wired: Wired, clock: FakeClock) -> None:
        await refused(clock)
        gc.collect()
        gc.disable()
        try:
            await refused(clock)
            await turns()
            left = gc.collect()
        finally:
            gc.enable()
        assert left == 0

    run(scenario)


HEAD, TRAILERS = Head("200", "application/grpc", None, ""), Head("", "", 0, "")


class _Line:
    """A connection that counts."""

    now_ns = 20

    def __init__(self) -> None:
        self.cancelled: list[Http2Stream] = []

    def cancel(self, stream: Http2Stream) -> None:
        """See `Line`."""
        self.cancelled.append(stream)


class _Asked:
    """A call that has left at 10, and all that was said of it."""

    def __init__(self) -> None:
        self.line = _Line()
        self.answers: list[GrpcAnswer] = []
        self.call = UnaryCall(self.line, self.answers.append, expires_ns=99)
        self.call.outgoing = OutgoingBytes()
        self.call.outgoing.t1_ns = 10

    @property
    def answer(self) -> GrpcAnswer:
        """The only one."""
        (answer,) = self.answers
        return answer


@given(st.binary(max_size=50), st.lists(st.integers(0, 55), max_size=5))
def test_a_message_is_whole_however_it_was_cut(message: bytes, cuts: list[int]) -> None:
    """Frames of data end anywhere."""
    asked, wire = _Asked(), prefixed(message)
    asked.call.take_head(HEAD, is_last=False)
    for start, end in pairwise([0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]):
        asked.call.take_data(wire[start:end], is_last=False)
    asked.call.take_head(TRAILERS, is_last=True)
    assert asked.answers == [GrpcAnswer(10, 20, GrpcStatus.OK, data=message)]


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(0, 200), max_size=6))
def test_a_subscription_gets_every_message_once_in_order(messages: list[bytes], cuts: list[int]) -> None:
    """Several come in one frame, and one in several."""
    arrived, done = list[tuple[int, bytes]](), list[GrpcAnswer]()
    subscription = Subscription(_Line(), lambda *each: arrived.append(each), done.append)
    wire = b"".join(map(prefixed, messages))
    subscription.take_head(HEAD, is_last=False)
    for start, end in pairwise([0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]):
        subscription.take_data(wire[start:end], is_last=False)
    assert (arrived, done) == ([(20, each) for each in messages], [])


def test_a_refusal_without_a_body_is_the_servers_word() -> None:
    """Trailers only: how a Go server refuses."""
    asked = _Asked()
    asked.call.take_head(Head("200", "application/grpc", 9, "no space left"), is_last=True)
    assert asked.answer == GrpcAnswer(10, 20, GrpcStatus.FAILED_PRECONDITION, "no space left")


@pytest.mark.parametrize(
    ("heads", "status"),
    [
        ([(Head("503", "text/html", None, ""), False)], GrpcStatus.UNAVAILABLE),
        ([(Head("404", "text/html", None, ""), True)], GrpcStatus.UNIMPLEMENTED),
        ([(Head("200", "text/html", None, ""), False)], GrpcStatus.INTERNAL),
        ([(HEAD, False), (HEAD, False)], GrpcStatus.INTERNAL),
        ([(HEAD, False), (Head("", "", None, ""), True)], GrpcStatus.INTERNAL),
        ([(HEAD, False), (TRAILERS, True)], GrpcStatus.INTERNAL),
    ],
    ids=["a proxy", "a web server", "not grpc", "two heads", "no status", "no message"],
)
def test_what_is_no_answer_of_grpc_is_not_the_servers_word(heads: list[tuple[Head, bool]], status: GrpcStatus) -> None:
    """It is open then whether the write has happened."""
    asked = _Asked()
    for head, is_last in heads:
        asked.call.take_head(head, is_last=is_last)
    assert (asked.answer.status, asked.answer.is_answered, asked.answer.is_untouched) == (status, False, False)


@pytest.mark.parametrize(
    "data",
    [b"\1\0\0\0\1x", b"\0\xff\xff\xff\xff", prefixed(b"a") + prefixed(b"b")],
    ids=["compressed", "4 GB", "two messages"],
)
def test_data_that_is_no_message_ends_the_call_at_once(data: bytes) -> None:
    """It is reset, so that no more of it comes, and is answered once."""
    asked = _Asked()
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(data, is_last=False)
    assert asked.line.cancelled == [asked.call]
    asked.call.take_data(data, is_last=True)
    assert (asked.answer.status, asked.answer.is_answered) == (GrpcStatus.INTERNAL, False)


def test_data_before_the_head_is_no_answer() -> None:
    """It may be anything: what it is, the head says."""
    asked, done = _Asked(), list[GrpcAnswer]()
    asked.call.take_data(prefixed(b"x"), is_last=False)
    Subscription(_Line(), lambda *_: pytest.fail("no message"), done.append).take_data(prefixed(b"x"), is_last=False)
    assert [each.status for each in (asked.answer, *done)] == [GrpcStatus.INTERNAL] * 2


def test_a_message_that_is_cut_off_is_none() -> None:
    """A status of OK does not make it one."""
    asked = _Asked()
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"whole")[:-1], is_last=False)
    asked.call.take_head(TRAILERS, is_last=True)
    assert (asked.answer.status, asked.answer.message) == (GrpcStatus.INTERNAL, "an answer that is cut off")


def test_data_without_trailers_is_no_answer() -> None:
    """The status is in the trailers."""
    asked = _Asked()
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"x"), is_last=True)
    assert asked.answer.status is GrpcStatus.INTERNAL


def test_an_interim_head_is_passed_over() -> None:
    """HTTP's 103, say: the answer is still to come."""
    asked = _Asked()
    asked.call.take_head(Head("103", "", None, ""), is_last=False)
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"x"), is_last=False)
    asked.call.take_head(TRAILERS, is_last=True)
    assert (asked.answer.status, asked.answer.data) == (GrpcStatus.OK, b"x")


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (StreamEnd(None, "gone", untouched=False), GrpcStatus.UNAVAILABLE),
        (StreamEnd(ErrorCode.REFUSED_STREAM, "no", untouched=True), GrpcStatus.UNAVAILABLE),
        (StreamEnd(ErrorCode.CANCEL, "no", untouched=False), GrpcStatus.CANCELLED),
        (StreamEnd(ErrorCode.ENHANCE_YOUR_CALM, "no", untouched=False), GrpcStatus.RESOURCE_EXHAUSTED),
        (StreamEnd(ErrorCode.INTERNAL_ERROR, "no", untouched=False), GrpcStatus.INTERNAL),
    ],
)
def test_the_end_of_a_stream_has_grpcs_name_for_it(ended: StreamEnd, status: GrpcStatus) -> None:
    """The specification maps them; what is untouched stays so."""
    asked = _Asked()
    asked.call.take_end(ended)
    answer = asked.answer
    assert (answer.status, answer.is_answered, answer.is_untouched) == (status, False, ended.untouched)


def test_a_call_is_answered_once_whatever_follows() -> None:
    """The engines record a row for each answer."""
    asked = _Asked()
    asked.call.give_up(GrpcStatus.DEADLINE_EXCEEDED, "too late")
    asked.call.take_head(TRAILERS, is_last=True)
    asked.call.take_end(StreamEnd(None, "gone", untouched=False))
    asked.call.give_up(GrpcStatus.CANCELLED, "again")
    assert (asked.answer.status, len(asked.line.cancelled)) == (GrpcStatus.DEADLINE_EXCEEDED, 1)


def test_a_call_that_never_left_says_so() -> None:
    """Given up while it waited for a stream: nothing can have happened."""
    answers = list[GrpcAnswer]()
    UnaryCall(_Line(), answers.append, expires_ns=99).give_up(GrpcStatus.CANCELLED, "enough")
    assert answers == [GrpcAnswer(20, 20, GrpcStatus.CANCELLED, "enough", is_answered=False, is_untouched=True)]


def test_a_message_that_is_too_long_is_refused_before_it_comes() -> None:
    """Its length is said first."""
    with pytest.raises(MalformedMessageError, match="4,294,967,295"):
        MessageReader().feed(b"\0\xff\xff\xff\xff")
