"""One blob over a stream of CQL, in chunks: how it is cut, sent, received into its place, and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.drivers.blobs import TRUNCATED
from stepbench.model.errors import GARBAGE, NOT_FOUND
from stepbench.model.request import Outcome
from stepbench.wire.cql import frames as cql
from stepbench.wire.cql.answers import PERHAPS_DONE, refusal, rows
from stepbench.wire.cql.stream import StartedRow

if TYPE_CHECKING:
    from stepbench.drivers.blobs import TransferTimes, Verdict
    from stepbench.wire.cql.frames import Consistency
    from stepbench.wire.cql.stream import CqlStream

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
