"""What is read out of an answer's fields, whatever they are."""

from __future__ import annotations

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from stepbench.wire.http2_fields import Head, decode_head
from stepbench.wire.http2_frames import ErrorCode, Http2Error


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
