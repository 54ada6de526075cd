"""
Where requests and answers begin and end in a stream of bytes; HTTP, PostgreSQL and what is not known, unspoken.

Source: RFC 9112 (HTTP/1.1), sections 6 and 7; RFC 9113 (HTTP/2), section 4.1; PostgreSQL documentation,
"Frontend/Backend Protocol", Message Formats.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


_PREFACE_BYTES = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_FRAME_HEAD_BYTES = 9
_DATA, _HEADERS = 0, 1
_END_STREAM = 1
_MESSAGE_HEAD_BYTES = 5
_LENGTH_BYTES = 4
_ENDS_REQUEST = b"QS"  # Query, Sync
_NO_REQUEST = b"Xp"  # Terminate; a password belongs to the request that is the start-up message
_READY_FOR_QUERY = b"Z"
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_BODILESS = frozenset({204, 304})
_CHUNKS, _TO_THE_END = -1, -2


class Piece(NamedTuple):
    """
    Bytes that are passed on together.

    begins, ends: whether they are the first, or the last, of a request (or of an answer).
    stream: which of the exchanges under way on this connection; 0 where there is one at a time.
    """

    data: bytes
    begins: bool = False
    ends: bool = False
    stream: int = 0


class Framing(Protocol):
    """One connection's protocol, both directions. Made anew for each connection."""

    def requests(self, data: bytes) -> list[Piece]:
        """Return what the client has sent since the last call; incomplete frames are kept for the next one."""
        ...

    def answers(self, data: bytes) -> list[Piece]:
        """Return what the server has sent, likewise."""
        ...

    def forwarded(self, first: Piece) -> None:
        """Note that a request whose first piece is this one goes to the server, so that an answer will come."""
        ...


class _Cutter:
    """Cuts a stream into units; `size_of(buffer)` is the first one's length, 0 if more bytes have to come to tell."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes, size_of: Callable[[bytes], int]) -> list[bytes]:
        self._buffer += data
        units = []
        while 0 < (size := size_of(self._buffer)) <= len(self._buffer):
            units.append(self._buffer[:size])
            self._buffer = self._buffer[size:]
        return units


class Plain:
    """`Framing` of a protocol that we do not know: what is read at once is a request, or an answer, of its own."""

    def requests(self, data: bytes) -> list[Piece]:
        """Return one piece."""
        return [Piece(data, begins=True, ends=True)]

    def answers(self, data: bytes) -> list[Piece]:
        """Return one piece."""
        return [Piece(data, begins=True, ends=True)]

    def forwarded(self, first: Piece) -> None:
        """Remember nothing."""


class Http2:
    """
    `Framing` of HTTP/2 without TLS, such as gRPC: a request is a stream of the client's.

    Header blocks are not read, since their compression has a memory that only the two ends share.
    """

    def __init__(self) -> None:
        self._client, self._server = _Cutter(), _Cutter()
        self._preface_due = True
        self._asked: set[int] = set()
        self._answering: set[int] = set()

    def requests(self, data: bytes) -> list[Piece]:
        """Cut into the preface and frames."""
        units = self._client.feed(data, self._client_unit_bytes)
        return [self._piece(unit, self._asked) for unit in units]

    def answers(self, data: bytes) -> list[Piece]:
        """Cut into frames."""
        return [self._piece(unit, self._answering) for unit in self._server.feed(data, _frame_bytes)]

    def forwarded(self, first: Piece) -> None:
        """Remember nothing: streams are numbered."""

    def _client_unit_bytes(self, buffer: bytes) -> int:
        if not self._preface_due:
            return _frame_bytes(buffer)
        self._preface_due = len(buffer) < _PREFACE_BYTES
        return 0 if self._preface_due else _PREFACE_BYTES

    @staticmethod
    def _piece(unit: bytes, seen: set[int]) -> Piece:
        kind, flags = unit[3], unit[4]
        if unit.startswith(b"PRI ") or kind not in (_DATA, _HEADERS):
            return Piece(unit)
        stream = int.from_bytes(unit[5:9], "big")
        begins, ends = stream not in seen, bool(flags & _END_STREAM)
        (seen.discard if ends else seen.add)(stream)
        return Piece(unit, begins=begins, ends=ends, stream=stream)


def _frame_bytes(buffer: bytes) -> int:
    return _FRAME_HEAD_BYTES + int.from_bytes(buffer[:3], "big") if len(buffer) >= _FRAME_HEAD_BYTES else 0


class Postgresql:
    """`Framing` of PostgreSQL's protocol 3 without TLS: requests end with Query or Sync, answers with ReadyForQuery."""

    def __init__(self) -> None:
        self._client, self._server = _Cutter(), _Cutter()
        self._start_up_due = True
        self._in_request = self._in_answer = False

    def requests(self, data: bytes) -> list[Piece]:
        """Cut into messages; the start-up message is a request too, and the first."""
        return [self._request(unit) for unit in self._client.feed(data, self._client_unit_bytes)]

    def answers(self, data: bytes) -> list[Piece]:
        """Cut into messages."""
        return [self._answer(unit) for unit in self._server.feed(data, _message_bytes)]

    def forwarded(self, first: Piece) -> None:
        """Remember nothing: there is one at a time."""

    def _client_unit_bytes(self, buffer: bytes) -> int:
        if not self._start_up_due:
            return _message_bytes(buffer)
        size = int.from_bytes(buffer[:_LENGTH_BYTES], "big") if len(buffer) >= _LENGTH_BYTES else 0
        self._start_up_due = not 0 < size <= len(buffer)
        return size

    def _request(self, unit: bytes) -> Piece:
        kind = unit[:1]
        if kind == b"\0":  # the high byte of the start-up message's length: it has no type
            return Piece(unit, begins=True, ends=True)
        if kind in _NO_REQUEST:
            return Piece(unit)
        begins, self._in_request = not self._in_request, kind not in _ENDS_REQUEST
        return Piece(unit, begins=begins, ends=not self._in_request)

    def _answer(self, unit: bytes) -> Piece:
        begins, self._in_answer = not self._in_answer, unit[:1] != _READY_FOR_QUERY
        return Piece(unit, begins=begins, ends=not self._in_answer)


