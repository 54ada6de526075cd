from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.drivers.reference.frames import (
    MAX_FRAME_BYTES,
    Frame,
    FrameKind,
    FrameReader,
    MalformedFrameError,
    decode_write,
    encode_frame,
    encode_write,
)


def test_a_frame_is_as_documented() -> None:
    """Length of the rest, kind, number, body; network order."""
    assert encode_frame(FrameKind.CHANGE, 258, b"xy") == b"\0\0\0\x0b" + b"\x12" + b"\0\0\0\0\0\0\1\2" + b"xy"


@given(st.lists(st.tuples(st.sampled_from(FrameKind), st.integers(0, 2**64 - 1), st.binary(max_size=40))), st.data())
def test_frames_come_out_however_the_stream_is_cut(
    frames: list[tuple[FrameKind, int, bytes]], data: st.DataObject
) -> None:
    """TCP keeps no boundaries."""
    stream = b"".join(encode_frame(*frame) for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader, found = FrameReader(), list[Frame]()
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == [Frame(*frame) for frame in frames]


@pytest.mark.parametrize("length", [8, MAX_FRAME_BYTES + 1])
def test_a_length_that_no_frame_has_is_malformed(length: int) -> None:
    """Else a stranger's bytes would be waited for, gigabytes of them."""
    with pytest.raises(MalformedFrameError, match=f"a frame of {length} bytes"):
        FrameReader().feed(struct.pack("!IBQ", length, 1, 1))


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_write_keeps_key_and_value_apart(key: bytes, value: bytes) -> None:
    """Both may hold any byte."""
    (frame,) = FrameReader().feed(encode_write(5, key, value))
    assert (frame.kind, frame.number, decode_write(frame.body)) == (FrameKind.WRITE, 5, (key, value))


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\3ab"])
def test_a_write_shorter_than_its_key_is_malformed(body: bytes) -> None:
    """It would be stored under half a key."""
    with pytest.raises(MalformedFrameError):
        decode_write(body)
