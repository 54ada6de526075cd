"""A session against a server of the test's own, which speaks by the library `hpack` and keeps its own books."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from stepbench.wire.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Http2Error,
    Http2FrameReader,
    RequestFields,
    encode_frame,
)
from stepbench.wire.http2.session import CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, Http2Session
from stepbench.wire.http2.streams import StreamEnd
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from stepbench.wire.http2 import Head, Http2Frame

HEAD = ((":status", "200"), ("content-type", "application/grpc"))
TRAILERS = (("grpc-status", "0"), ("grpc-message", ""))
TABLE_SIZE, MOST_STREAMS, WINDOW, FRAME_SIZE = 1, 3, 4, 5
USUAL_WINDOW = 65_535


class Recorded:
    """A stream that keeps what happens to it."""

    def __init__(self) -> None:
        self.stream_id = self.received_bytes = 0
        self.outgoing = OutgoingBytes()
        self.heads: list[tuple[Head, bool]] = []
        self.data: list[tuple[bytes, bool]] = []
        self.ended: list[StreamEnd] = []

    def take_head(self, head: Head, *, is_last: bool) -> None:
        """See `Stream`."""
        self.heads.append((head, is_last))

    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """See `Stream`."""
        self.data.append((data, is_last))

    def take_end(self, ended: StreamEnd) -> None:
        """See `Stream`."""
        self.ended.append(ended)

    @property
    def is_answered(self) -> bool:
        """Its trailers have come."""
        return bool(self.heads) and self.heads[-1][1]


class Asked(NamedTuple):
    """A request as the server got it."""

    path: str
    body: bytes
    has_ended: bool


@dataclass
class Server:
    """The other side: takes what the session sends, and remembers it."""

    session: Http2Session
    others: list[Http2Frame] = field(default_factory=list)
    asked: dict[int, Asked] = field(default_factory=dict)
    largest_frame: int = 0

    def __post_init__(self) -> None:
        """Begin."""
        self._reader, self._decoder, self._encoder = Http2FrameReader(), Decoder(), Encoder()
        self._encoder.header_table_size = 0
        greeting = self.session.take()[0]
        assert greeting.startswith(PREFACE)
        self._take(greeting.removeprefix(PREFACE))

    def fetch(self) -> list[Http2Frame]:
        """Take what the session has to send; what of it is no request."""
        before = len(self.others)
        self._take(self.session.take()[0])
        return self.others[before:]

    def _take(self, data: bytes) -> None:
        for frame in self._reader.frames(data):
            kind, flags, stream, payload, _ = frame
            self.largest_frame = max(self.largest_frame, len(payload))
            if kind == HEADERS:
                fields = {str(name): str(value) for name, value in self._decoder.decode(payload)}
                assert (fields[":method"], fields["te"], fields[":authority"]) == ("POST", "trailers", "store:1")
                self.asked[stream] = Asked(fields[":path"], b"", bool(flags & END_STREAM))
            elif kind == DATA:
                path, body, has_ended = self.asked[stream]
                assert not has_ended
                self.asked[stream] = Asked(path, body + payload, bool(flags & END_STREAM))
            else:
                self.others.append(frame)

    def say(self, *frames: bytes) -> None:
        """To the session."""
        self.session.receive(b"".join(frames))

    def settings(self, **values: int) -> bytes:
        """A frame of them, by the names above."""
        numbers = {"table": TABLE_SIZE, "streams": MOST_STREAMS, "window": WINDOW, "frame": FRAME_SIZE}
        payload = b"".join(
            numbers[name].to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items()
        )
        return encode_frame(SETTINGS, 0, 0, payload)

    def fields(self, stream: int, *fields: tuple[str, str], last: bool = False) -> bytes:
        """A frame of fields."""
        flags = END_HEADERS | (END_STREAM if last else 0)
        return encode_frame(HEADERS, flags, stream, self._encoder.encode(list(fields)))

    def answer(self, stream: int, body: bytes) -> bytes:
        """A whole answer."""
        data = encode_frame(DATA, 0, stream, body)
        return self.fields(stream, *HEAD) + data + self.fields(stream, *TRAILERS, last=True)


def _connected(**settings: int) -> Server:
    server = Server(Http2Session(RequestFields("http", "store:1"), lambda: None))
    server.say(server.settings(**settings))
    server.fetch()
    return server


def _begin(server: Server, *bodies: bytes, path: str = "/a.B/C") -> list[Recorded]:
    streams = [Recorded() for _ in bodies]
    for stream, body in zip(streams, bodies, strict=True):
        server.session.begin(stream, path, body)
    return streams


@pytest.mark.parametrize("table", [4096, 0, 100, 65_536])
def test_the_server_reads_every_request_whatever_it_remembers(table: int) -> None:
    """The first teaches it our fields; where it will not learn, all are sent each time."""
    server = _connected(table=table)
    server._decoder.max_allowed_table_size = table
    for turn in range(4):
        _begin(server, b"one", path="/a.B/One")
        _begin(server, b"two", path="/a.B/Two")
        server.fetch()
        assert server.asked[4 * turn + 1] == Asked("/a.B/One", b"one", has_ended=True)
        assert server.asked[4 * turn + 3] == Asked("/a.B/Two", b"two", has_ended=True)


@given(st.permutations(range(8)), st.data())
def test_answers_find_their_requests_in_any_order(order: list[int], data: st.DataObject) -> None:
    """A wrong pairing would count one key's revision for another's."""
    server = _connected()
    streams = _begin(server, *(b"%d" % each for each in range(8)))
    server.fetch()
    wire = b"".join(server.answer(2 * each + 1, b"to %d" % each) for each in order)
    cut = data.draw(st.integers(0, len(wire)))
    server.say(wire[:cut])
    server.say(wire[cut:])
    assert [stream.data for stream in streams] == [[(b"to %d" % each, False)] for each in range(8)]
    assert all(stream.is_answered and not stream.ended for stream in streams)
    assert not server.session.streams


@given(
    st.lists(st.binary(min_size=1, max_size=8).map(lambda each: each * 9_000), min_size=1, max_size=4),
    st.integers(0, 90_000),
    st.data(),
)
def test_no_more_is_sent_than_there_is_room_for_and_in_the_end_everything(
    bodies: list[bytes], window: int, data: st.DataObject
) -> None:
    """More than the window ends the connection, for all clients; less than everything leaves a request for ever."""
    server = _connected(window=window)
    room = {0: USUAL_WINDOW} | {2 * each + 1: window for each in range(len(bodies))}
    _begin(server, *bodies)
    for _ in range(200):
        server.fetch()
        sent = {stream: len(asked.body) for stream, asked in server.asked.items()}
        assert sum(sent.values()) <= room[0]
        assert all(size <= room[stream] for stream, size in sent.items())
        unfinished = [stream for stream, asked in server.asked.items() if not asked.has_ended]
        if not unfinished:
            break
        more = data.draw(st.integers(10_000, 60_000))
        for stream in (0, *unfinished):
            room[stream] += more
            server.say(encode_frame(WINDOW_UPDATE, 0, stream, more.to_bytes(4, "big")))
    assert [asked.body for asked in server.asked.values()] == bodies
    assert server.largest_frame <= 16_384


def test_a_window_that_shrinks_below_nothing_counts_its_debt() -> None:
    """SETTINGS change the windows of streams under way, by the difference."""
    server = _connected(window=100)
    _begin(server, bytes(250))
    server.fetch()
    server.say(server.settings(window=40))  # 60 more than there is room for are on their way
    server.say(encode_frame(WINDOW_UPDATE, 0, 1, (90).to_bytes(4, "big")))
    server.fetch()
    assert len(server.asked[1].body) == 130
    server.say(server.settings(window=160))
    server.fetch()
    assert server.asked[1] == Asked("/a.B/C", bytes(250), has_ended=True)


def test_requests_wait_for_a_stream_where_the_server_allows_only_some() -> None:
    """It would refuse them; they leave in order, each as one is answered."""
    server = _connected(streams=2)
    streams = _begin(server, b"a", b"b", b"c", b"d")
    server.fetch()
    assert [asked.body for asked in server.asked.values()] == [b"a", b"b"]
    server.say(server.answer(3, b"!"))
    server.fetch()
    server.session.cancel(streams[3])
    server.say(server.answer(1, b"!"))
    server.fetch()
    assert [asked.body for asked in server.asked.values()] == [b"a", b"b", b"c"]


def test_pings_and_settings_are_acknowledged() -> None:
    """A server gives up a client that does not; an acknowledgement is not acknowledged again."""
    server = _connected()
    server.say(encode_frame(PING, 0, 0, b"12345678"), server.settings(window=7), encode_frame(PING, 1, 0, bytes(8)))
    assert server.fetch() == [(PING, 1, 0, b"12345678", 8), (SETTINGS, 1, 0, b"", 0)]


def test_a_goodbye_leaves_those_behind_it_untouched() -> None:
    """They may be asked elsewhere, and nothing of them has happened; the others are still answered."""
    server = _connected()
    first, second, third = _begin(server, b"a", b"b", b"c")
    server.fetch()
    server.say(encode_frame(GOAWAY, 0, 0, (3).to_bytes(4, "big") + bytes(4)))
    assert third.ended == [StreamEnd(ErrorCode.NO_ERROR, "the server says goodbye: NO_ERROR", untouched=True)]
    assert not server.session.is_accepting
    server.say(server.answer(1, b"to a"), server.answer(3, b"to b"))
    assert (first.is_answered, second.is_answered) == (True, True)


@pytest.mark.parametrize(("code", "untouched"), [(ErrorCode.REFUSED_STREAM, True), (ErrorCode.CANCEL, False)])
def test_only_a_refused_stream_is_certainly_untouched(code: ErrorCode, *, untouched: bool) -> None:
    """Any other reset may come after the write was done."""
    server = _connected()
    (stream,) = _begin(server, b"a")
    server.fetch()
    server.say(encode_frame(RST_STREAM, 0, 1, code.to_bytes(4, "big")))
    assert [(each.code, each.untouched) for each in stream.ended] == [(code, untouched)]


def test_a_lost_connection_is_certain_only_of_what_never_left() -> None:
    """Its outgoing has no time then."""
    server = _connected(streams=2)
    sent, stuck, waiting = _begin(server, b"a", b"b", b"c")
    sent.outgoing, stuck.outgoing = OutgoingBytes(), OutgoingBytes()
    sent.outgoing.t1_ns = 5
    server.session.lose("gone")
    assert [each.ended for each in (sent, stuck, waiting)] == [
        [StreamEnd(None, "gone", untouched)] for untouched in (False, True, True)
    ]


def test_what_was_cancelled_is_reset_and_its_answer_passed_over() -> None:
    """The answer may be on its way already; it is nobody's, and no mistake."""
    server = _connected()
    cancelled, other = _begin(server, b"a", b"b")
    server.fetch()
    server.session.cancel(cancelled)
    assert server.fetch() == [(RST_STREAM, 0, 1, ErrorCode.CANCEL.to_bytes(4, "big"), 4)]
    server.say(server.answer(1, b"too late"), server.answer(3, b"to b"))
    assert (cancelled.heads, cancelled.data, cancelled.ended) == ([], [], [])
    assert other.data == [(b"to b", False)]


