"""
HTTP/1.1 over a stream: bodies go from where they lie to where they are wanted, one request at a time.

S3 checks bodies by their CRC-32, which is sent before or behind them as botocore does. S3 wants a checksum of every
object, and computes one where none is sent; servers that speak its protocol are slow at that. Where the body has to be
hashed all the same, since nothing else protects it, the checksum is among the headers. Over TLS the body is sent in
chunks ("aws-chunked"), and the checksum is computed while the kernel sends them.

Source: AWS, "Signature calculations for trailing headers (chunked uploads)".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from stepbench.model.errors import CONNECTION_CLOSED
from stepbench.wire.http1 import MalformedHttpError, parse_answer, parse_head
from stepbench.wire.http1.sigv4 import Headers
from stepbench.wire.stream import ByteStream, StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.wire.http1 import HttpAnswer, HttpHead

OVERSIZED = "oversized-answer"
NO_LENGTH = "no-content-length"
T = TypeVar("T")


class HttpStream(ByteStream):
    """What it takes beyond `ByteStream`; it closes after an answer that no other may follow."""

    async def answer(self) -> HttpAnswer:
        """Receive an answer of some KB, whole."""
        closed = False
        while (answer := self._parsed(lambda data: parse_answer(data, closed=closed))) is None:  # noqa: B023 -- at once
            try:
                await self.receive()
            except StreamEndedError as ended:
                if ended.reason != CONNECTION_CLOSED:
                    raise
                closed = True  # which ends an answer without a length
        self.received = b""
        if not answer.reusable:
            self.close()
        return answer

    async def head(self) -> HttpHead:
        """Receive an answer's head; what came with it stays in `received`."""
        while (head := self._parsed(parse_head)) is None:
            await self.receive()
        return head

    async def body(self, head: HttpHead, most_bytes: int) -> bytearray:
        """Receive the body behind a head; it has no more than so many bytes."""
        if head.length is None or head.length > most_bytes:
            raise self.end(NO_LENGTH if head.length is None else OVERSIZED)
        self.received = self.received[head.body_at :]
        body = bytearray(head.length)
        with memoryview(body) as view:
            await self.fill(view)
        if self.received or not head.keeps_open:
            self.close()
        return body

    def _parsed(self, parse: Callable[[bytes], T]) -> T:
        try:
            return parse(self.received)
        except MalformedHttpError as error:
            raise self.end(error.code) from error


Sign = Callable[[Headers, str, int], bytes]
"""It takes headers, the body's SHA-256 or what stands for it, and its length as sent, and returns the signed head."""
UNSIGNED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
"""It stands in place of a hash: chunks are not signed, and headers follow the last of them."""
_CHUNK_BYTES = 2**20
_HASHED_BYTES = 2**16
"""Both hashes read pieces of this size, which a core's cache holds."""
_CHECKSUM = "x-amz-checksum-crc32"
_END = b"\r\n"


async def send_signed(stream: ByteStream, sign: Sign, view: memoryview) -> bool:
    """Send a body whose hash is signed; return whether the peer took it all, as `ByteStream.send` does."""
    hashed, checksum = sha256(), 0
    for piece in _pieces(view, _HASHED_BYTES):
        hashed.update(piece)
        checksum = crc32(piece, checksum)
    head = sign(((_CHECKSUM, _text(checksum)),), hashed.hexdigest(), len(view))
    return await stream.send(head, view, attentive=True)


async def send_unsigned(stream: ByteStream, sign: Sign, view: memoryview) -> bool:
    """Send a body that TLS protects, in chunks; otherwise as `send_signed`."""
    headers = (
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(len(view))),
        ("x-amz-trailer", _CHECKSUM),
    )
    framed_bytes = sum(len(_begin(chunk)) + len(chunk) + len(_END) for chunk in _pieces(view, _CHUNK_BYTES))
    head, checksum, left = sign(headers, UNSIGNED, framed_bytes + len(_last(0))), 0, len(view)
    for chunk in _pieces(view, _CHUNK_BYTES):
        checksum, left = crc32(chunk, checksum), left - len(chunk)
        end = _END if left else _END + _last(checksum)
        if not await stream.send(head + _begin(chunk), chunk, end, attentive=True):
            return False
        head = b""
    return True


def _pieces(view: memoryview, most_bytes: int) -> Iterator[memoryview]:
    for at in range(0, len(view), most_bytes):
        yield view[at : at + most_bytes]


def _begin(chunk: memoryview) -> bytes:
    return b"%x\r\n" % len(chunk)


def _last(checksum: int) -> bytes:
    return f"0\r\n{_CHECKSUM}:{_text(checksum)}\r\n\r\n".encode()


def _text(checksum: int) -> str:
    return b64encode(checksum.to_bytes(4, "big")).decode()
