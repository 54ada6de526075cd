"""Frames come out whole and clean, however they were cut on their way, and what is no HTTP/2 is an error at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from stepbench.wire.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_FRAME_BYTES,
    PADDED,
    PING,
    PRIORITISED,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Head,
    Http2Error,
    Http2Frame,
    Http2FrameReader,
    decode_head,
    encode_frame,
    encode_request,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


Wire = tuple[bytes, Http2Frame]
"""Bytes, and what they mean."""
STREAMS, ENDS = st.integers(1, 2**31 - 1), st.sampled_from([0, END_STREAM])
BODIES = st.binary(max_size=60)


@st.composite
def _data(draw: st.DrawFn) -> Wire:
    stream, flags, body, padding = draw(STREAMS), draw(ENDS), draw(BODIES), draw(st.none() | st.integers(0, 20))
    if padding is None:
        return encode_frame(DATA, flags, stream, body), (DATA, flags, stream, body, len(body))
    flags, payload = flags | PADDED, bytes([padding]) + body + bytes(padding)
    return encode_frame(DATA, flags, stream, payload), (DATA, flags, stream, body, len(payload))


@st.composite
def _fields(draw: st.DrawFn) -> Wire:
    """In one frame or several, with or without padding and priority."""
    stream, ends, parts = draw(STREAMS), draw(ENDS), draw(st.lists(BODIES, min_size=1, max_size=4))
    flags, payload = ends, parts[0]
    if draw(st.booleans()):
        flags, payload = flags | PRIORITISED, bytes(5) + payload
    if draw(st.booleans()):
        flags, payload = flags | PADDED, b"\x03" + payload + bytes(3)
    flags |= END_HEADERS if len(parts) == 1 else 0
    wire = encode_frame(HEADERS, flags, stream, payload)
    for number, part in enumerate(parts[1:], start=2):
        wire += encode_frame(CONTINUATION, END_HEADERS if number == len(parts) else 0, stream, part)
    return wire, (HEADERS, flags | END_HEADERS, stream, b"".join(parts), sum(map(len, parts)))


CONTROLS = st.sampled_from(
    [
        (kind, flags, stream, payload, len(payload))
        for kind, flags, stream, payload in [
            (SETTINGS, 0, 0, bytes(12)),
            (SETTINGS, 1, 0, b""),
            (PING, 0, 0, b"12345678"),
            (GOAWAY, 0, 0, bytes(8) + b"too_many_pings"),
            (WINDOW_UPDATE, 0, 0, bytes(4)),
            (WINDOW_UPDATE, 0, 5, bytes(4)),
            (RST_STREAM, 0, 3, bytes(4)),
            (PRIORITY, 0, 3, bytes(5)),
        ]
    ]
).map(lambda frame: (encode_frame(*frame[:4]), frame))


def _read(data: bytes, cuts: Sequence[int]) -> list[Http2Frame]:
    """All frames of data that comes in pieces."""
    reader, frames = Http2FrameReader(), list[Http2Frame]()
    for start, end in pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
        frames += reader.frames(data[start:end])
    return frames


@given(st.lists(st.one_of(_data(), _fields(), CONTROLS), max_size=6), st.lists(st.integers(0, 2000), max_size=8))
def test_frames_come_out_as_they_went_in(wires: list[Wire], cuts: list[int]) -> None:
    """Segments of TCP end anywhere; padding and priorities are of no use to anybody."""
    assert _read(b"".join(wire for wire, _ in wires), cuts) == [frame for _, frame in wires]


def test_a_request_is_read_at_every_cut() -> None:
    """The two frames that nearly everything consists of."""
    wire = encode_request(7, b"fields", b"data")
    expected = [(HEADERS, END_HEADERS, 7, b"fields", 6), (DATA, END_STREAM, 7, b"data", 4)]
    assert all(_read(wire, [cut]) == expected for cut in range(len(wire)))


def test_frames_of_unknown_types_are_passed_over() -> None:
    """The protocol is extended by them."""
    assert _read(encode_frame(77, 255, 12, b"new") + encode_frame(PING, 0, 0, bytes(8)), []) == [
        (PING, 0, 0, bytes(8), 8)
    ]


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (encode_frame(DATA, 0, 1, bytes(MAX_FRAME_BYTES + 1)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(DATA, 0, 0, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(HEADERS, END_HEADERS, 0, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(RST_STREAM, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(RST_STREAM, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(SETTINGS, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(SETTINGS, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(SETTINGS, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(GOAWAY, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(WINDOW_UPDATE, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(DATA, PADDED, 1, b"\x03ab"), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(DATA, PADDED, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(HEADERS, END_HEADERS | PRIORITISED, 1, b"1234"), ErrorCode.FRAME_SIZE_ERROR),
        (encode_frame(CONTINUATION, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(HEADERS, 0, 1, b"") + encode_frame(PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(HEADERS, 0, 1, b"") + encode_frame(CONTINUATION, END_HEADERS, 3, b""), ErrorCode.PROTOCOL_ERROR),
        (encode_frame(HEADERS, 0, 1, b"") + encode_frame(CONTINUATION, 0, 1, b"") * 9_000, ErrorCode.ENHANCE_YOUR_CALM),
    ],
)
def test_a_broken_rule_is_an_error_after_the_frames_before_it(wire: bytes, code: ErrorCode) -> None:
    """Answers that came before are answers; behind it nothing can be trusted."""
    before, seen = (PING, 1, 0, bytes(8), 8), list[object]()
    with pytest.raises(Http2Error) as caught:  # noqa: PT012 -- what came before it is looked at, too
        for frame in Http2FrameReader().frames(encode_frame(*before[:4]) + wire):
            seen.append(frame)
    assert (caught.value.code, seen) == (code, [before])


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_whatever_comes_is_frames_or_an_error(data: bytes, cuts: list[int]) -> None:
    """Never another exception, which nobody would catch on the reader's way."""
    try:
        frames = _read(data, cuts)
    except Http2Error:
        return
    assert sum(len(frame[3]) for frame in frames) <= len(data)


def _block(*fields: tuple[str, str], huffman: bool = True) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(list(fields), huffman=huffman)


@pytest.mark.parametrize("huffman", [True, False])
def test_the_status_and_its_message_are_read(*, huffman: bool) -> None:
    """Percent signs are how gRPC sends what is not ASCII."""
    fields = (("grpc-status", "8"), ("grpc-message", "database space exceeded %E2%80%94 50%25"), ("date", "today"))
    assert decode_head(_block(*fields, huffman=huffman)) == Head("", "", 8, "database space exceeded — 50%")


@pytest.mark.parametrize("code", ["", "-0", "1e1", "zero", "²", pytest.param("9" * 5_000, id="long")])
def test_a_status_that_is_no_number_is_none_that_we_know(code: str) -> None:
    """It must not end as an exception on the reader's way, nor as OK."""
    assert decode_head(_block((":status", "200"), ("grpc-status", code))) == Head("200", "", -1, "")


def test_a_peer_that_counts_on_our_memory_is_not_understood() -> None:
    """It was told that there is none: what it means we cannot know."""
    with pytest.raises(Http2Error) as caught:
        decode_head(b"\x88\xbe")
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


@given(st.binary(max_size=80))
def test_whatever_comes_is_a_head_or_an_error(block: bytes) -> None:
    """Never another exception."""
    try:
        head = decode_head(block)
    except Http2Error:
        return
    assert isinstance(head, Head)