def test_an_answer_before_the_end_of_the_request_ends_both() -> None:
    """A server that refuses a large put does not wait for the rest of it."""
    server = _connected(window=10)
    (stream,) = _begin(server, bytes(100))
    server.fetch()
    server.say(server.fields(1, *HEAD, ("grpc-status", "8"), last=True))
    assert stream.is_answered
    assert [frame[0] for frame in server.fetch()] == [RST_STREAM]
    server.say(encode_frame(WINDOW_UPDATE, 0, 1, (90).to_bytes(4, "big")))
    server.fetch()
    assert len(server.asked[1].body) == 10


@pytest.mark.parametrize(
    ("window", "stream"), [(STREAM_WINDOW_BYTES, 1), (CONNECTION_WINDOW_BYTES, 0)], ids=["stream", "connection"]
)
def test_room_for_answers_is_given_again(window: int, stream: int) -> None:
    """Else a long watch stops after so many bytes, without a word."""
    server = _connected()
    _begin(server, b"a")
    server.fetch()
    server.say(server.fields(1, *HEAD))
    given = 0
    for _ in range(window // 16_000):
        server.say(encode_frame(DATA, 0, 1, bytes(16_000)))
        updates = [frame for frame in server.fetch() if frame[0] == WINDOW_UPDATE and frame[2] == stream]
        given += sum(int.from_bytes(frame[3], "big") for frame in updates)
    assert given >= window // 2


@pytest.mark.parametrize(
    "frame",
    [
        encode_frame(DATA, 0, 3, b"x"),
        encode_frame(DATA, 0, 2, b"x"),
        encode_frame(HEADERS, END_HEADERS, 5, b"\x88"),
        encode_frame(RST_STREAM, 0, 9, bytes(4)),
        encode_frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
        encode_frame(HEADERS, END_HEADERS, 1, b"\xbe"),  # something to be remembered, which we do not
        encode_frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        encode_frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        encode_frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"),
        encode_frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1"),
    ],
)
def test_a_server_that_breaks_the_rules_is_not_believed(frame: bytes) -> None:
    """What it says next might be given to the wrong request."""
    server = _connected()
    _begin(server, b"a")
    with pytest.raises(Http2Error):
        server.say(frame)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40))))
def test_whatever_frames_come_no_request_is_answered_twice_or_by_another_error(
    frames: list[tuple[int, int, int, bytes]],
) -> None:
    """Well formed or not: an `Http2Error` ends the connection, and any other exception would end the reader."""
    server = _connected()
    streams = _begin(server, b"a", b"b", b"c")
    try:
        for kind, flags, stream, payload in frames:
            server.say(encode_frame(kind, flags, stream, payload))
    except Http2Error:
        pass
    server.session.lose("gone")
    ends = [sum(last for _, last in (*each.heads, *each.data)) + len(each.ended) for each in streams]
    assert ends == [1, 1, 1]
