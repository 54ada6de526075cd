"""
Protocols that the proxy passes on without speaking them: it only has to see where requests begin and end.

Source: RFC 9113 (HTTP/2), section 4.1; PostgreSQL documentation, "Frontend/Backend Protocol", Message Formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.testing.fault_proxy.framing import Piece

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
        """One."""
        return [Piece(data, begins=True, ends=True)]

    def answers(self, data: bytes) -> list[Piece]:
        """One."""
        return [Piece(data, begins=True, ends=True)]

    def forwarded(self, first: Piece) -> None:
        """Nothing to remember."""


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
        """The preface, then frames."""
        units = self._client.feed(data, self._client_unit_bytes)
        return [self._piece(unit, self._asked) for unit in units]

    def answers(self, data: bytes) -> list[Piece]:
        """Frames."""
        return [self._piece(unit, self._answering) for unit in self._server.feed(data, _frame_bytes)]

    def forwarded(self, first: Piece) -> None:
        """Streams are numbered: nothing to remember."""

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
        """The start-up message is a request too, and the first."""
        return [self._request(unit) for unit in self._client.feed(data, self._client_unit_bytes)]

    def answers(self, data: bytes) -> list[Piece]:
        """Messages."""
        return [self._answer(unit) for unit in self._server.feed(data, _message_bytes)]

    def forwarded(self, first: Piece) -> None:
        """One at a time: nothing to remember."""

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


def plain() -> Plain:
    """The framing of one connection."""
    return Plain()


def http2() -> Http2:
    """The framing of one connection."""
    return Http2()


def postgresql() -> Postgresql:
    """The framing of one connection."""
    return Postgresql()
