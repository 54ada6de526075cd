"""
One blob over a stream of CQL, in chunks: how it is cut, sent, received into its place, and put together.

The last value of a request or a row goes from where it lies to where it is wanted. Several requests may be in flight.
Who sends them numbers them, and takes the answers in the order in which they come.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.drivers.blobs import TRUNCATED
from stepbench.model.errors import GARBAGE, NOT_FOUND
from stepbench.model.request import Outcome
from stepbench.wire import cql
from stepbench.wire.cql.answers import GLOBAL_TABLE, NO_METADATA, PERHAPS_DONE, ROWS, refusal, rows
from stepbench.wire.stream import STALL_S, ByteStream

if TYPE_CHECKING:
    import socket

    from stepbench.drivers.blobs import TransferTimes, Verdict
    from stepbench.wire.connect import TlsSession
    from stepbench.wire.cql import Consistency


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


CHUNK_BYTES = 2 * 2**20
IN_FLIGHT = 4
_INT_BYTES, _BIGINT_BYTES = 4, 8
_DONE: Verdict = (Outcome.OK, "")


class ChunkStatements(NamedTuple):
    """CQL texts; the chunk is the last value of either, so that it can be sent and received apart."""

    write: str
    read: str


def statements_of(table: str) -> ChunkStatements:
    """Return the statements for a table."""
    return ChunkStatements(  # the name is ours, values stand beside the text
        write=f"INSERT INTO {table} (key, part, blob_bytes, chunk) VALUES (?, ?, ?, ?)",  # noqa: S608
        read=f"SELECT blob_bytes, chunk FROM {table} WHERE key = ? AND part = ?",  # noqa: S608
    )


def create_table(table: str) -> str:
    """Return what makes the table, unless it is there."""
    columns = "key text, part int, blob_bytes bigint, chunk blob"
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY (key, part))"


class Assembly:
    """
    A blob that is being put together from its parts.

    data: the memory for it; empty until the first part is known. parts: how many there have to be.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.parts = 1
        self._chunk_bytes = 0

    def place(self, part: int, blob_bytes: bytes | None, chunk_bytes: int) -> memoryview | None:
        """Return where a part goes; None: it is none of this blob, or not of its right length."""
        size = int.from_bytes(blob_bytes or b"")
        if part == 0 and 0 < chunk_bytes <= size <= MAX_OBJECT_BYTES:
            self.data, self._chunk_bytes = bytearray(size), chunk_bytes
            self.parts = -(-size // chunk_bytes)
        at = part * self._chunk_bytes
        if size != len(self.data) or chunk_bytes != min(self._chunk_bytes, size - at) or not chunk_bytes:
            return None
        return memoryview(self.data)[at : at + chunk_bytes]


class ChunkedTransfer:
    """
    One transfer of the blob with a key.

    Args:
        stream: over which, for as long as it takes; its statements are prepared.
        statements: see above.
        key: of the blob.
        consistency: how many replicas have to answer.
        times: of the transfer.
    """

    def __init__(
        self, stream: CqlStream, statements: ChunkStatements, key: str, consistency: Consistency, times: TransferTimes
    ) -> None:
        self._stream = stream
        self._write_id, self._read_id = (stream.statement_ids[text] for text in statements)
        self._key = key.encode()
        self._consistency = consistency
        self._times = times

    async def put(self, view: memoryview) -> Verdict:
        """Write all parts; after the first refusal no more are sent."""
        size, verdict, awaited = len(view).to_bytes(_BIGINT_BYTES), _DONE, 0
        for part, at in enumerate(range(0, len(view), CHUNK_BYTES)):
            if awaited == IN_FLIGHT:
                verdict, awaited = await self._acknowledgement(), awaited - 1
                self._times.answered()
                if verdict != _DONE:
                    break
            chunk = view[at : at + CHUNK_BYTES]
            values = self._key, part.to_bytes(_INT_BYTES), size
            self._times.begin()
            head = cql.encode_execute_head(self._write_id, self._consistency, values, len(chunk), part)
            await self._stream.send(head, chunk)
            self._times.hand_over()
            awaited += 1
        for _ in range(awaited):
            acknowledged = await self._acknowledgement()
            verdict = acknowledged if verdict == _DONE else verdict
        return verdict

    async def get(self, blob: Assembly) -> Verdict:
        """Read the first part, and then the others; after the first that is missing no more are asked for."""
        error, asked, awaited = "", 0, 0
        while asked < blob.parts or awaited:
            # Until the first part is here, nobody knows whether there are others.
            while not error and asked < blob.parts and awaited < IN_FLIGHT:
                await self._ask_for(asked)
                asked, awaited = asked + 1, awaited + 1
            if not awaited:
                break
            missing = await self._receive_part(blob)
            error, awaited = error or missing, awaited - 1
            if not self._stream.is_open:
                break
        return (Outcome.FAILED, error) if error else _DONE

    async def _acknowledgement(self) -> Verdict:
        answer = await self._stream.answer()
        if isinstance(answer, StartedRow):
            raise self._stream.end(GARBAGE)
        error = refusal(answer)
        if error is None:
            return _DONE
        return Outcome.UNKNOWN if error.name in PERHAPS_DONE else Outcome.FAILED, error.name

    async def _ask_for(self, part: int) -> None:
        self._times.begin()
        number = part.to_bytes(_INT_BYTES)
        head = cql.encode_execute_head(self._read_id, self._consistency, (self._key,), len(number), part)
        await self._stream.send(head + number)

    async def _receive_part(self, blob: Assembly) -> str:
        """Receive the next part into its place; return why that was impossible, else ""."""
        if not self._stream.received:
            await self._stream.receive()
        self._times.first_byte()
        answer = await self._stream.answer()
        if isinstance(answer, StartedRow):
            place = blob.place(answer.stream, answer.values[0], answer.last_bytes)
            if place is None:
                self._stream.close()  # with what nobody has a place for
                return TRUNCATED
            await self._stream.fill(place)
            return ""
        if error := refusal(answer):
            return error.name
        return _take(answer, blob)


def _take(answer: cql.CqlFrame, blob: Assembly) -> str:
    """Put the part of a small answer into its place; return why that was impossible, else ""."""
    found = rows(answer)
    if not found:
        return TRUNCATED if answer.stream else NOT_FOUND
    blob_bytes, chunk = found[0]
    place = blob.place(answer.stream, blob_bytes, len(chunk or b""))
    if place is None:
        return TRUNCATED
    place[:] = chunk or b""
    return ""
