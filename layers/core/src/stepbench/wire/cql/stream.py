"""
CQL over a stream: the last value of a request or a row goes from where it lies to where it is wanted.

Several requests may be in flight. Who sends them numbers them, and takes the answers in the order in which they come.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.errors import GARBAGE
from stepbench.wire.cql import frames as cql
from stepbench.wire.cql.answers import GLOBAL_TABLE, NO_METADATA, ROWS
from stepbench.wire.stream import STALL_S, ByteStream

if TYPE_CHECKING:
    import socket

    from stepbench.wire.tls import TlsSession

_INT = struct.Struct("!i")
_ROWS_HEAD = struct.Struct("!iiii")
"""Kind of the result, flags, columns, and without metadata how many rows."""
_WHOLE_BYTES = 4_096
"""An answer up to this is taken whole."""


class StartedRow(NamedTuple):
    """The one row of an answer, but for its last value, which is taken by `fill`: that has so many bytes."""

    stream: int
    values: tuple[bytes | None, ...]
    last_bytes: int


class CqlStream(ByteStream):
    """What it takes beyond `ByteStream`. statement_ids: as `CqlConnection`'s."""

    def __init__(self, connected: socket.socket, tls: TlsSession | None = None, *, stall_s: float = STALL_S) -> None:
        super().__init__(connected, tls, stall_s=stall_s)
        self.statement_ids: dict[str, bytes] = {}

    async def ask(self, request: cql.CqlRequest) -> cql.CqlFrame:
        """Send a request whose answer is small, while no other is in flight, and receive that."""
        await self.send(cql.encode(request, 0))
        answered = await self.answer()
        if isinstance(answered, StartedRow):
            raise self.end(GARBAGE)
        return answered

    async def answer(self) -> cql.CqlFrame | StartedRow:
        """Receive the next answer; of a large row its last value comes next, and has to be taken."""
        try:
            head = cql.read_head(await self.take(cql.HEAD_BYTES))
            begin = b""
            if head.opcode == cql.Opcode.RESULT and not head.flags and head.body_bytes > _WHOLE_BYTES:
                begin = await self.take(_ROWS_HEAD.size)
                kind, flags, columns, count = _ROWS_HEAD.unpack(begin)
                # Cassandra says that all columns are of one table, of whose names it says nothing.
                if (kind, flags & ~GLOBAL_TABLE, count) == (ROWS, NO_METADATA, 1):
                    return await self._row(head, columns)
            return await self._whole(head, begin)
        except cql.MalformedCqlError as error:
            raise self.end(GARBAGE) from error

    async def _row(self, head: cql.FrameHead, columns: int) -> StartedRow:
        values: list[bytes | None] = []
        left = head.body_bytes - _ROWS_HEAD.size
        for _ in range(columns - 1):
            size = int(_INT.unpack(await self.take(_INT.size))[0])
            left -= _INT.size + max(0, size)
            if left < 0:
                raise self.end(GARBAGE)
            values.append(None if size < 0 else await self.take(size))
        (last_bytes,) = _INT.unpack(await self.take(_INT.size))
        if last_bytes != left - _INT.size:
            raise self.end(GARBAGE)
        return StartedRow(head.stream, tuple(values), last_bytes)

    async def _whole(self, head: cql.FrameHead, begin: bytes) -> cql.CqlFrame:
        body = bytearray(head.body_bytes)
        body[: len(begin)] = begin
        with memoryview(body) as view:
            await self.fill(view[len(begin) :])
        return cql.CqlFrame(head.stream, head.opcode, cql.without_warnings(bytes(body), head.flags))
