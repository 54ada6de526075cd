"""What a call makes of fields, data and trailers, in whatever order and shape a server sends them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.wire.byte_socket import Shipment
from stepbench.wire.grpc_answer import GrpcAnswer, MalformedMessageError, MessageReader, Status, prefixed
from stepbench.wire.grpc_call import Call, Subscription
from stepbench.wire.http2_fields import Head
from stepbench.wire.http2_frames import ErrorCode
from stepbench.wire.http2_streams import Ended

if TYPE_CHECKING:
    from stepbench.wire.http2_streams import Stream

HEAD, TRAILERS = Head("200", "application/grpc", None, ""), Head("", "", 0, "")


class _Line:
    """A connection that counts."""

    now_ns = 20

    def __init__(self) -> None:
        self.cancelled: list[Stream] = []

    def cancel(self, stream: Stream) -> None:
        """See `Line`."""
        self.cancelled.append(stream)


class _Asked:
    """A call that has left at 10, and all that was said of it."""

    def __init__(self) -> None:
        self.line = _Line()
        self.answers: list[GrpcAnswer] = []
        self.call = Call(self.line, self.answers.append, expires_ns=99)
        self.call.shipment = Shipment()
        self.call.shipment.t1_ns = 10

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
    assert asked.answers == [GrpcAnswer(10, 20, Status.OK, data=message)]


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
    assert asked.answer == GrpcAnswer(10, 20, Status.FAILED_PRECONDITION, "no space left")


@pytest.mark.parametrize(
    ("heads", "status"),
    [
        ([(Head("503", "text/html", None, ""), False)], Status.UNAVAILABLE),
        ([(Head("404", "text/html", None, ""), True)], Status.UNIMPLEMENTED),
        ([(Head("200", "text/html", None, ""), False)], Status.INTERNAL),
        ([(HEAD, False), (HEAD, False)], Status.INTERNAL),
        ([(HEAD, False), (Head("", "", None, ""), True)], Status.INTERNAL),
        ([(HEAD, False), (TRAILERS, True)], Status.INTERNAL),
    ],
    ids=["a proxy", "a web server", "not grpc", "two heads", "no status", "no message"],
)
def test_what_is_no_answer_of_grpc_is_not_the_servers_word(heads: list[tuple[Head, bool]], status: Status) -> None:
    """Whether the write has happened is open then."""
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
    assert (asked.answer.status, asked.answer.is_answered) == (Status.INTERNAL, False)


def test_data_before_the_head_is_no_answer() -> None:
    """It may be anything: what it is, the head says."""
    asked, done = _Asked(), list[GrpcAnswer]()
    asked.call.take_data(prefixed(b"x"), is_last=False)
    Subscription(_Line(), lambda *_: pytest.fail("no message"), done.append).take_data(prefixed(b"x"), is_last=False)
    assert [each.status for each in (asked.answer, *done)] == [Status.INTERNAL] * 2


def test_a_message_that_is_cut_off_is_none() -> None:
    """A status of OK does not make it one."""
    asked = _Asked()
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"whole")[:-1], is_last=False)
    asked.call.take_head(TRAILERS, is_last=True)
    assert (asked.answer.status, asked.answer.message) == (Status.INTERNAL, "an answer that is cut off")


def test_data_without_trailers_is_no_answer() -> None:
    """The status is in the trailers."""
    asked = _Asked()
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"x"), is_last=True)
    assert asked.answer.status is Status.INTERNAL


def test_an_interim_head_is_passed_over() -> None:
    """HTTP's 103, say: the answer is still to come."""
    asked = _Asked()
    asked.call.take_head(Head("103", "", None, ""), is_last=False)
    asked.call.take_head(HEAD, is_last=False)
    asked.call.take_data(prefixed(b"x"), is_last=False)
    asked.call.take_head(TRAILERS, is_last=True)
    assert (asked.answer.status, asked.answer.data) == (Status.OK, b"x")


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (Ended(None, "gone", untouched=False), Status.UNAVAILABLE),
        (Ended(ErrorCode.REFUSED_STREAM, "no", untouched=True), Status.UNAVAILABLE),
        (Ended(ErrorCode.CANCEL, "no", untouched=False), Status.CANCELLED),
        (Ended(ErrorCode.ENHANCE_YOUR_CALM, "no", untouched=False), Status.RESOURCE_EXHAUSTED),
        (Ended(ErrorCode.INTERNAL_ERROR, "no", untouched=False), Status.INTERNAL),
    ],
)
def test_the_end_of_a_stream_has_grpcs_name_for_it(ended: Ended, status: Status) -> None:
    """As the specification maps them; what is untouched stays so."""
    asked = _Asked()
    asked.call.take_end(ended)
    answer = asked.answer
    assert (answer.status, answer.is_answered, answer.is_untouched) == (status, False, ended.untouched)


def test_a_call_is_answered_once_whatever_follows() -> None:
    """The engines record a row for each answer."""
    asked = _Asked()
    asked.call.give_up(Status.DEADLINE_EXCEEDED, "too late")
    asked.call.take_head(TRAILERS, is_last=True)
    asked.call.take_end(Ended(None, "gone", untouched=False))
    asked.call.give_up(Status.CANCELLED, "again")
    assert (asked.answer.status, len(asked.line.cancelled)) == (Status.DEADLINE_EXCEEDED, 1)


def test_a_call_that_never_left_says_so() -> None:
    """Given up while it waited for a stream: nothing can have happened."""
    answers = list[GrpcAnswer]()
    Call(_Line(), answers.append, expires_ns=99).give_up(Status.CANCELLED, "enough")
    assert answers == [GrpcAnswer(20, 20, Status.CANCELLED, "enough", is_answered=False, is_untouched=True)]


def test_a_message_that_is_too_long_is_refused_before_it_comes() -> None:
    """Its length is said first."""
    with pytest.raises(MalformedMessageError, match="4,294,967,295"):
        MessageReader().feed(b"\0\xff\xff\xff\xff")
