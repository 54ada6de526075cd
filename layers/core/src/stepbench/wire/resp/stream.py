"""RESP over a stream: strings go from where they lie to where they are wanted, one command at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.model.errors import GARBAGE
from stepbench.wire.resp.requests import CRLF, command_head, string_head
from stepbench.wire.resp.values import BULK, SCALARS, MalformedReplyError, Reply, read_length
from stepbench.wire.stream import ByteStream

if TYPE_CHECKING:
    from stepbench.wire.stream import Piece

OVERSIZED = "oversized-answer"
_LINE_BYTES = 64 * 1024


class RespStream(ByteStream):
    """What it takes beyond `ByteStream`. Of replies it knows lines and strings, as GET, SET and ASKING have them."""

    async def command(self, name: bytes, *arguments: bytes, payload: Piece | None = None) -> None:
        """Send a command; the payload is its last argument."""
        parts = [command_head(name, len(arguments) + (payload is not None))]
        for argument in arguments:
            parts += (string_head(len(argument)), argument, CRLF)
        if payload is None:
            await self.send(b"".join(parts))
        else:
            await self.send(b"".join([*parts, string_head(len(payload))]), payload, CRLF)

    async def reply(self, most_bytes: int) -> Reply | bytearray:
        """Receive the next reply; a string has no more than so many bytes, and is a bytearray."""
        while (end := self.received.find(CRLF)) < 0:
            if len(self.received) > _LINE_BYTES:
                raise self.end(GARBAGE)
            await self.receive()
        kind, line = self.received[0], self.received[1:end]
        self.received = self.received[end + len(CRLF) :]
        try:
            if kind != BULK:
                return SCALARS[kind](line)
            length = read_length(line, nullable=True)
        except (MalformedReplyError, KeyError) as error:
            raise self.end(GARBAGE) from error
        return None if length < 0 else await self._string(length, most_bytes)

    async def _string(self, length: int, most_bytes: int) -> bytearray:
        if length > most_bytes:
            raise self.end(OVERSIZED)
        data = bytearray(length + len(CRLF))  # the line's end comes along, which saves a system call
        with memoryview(data) as view:
            await self.fill(view)
        if not data.endswith(CRLF):
            raise self.end(GARBAGE)
        del data[length:]
        return data
