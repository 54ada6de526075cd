"""
A client's side of one HTTP/2 connection, pure: requests to bytes, bytes to what happens to streams.

What is to be sent is taken with `take`, together with the `OutgoingBytes` that all requests in it share.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.http2 import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_STREAM,
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
    decode_head,
    encode_frame,
)
from stepbench.wire.http2.streams import USUAL_WINDOW_BYTES, Http2Stream, StreamEnd, Uploads
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Callable

STREAM_WINDOW_BYTES, CONNECTION_WINDOW_BYTES = 16 * 2**20, 64 * 2**20
_TOPPED_UP_AT = 4
"""A window is opened again once a fourth of it is used up: rarely, and long before the peer has to wait."""
_SENT_AT_ONCE = 8
_SETTING = Struct(">HI")
_NUMBER = Struct(">I")
_TWO_NUMBERS = Struct(">II")
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _MAX_CONCURRENT_STREAMS, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = range(1, 6)


class _Waiting(NamedTuple):
    """A request for which the peer has no stream yet."""

    stream: Http2Stream
    path: str
    data: bytes
    ends: bool


class Http2Session:
    """
    One connection's streams.

    Args:
        fields: of its requests.
        woken: called when the peer's first settings are known, before which nothing should be asked.
    """

    def __init__(self, fields: RequestFields, woken: Callable[[], None]) -> None:
        self._fields = fields
        self._woken: Callable[[], None] | None = woken
        self._reader = Http2FrameReader()
        self._uploads = Uploads()
        self._next_id = 1
        self._most_streams = MAX_STREAM
        self._waiting: deque[_Waiting] = deque()
        self._frames = [_greeting()]
        self._outgoing = OutgoingBytes()
        self._received_bytes = 0
        self.streams: dict[int, Http2Stream] = {}
        self.is_accepting = True
        """Whether requests may be begun: the peer has not said goodbye."""

    def unanswered(self) -> list[Http2Stream]:
        """Return all requests that await something, also those that wait for a stream."""
        return [*self.streams.values(), *(each.stream for each in self._waiting)]

    @property
    def may_wait(self) -> bool:
        """
        Return whether what is to be sent should wait for more to send with it.

        While bytes are received that hold more answers, and so perhaps more requests to come: one system call for
        some of them costs us and the server less than one for each.
        """
        return self._reader.has_more and len(self._frames) < _SENT_AT_ONCE

    @property
    def has_outgoing(self) -> bool:
        """Return whether there is something to send."""
        return bool(self._frames)

    def take(self) -> tuple[bytes, OutgoingBytes]:
        """Return what is to be sent now, as one."""
        frames, outgoing = self._frames, self._outgoing
        self._frames, self._outgoing = [], OutgoingBytes()
        return b"".join(frames), outgoing

    def begin(self, stream: Http2Stream, path: str, data: bytes, *, ends: bool = True) -> None:
        """Send a request, as soon as there is room for a stream; without `ends` our side of it stays open."""
        if len(self.streams) >= self._most_streams:
            self._waiting.append(_Waiting(stream, path, data, ends))
            return
        stream.stream_id = stream_id = self._next_id
        stream.outgoing = self._outgoing
        self._next_id += 2
        self.is_accepting = self.is_accepting and self._next_id < MAX_STREAM
        self.streams[stream_id] = stream
        block = self._fields.block(path)
        request = self._uploads.at_once(stream_id, block, data) if ends else None
        if request is not None:
            self._frames.append(request)
            return
        self._frames.append(encode_frame(HEADERS, END_HEADERS, stream_id, block))
        self._uploads.begin(stream_id, data, ends=ends)
        self._frames += self._uploads.more()

    def cancel(self, stream: Http2Stream) -> None:
        """Await no answer any longer; a request that still waits for a stream is never sent."""
        if self.streams.pop(stream.stream_id, None) is not None:
            self._reset(stream.stream_id, ErrorCode.CANCEL)
            self._begin_waiting()
        elif self._waiting:
            self._waiting = deque(each for each in self._waiting if each.stream is not stream)

    def ping(self) -> None:
        """Have the peer say something."""
        self._frames.append(encode_frame(PING, 0, 0, bytes(8)))

    def send_goaway(self, code: ErrorCode) -> None:
        """Say why we hang up, for the peer's log."""
        self._frames.append(encode_frame(GOAWAY, 0, 0, _TWO_NUMBERS.pack(0, code)))

    def lose(self, reason: str) -> None:
        """End all requests, as the connection is gone."""
        self.is_accepting = False
        self._woken = None  # it holds whoever holds us
        lost = self.unanswered()
        self.streams.clear()
        self._waiting.clear()
        for stream in lost:
            stream.take_end(StreamEnd(None, reason, untouched=stream.outgoing.t1_ns == 0))

    def receive(self, data: bytes) -> None:
        """
        Take what came in.

        Raises:
            Http2Error: the peer has broken the protocol; all that came before was taken.
        """
        for kind, flags, stream_id, payload, length in self._reader.frames(data):
            if kind == DATA:
                self._take_data(stream_id, payload, length, is_last=bool(flags & END_STREAM))
            elif kind == HEADERS:
                self._take_head(stream_id, payload, is_last=bool(flags & END_STREAM))
            else:
                self._take_control(kind, flags, stream_id, payload)

    # --- streams -----------------------------------------------------------------------------------------------

    def _take_head(self, stream_id: int, block: bytes, *, is_last: bool) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_ended(stream_id)
            return
        head = decode_head(block)
        if is_last:
            self._end(stream_id)
        stream.take_head(head, is_last=is_last)

    def _take_data(self, stream_id: int, data: bytes, length: int, *, is_last: bool) -> None:
        self._received_bytes += length
        if self._received_bytes * _TOPPED_UP_AT >= CONNECTION_WINDOW_BYTES:
            self._top_up(0, self._received_bytes)
            self._received_bytes = 0
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_ended(stream_id)
            return
        if is_last:
            self._end(stream_id)
        else:
            stream.received_bytes += length
            if stream.received_bytes * _TOPPED_UP_AT >= STREAM_WINDOW_BYTES:
                self._top_up(stream_id, stream.received_bytes)
                stream.received_bytes = 0
        stream.take_data(data, is_last=is_last)

    def _top_up(self, stream_id: int, received_bytes: int) -> None:
        """Give room again for what has come."""
        self._frames.append(encode_frame(WINDOW_UPDATE, 0, stream_id, _NUMBER.pack(received_bytes)))

    def _check_ended(self, stream_id: int) -> None:
        """Pass over what comes on a stream that we have cancelled; of others we know nothing."""
        if stream_id % 2 == 0 or stream_id >= self._next_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"an answer on stream {stream_id}, which nobody has asked for")

    def _end(self, stream_id: int) -> None:
        """Forget a stream that the peer has ended, and cancel what we would still send: nobody reads it."""
        del self.streams[stream_id]
        if self._uploads.drop(stream_id):
            self._reset(stream_id, ErrorCode.CANCEL)
        if self._waiting:
            self._begin_waiting()

    def _reset(self, stream_id: int, code: ErrorCode) -> None:
        self._uploads.drop(stream_id)
        self._frames.append(encode_frame(RST_STREAM, 0, stream_id, _NUMBER.pack(code)))

    def _begin_waiting(self) -> None:
        while self._waiting and len(self.streams) < self._most_streams:
            waiting = self._waiting.popleft()
            self.begin(waiting.stream, waiting.path, waiting.data, ends=waiting.ends)

    # --- the connection ----------------------------------------------------------------------------------------

    def _take_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == PING:
            if not flags & ACK:
                self._frames.append(encode_frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._uploads.widen(stream_id, _NUMBER.unpack(payload)[0] & MAX_STREAM)
            if self._uploads.are_waiting:
                self._frames += self._uploads.more()
        elif kind == SETTINGS:
            if not flags & ACK:
                self._take_settings(payload)
        elif kind == RST_STREAM:
            self._take_reset(stream_id, ErrorCode(_NUMBER.unpack(payload)[0]))
        elif kind == GOAWAY:
            self._take_goaway(*_TWO_NUMBERS.unpack_from(payload))
        elif kind == PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a push, which we have forbidden")

    def _take_settings(self, payload: bytes) -> None:
        for number, value in _SETTING.iter_unpack(payload):
            if number == _HEADER_TABLE_SIZE:
                self._fields.limit(value)
            elif number == _MAX_CONCURRENT_STREAMS:
                self._most_streams = value
            elif number == _INITIAL_WINDOW_SIZE:
                self._uploads.resize_windows(value)
            elif number == _MAX_FRAME_SIZE:
                self._uploads.resize_frames(value)
        self._frames.append(encode_frame(SETTINGS, ACK, 0, b""))
        self._frames += self._uploads.more()
        woken, self._woken = self._woken, None
        if woken is not None:
            woken()
        self._begin_waiting()

    def _take_reset(self, stream_id: int, code: ErrorCode) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_ended(stream_id)
            return
        del self.streams[stream_id]
        self._uploads.drop(stream_id)
        self._begin_waiting()
        stream.take_end(StreamEnd(code, f"the server reset the stream: {code.name}", code is ErrorCode.REFUSED_STREAM))

    def _take_goaway(self, last_id: int, code: int) -> None:
        """End the streams behind the last one that it names, which the peer has not read, and those that wait."""
        self.is_accepting = False
        ended = StreamEnd(ErrorCode(code), f"the server says goodbye: {ErrorCode(code).name}", untouched=True)
        refused = [stream for stream_id, stream in self.streams.items() if stream_id > last_id & MAX_STREAM]
        waiting, self._waiting = [each.stream for each in self._waiting], deque()
        for stream in refused:
            del self.streams[stream.stream_id]
            self._uploads.drop(stream.stream_id)
        for stream in (*refused, *waiting):
            stream.take_end(ended)


def _greeting() -> bytes:
    """Return what the peer has to know of us first, and room for the answers of many streams."""
    settings = ((_HEADER_TABLE_SIZE, 0), (_ENABLE_PUSH, 0), (_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES))
    payload = b"".join(_SETTING.pack(number, value) for number, value in settings)
    more = _NUMBER.pack(CONNECTION_WINDOW_BYTES - USUAL_WINDOW_BYTES)
    return PREFACE + encode_frame(SETTINGS, 0, 0, payload) + encode_frame(WINDOW_UPDATE, 0, 0, more)
