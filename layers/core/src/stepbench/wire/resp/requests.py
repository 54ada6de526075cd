"""
The protocol of Redis and Valkey, RESP2 and RESP3: commands to bytes, bytes to replies. Pure.

Source: redis.io, "Redis serialization protocol specification"; github.com/redis/redis-specifications, RESP3.md. The
streamed strings and aggregates (`$?`, `*?`) of the latter are sent by no server, and here they are malformed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stepbench.wire.resp import (
    ARRAY,
    ATTRIBUTE,
    BULK,
    KINDS,
    PUSH,
    SCALARS,
    MalformedReplyError,
    Reply,
    build_aggregate,
    decode_blob,
    read_length,
)

CRLF: Final = b"\r\n"
_LINE_BYTES: Final = 64 * 1024
_SHORT_BYTES: Final = 1024
_SINGLE_BYTES: Final = 16 * 1024
_HEADS: Final = [b"$%d\r\n" % size for size in range(_SHORT_BYTES)]
_SHORT_REPLIES: Final[dict[bytes, str | int]] = {b"+OK\r\n": "OK", b":0\r\n": 0, b":1\r\n": 1}
_SHORTEST_STRING_BYTES: Final = len(b"$0\r\n\r\n")
_LONGEST_HEAD_BYTES: Final = len(b"$%d\r\n" % _SINGLE_BYTES)


class ReplyLimits(NamedTuple):
    """
    The bounds of one reply, attributes and all.

    size_bytes: on the wire; a line by itself may have 64 KB whatever this says. elements: in all its arrays, sets and
        maps. depth: of arrays within arrays.
    """

    size_bytes: int = 64 * 1024 * 1024
    elements: int = 1_000_000
    depth: int = 32


def encode_command(*parts: bytes) -> bytes:
    """
    Return the bytes of a command.

    Raises:
        ValueError: it is empty; servers skip that without an answer, and so all later answers would be misread.
    """
    if not parts:
        message = "a command has at least a name"
        raise ValueError(message)
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        pieces += (string_head(len(part)), part, CRLF)
    return b"".join(pieces)


def command_head(name: bytes, arguments: int) -> bytes:
    """Return what comes before the first of so many arguments; it is made once for all commands of a kind."""
    return b"*%d\r\n%b%b\r\n" % (1 + arguments, string_head(len(name)), name)


def string_head(size_bytes: int) -> bytes:
    """Return what comes before a string; a line's end comes behind it."""
    return _HEADS[size_bytes] if 0 <= size_bytes < _SHORT_BYTES else b"$%d\r\n" % size_bytes


class _Open:
    """An aggregate of which `count` elements are expected."""

    __slots__ = ("count", "items", "kind")

    def __init__(self, kind: int, count: int) -> None:
        self.kind = kind
        self.count = count
        self.items: list[Reply] = []


