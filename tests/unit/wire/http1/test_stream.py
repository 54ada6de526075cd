"""Bodies on their way: byte for byte what botocore sends."""

from __future__ import annotations

import asyncio
import os
import socket
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from stepbench.wire.http1.stream import UNSIGNED, send_signed, send_unsigned
from stepbench.wire.stream import ByteStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.wire.http1.sigv4 import Headers
    from stepbench.wire.http1.stream import Sign

    Send = Callable[[ByteStream, Sign, memoryview], Awaitable[bool]]

MIB = 2**20
HEAD = b"the head\r\n\r\n"


class Sent(NamedTuple):
    """What was signed of a request, and what came of its body."""

    headers: dict[str, str]
    body_sha256: str
    body_bytes: int
    body: bytes


async def sent(send: Send, body: bytes) -> Sent:
    """Send a body through a pair of sockets."""
    signed: list[tuple[Headers, str, int]] = []

    def sign(headers: Headers, body_sha256: str, body_bytes: int) -> bytes:
        signed.append((headers, body_sha256, body_bytes))
        return HEAD

    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    stream = ByteStream(ours)
    arrived = asyncio.create_task(asyncio.to_thread(theirs.makefile("rb").read))
    assert await send(stream, sign, memoryview(body))
    stream.close()
    came = await arrived
    theirs.close()
    ((headers, body_sha256, body_bytes),) = signed
    assert came.startswith(HEAD)
    return Sent(dict(headers), body_sha256, body_bytes, came.removeprefix(HEAD))


@pytest.mark.parametrize("body_bytes", [1, 2**16 - 1, 2**16 + 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
async def test_chunks_are_those_of_botocore(body_bytes: int) -> None:
    """Its length is said in advance, its checksum behind it."""
    body = os.urandom(body_bytes)
    wrapper = AwsChunkedWrapper(BytesIO(body), Crc32Checksum, "x-amz-checksum-crc32")
    found = await sent(send_unsigned, body)
    assert found.body == wrapper.read()
    assert found.body_bytes == len(found.body)
    assert found.body_sha256 == UNSIGNED
    assert found.headers == {
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(body_bytes),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }


@pytest.mark.parametrize("body_bytes", [1, 2**16 - 1, 2**16 + 1, 3 * MIB + 5])
async def test_a_signed_body_has_both_hashes_before_it(body_bytes: int) -> None:
    """They are computed piece by piece, and are those of the whole."""
    body = os.urandom(body_bytes)
    checksum = Crc32Checksum()
    found = await sent(send_signed, body)
    assert found == Sent({"x-amz-checksum-crc32": checksum.handle(body)}, sha256(body).hexdigest(), body_bytes, body)


@pytest.mark.parametrize("send", [send_signed, send_unsigned])
async def test_a_peer_that_speaks_first_ends_it(send: Send) -> None:
    """It refuses; what is left of the body would be taken for the next request."""
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    stream = ByteStream(ours)
    theirs.sendall(b"no")
    assert not await send(stream, lambda *_: HEAD, memoryview(bytes(16 * MIB)))
    assert stream.received == b"no"
    stream.close()
    theirs.close()
