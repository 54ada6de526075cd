"""HTTP/1.1 over a stream: bodies go from where they lie to where they are wanted, one request at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stepbench.model.errors import CONNECTION_CLOSED
from stepbench.wire.http1.messages import MalformedHttpError, parse_answer, parse_head
from stepbench.wire.stream import ByteStream, StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.wire.http1.messages import HttpAnswer, HttpHead

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