class RespReader:
    """
    Cuts a stream of bytes into replies, wherever it was split on its way.

    What has been read of an array is kept, and a string's rest is counted, so that every byte is looked at once.
    """

    def __init__(self, limits: ReplyLimits = ReplyLimits()) -> None:  # noqa: B008 -- immutable
        self._limits = limits
        self._open: list[_Open] = []
        self._replies: list[Reply] = []
        self._parts: list[bytes] = []
        self._held = self._needed = 0
        self._size_bytes = self._elements = 0
        self._malformed: str | None = None
        self._is_between = True  # nothing of a reply is held, and none was malformed
        self._single_bytes = min(limits.size_bytes, _SINGLE_BYTES)

    def read_single(self, data: bytes) -> str | bytes | int | None:
        """
        Return the one reply that these bytes are, if it is whole and of the most common: in a third of the time.

        None: it is not, whatever it is, and nothing has been read; `feed` it.
        """
        if not self._is_between:
            return None
        size = len(data)
        if size < _SHORTEST_STRING_BYTES:
            return _SHORT_REPLIES.get(data)
        if size > self._single_bytes or data[0] != BULK:
            return None
        start = data.find(CRLF, 0, _LONGEST_HEAD_BYTES) + 2
        size -= start + 2
        return data[start:-2] if data.startswith(string_head(size)) and data.endswith(CRLF) else None

    def feed(self, data: bytes) -> list[Reply]:
        """
        Return the replies that are complete now.

        Raises:
            MalformedReplyError: now and whenever it is called again; the connection is of no use any more.
        """
        if self._malformed is not None:
            raise MalformedReplyError(self._malformed)
        if self._parts:
            data = self._joined(data)
        elif (reply := self.read_single(data)) is not None:
            return [reply]
        self._is_between = False
        at, size = 0, len(data)
        try:
            while at < size and (end := self._token(data, at)) > at:
                at = end
        except MalformedReplyError as error:
            self._malformed = str(error)
            raise MalformedReplyError(self._malformed, self._replies) from None
        if at < size:
            self._parts, self._held = [data[at:] if at else data], size - at
        self._is_between = not (self._parts or self._open or self._size_bytes)
        replies, self._replies = self._replies, []
        return replies

    def _joined(self, data: bytes) -> bytes:
        """Return all that is held, once it is enough to go on with; until then b""."""
        self._parts.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return b""
        data = b"".join(self._parts)
        self._parts, self._held = [], 0
        return data

    def _token(self, data: bytes, at: int) -> int:
        """Take a token; return its end, or where it begins while it is incomplete."""
        line_end = data.find(CRLF, at + 1, at + 1 + _LINE_BYTES)
        if line_end < 0:
            if data[at] not in KINDS:
                self._refuse(data[at])
            if len(data) - at > _LINE_BYTES:
                message = f"a line of more than {_LINE_BYTES:,} bytes"
                raise MalformedReplyError(message)
            self._needed = len(data) - at + 1
            return at
        kind, line, end = data[at], data[at + 1 : line_end], line_end + 2
        if (decode := SCALARS.get(kind)) is not None:
            if not self._open and not self._size_bytes:  # most answers: a line is below any limit
                self._replies.append(decode(line))
                return end
            self._take_bytes(end - at)
            self._complete(decode(line))
            return end
        if kind in b"$!=":
            return self._blob(kind, read_length(line, nullable=kind == BULK), data, at, end)
        self._take_bytes(end - at)
        self._aggregate(kind, line)
        return end

    def _blob(self, kind: int, length: int, data: bytes, at: int, start: int) -> int:
        if length < 0:
            self._take_bytes(start - at)
            self._complete(None)
            return start
        stop = start + length
        if self._size_bytes + stop + 2 - at > self._limits.size_bytes:
            self._too_much("bytes", self._limits.size_bytes)
        if stop + 2 > len(data):
            self._needed = stop + 2 - at
            return at
        if data[stop : stop + 2] != CRLF:
            message = f"a string of {length} bytes does not end there"
            raise MalformedReplyError(message)
        self._size_bytes += stop + 2 - at
        self._complete(data[start:stop] if kind == BULK else decode_blob(kind, data[start:stop]))
        return stop + 2

    def _aggregate(self, kind: int, line: bytes) -> None:
        if kind not in b"*~%|>" or (kind == PUSH and (self._open or line == b"0")):
            self._refuse(kind)
        count = read_length(line, nullable=kind == ARRAY) * (2 if kind in b"%|" else 1)
        if count < 0:
            self._complete(None)
            return
        self._elements += count
        if self._elements > self._limits.elements:
            self._too_much("elements", self._limits.elements)
        if count:
            if len(self._open) >= self._limits.depth:
                self._too_much("levels", self._limits.depth)
            self._open.append(_Open(kind, count))
        elif kind != ATTRIBUTE:
            self._complete(build_aggregate(kind, []))

    def _complete(self, value: Reply) -> None:
        """Take a value that is complete, and with it perhaps all that it is the last element of."""
        while self._open:
            inner = self._open[-1]
            inner.items.append(value)
            if len(inner.items) < inner.count:
                return
            self._open.pop()
            if inner.kind == ATTRIBUTE:  # what it describes comes next
                return
            value = build_aggregate(inner.kind, inner.items)
        self._replies.append(value)
        self._size_bytes = self._elements = 0

    def _take_bytes(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > self._limits.size_bytes:
            self._too_much("bytes", self._limits.size_bytes)

    def _refuse(self, kind: int) -> None:
        message = f"{chr(kind)!r} where a reply or its element begins"
        raise MalformedReplyError(message)

    def _too_much(self, what: str, limit: int) -> None:
        message = f"a reply of more than {limit:,} {what}"
        raise MalformedReplyError(message)