def _message_bytes(buffer: bytes) -> int:
    return 1 + int.from_bytes(buffer[1:_MESSAGE_HEAD_BYTES], "big") if len(buffer) >= _MESSAGE_HEAD_BYTES else 0


def expects_continue(head: bytes) -> bool:
    """Check whether the client holds its body back until the server lets it go on."""
    return _EXPECTS.search(head) is not None


class Http1:
    """`Framing` for HTTP/1.1 without TLS."""

    def __init__(self) -> None:
        self._methods: deque[bytes] = deque()
        self._requests = _Messages(_request_body)
        self._answers = _Messages(self._answer_body)

    def requests(self, data: bytes) -> list[Piece]:
        """Cut requests into pieces."""
        return self._requests.feed(data)

    def answers(self, data: bytes) -> list[Piece]:
        """Cut answers into pieces; an interim one (100 Continue) neither begins nor ends anything."""
        return self._answers.feed(data)

    def forwarded(self, first: Piece) -> None:
        """Keep the method: an answer to a HEAD has a length and no body."""
        self._methods.append(first.data.split(b" ", 1)[0])

    def _answer_body(self, head: bytes) -> int | None:
        status = int(head[9:12])
        if status < 200:
            return None
        method = self._methods.popleft() if self._methods else b""
        if method == b"HEAD" or status in _BODILESS:
            return 0
        return _declared(head, otherwise=_TO_THE_END)


def _request_body(head: bytes) -> int:
    return _declared(head, otherwise=0)


def _declared(head: bytes, otherwise: int) -> int:
    if _CHUNKED.search(head):
        return _CHUNKS
    length = _LENGTH.search(head)
    return int(length[1]) if length else otherwise


class _Messages:
    """One direction. `body_of(head)`: the body's bytes, `_CHUNKS`, `_TO_THE_END`, or None for an interim answer."""

    def __init__(self, body_of: Callable[[bytes], int | None]) -> None:
        self._body_of = body_of
        self._buffer = b""
        self._left = 0

    def feed(self, data: bytes) -> list[Piece]:
        self._buffer += data
        pieces = []
        while (piece := self._next()) is not None:
            pieces.append(piece)
        return pieces

    def _next(self) -> Piece | None:
        if not self._buffer:
            return None
        if self._left == _TO_THE_END:
            return Piece(self._take(len(self._buffer)))
        if self._left == _CHUNKS:
            return self._chunk()
        if self._left:
            part = self._take(min(self._left, len(self._buffer)))
            self._left -= len(part)
            return Piece(part, ends=not self._left)
        end = self._buffer.find(_HEAD_END)
        return None if end < 0 else self._head(self._take(end + len(_HEAD_END)))

    def _head(self, head: bytes) -> Piece:
        body = self._body_of(head)
        if body is None:
            return Piece(head)
        self._left = body
        return Piece(head, begins=True, ends=not body)

    def _chunk(self) -> Piece | None:
        line_end = self._buffer.find(b"\r\n")
        if line_end < 0:
            return None
        size = int(self._buffer[:line_end].split(b";")[0], 16)
        if size:
            whole = line_end + 2 + size + 2
            return Piece(self._take(whole)) if len(self._buffer) >= whole else None
        # The last chunk has no data: trailers may follow, then an empty line.
        end = self._buffer.find(_HEAD_END, line_end)
        if end < 0:
            return None
        self._left = 0
        return Piece(self._take(end + len(_HEAD_END)), ends=True)

    def _take(self, count: int) -> bytes:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken


plain, http1, http2, postgresql = Plain, Http1, Http2, Postgresql
"""Each makes the framing of one connection."""
