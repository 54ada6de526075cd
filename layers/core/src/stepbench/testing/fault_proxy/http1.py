"""
HTTP/1.1 in pieces: heads, then bodies as they come.

Source: RFC 9112, sections 6 and 7.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from stepbench.testing.fault_proxy.framing import Piece

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_BODILESS = frozenset({204, 304})
_CHUNKS, _TO_THE_END = -1, -2


def expects_continue(head: bytes) -> bool:
    """Whether the client holds its body back until it is told to go on."""
    return _EXPECTS.search(head) is not None


def http1() -> Http1:
    """The framing of one connection."""
    return Http1()


class Http1:
    """`Framing` for HTTP/1.1 without TLS."""

    def __init__(self) -> None:
        self._methods: deque[bytes] = deque()
        self._requests = _Messages(_request_body)
        self._answers = _Messages(self._answer_body)

    def requests(self, data: bytes) -> list[Piece]:
        """Requests in pieces."""
        return self._requests.feed(data)

    def answers(self, data: bytes) -> list[Piece]:
        """Answers in pieces; an interim one (100 Continue) neither begins nor ends anything."""
        return self._answers.feed(data)

    def forwarded(self, first: Piece) -> None:
        """An answer to a HEAD has a length and no body, so methods are kept."""
        self._methods.append(first.data.split(b" ", 1)[0])

    def _answer_body(self, head: bytes) -> int | None:
        status = int(head[9:12])
        if status < 200:  # noqa: PLR2004 -- interim answers
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
