"""
HTTP/1.1 with AWS's signatures. Here its messages as bytes: pure functions, no sockets.

`parse_answer` reads the whole buffer anew each time that bytes arrive. An answer to a write nearly always comes in one
piece, and `most_bytes` bounds what a peer that drips single bytes can cost. Nearly all of them are alike, too: one
regular expression takes those, and says nothing of any other, which is read with care then.

Source: RFC 9112 (HTTP/1.1), sections 4 to 7.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ANSWER_BYTES = 65_536
"""The default limit. Stores answer a write with some hundred bytes; errors are a few thousand at most."""
_MAX_SIZE_LINE_BYTES = 256
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_START = b"HTTP/1."
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")
_ORDINARY_FIELD = rb"""(?:
    [!\#$%&'*+.^_`|~0-9A-BD-SU-Zabd-su-z-] [!\#$%&'*+.^_`|~0-9A-Za-z-]*+ : .*\r\n
    | [Cc]ontent-[Tt]ype: .*\r\n
    | [Cc]onnection:\ [Kk]eep-[Aa]live\r\n
)"""
"""One that does not say how long the answer is, or whether another may follow; of names with C or T the usual two."""
_ORDINARY_HEAD = re.compile(
    rb"HTTP/1\.1\ ([2-9][0-9]{2})(?:\ [^\r\n]*+)?\r\n"
    rb"((?:" + _ORDINARY_FIELD + rb")*+ [Cc]ontent-[Ll]ength:\ ?([0-9]{1,9})\r\n (?:" + _ORDINARY_FIELD + rb")*+)\r\n",
    re.VERBOSE,
)
_SWITCHING_PROTOCOLS = 101
_BODILESS = frozenset({204, 304})
_BODILESS_CODES = frozenset({b"204", b"304"})
_OK, _OK_CODE = 200, b"200"


class MalformedHttpError(ValueError):
    """The peer's bytes are no HTTP answer; `code` is short and one of few, fit for a record's `error`."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(f"{code}: {detail}")


class HttpAnswer(NamedTuple):
    """
    One complete final answer.

    head: its header lines, each with its end. reusable: whether the connection may carry another request (nothing
    followed, and the peer keeps it open).
    """

    status: int
    head: bytes
    body: bytes
    reusable: bool

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """Return the fields by their names in lower case; read when they are asked for, which is seldom."""
        return _headers(self.head)


_answer = tuple.__new__
"""As `HttpAnswer`, in half the time: of a named tuple's own way most is the handling of names and defaults."""


def parse_answer(data: bytes, *, closed: bool = False, most_bytes: int = MAX_ANSWER_BYTES) -> HttpAnswer | None:
    """
    Return the answer at the start of `data`; interim (1xx) answers before it are skipped.

    Args:
        data: everything received since the request was sent.
        closed: the peer will send no more.
        most_bytes: larger answers are refused.

    Returns:
        The answer, or None if more bytes have to come.

    Raises:
        MalformedHttpError: the bytes can never become an answer ("garbage-answer", "oversized-answer"), or the
            peer closed before the end of one ("connection-closed").
    """
    ordinary = _ORDINARY_HEAD.match(data)
    if ordinary is not None:
        status, fields, size = ordinary.groups()
        start = ordinary.end()
        if int(size) == len(data) - start <= most_bytes and status not in _BODILESS_CODES:
            return _answer(HttpAnswer, (_OK if status == _OK_CODE else int(status), fields, data[start:], True))
    answer = _final_answer(data, most_bytes, closed=closed)
    if answer is None and len(data) > most_bytes:
        raise _oversized(len(data), most_bytes)
    if answer is None and closed:
        code = "connection-closed"
        raise MalformedHttpError(code, f"after {len(data)} bytes of an answer")
    return answer


class HttpHead(NamedTuple):
    """
    The head of one final answer, of which the body may still have to come.

    length: of the body, in bytes, as the head states it; None: it does not (chunks, or until the end). body_at: where
    the body begins in what was received. keeps_open: whether the connection may carry another request after it.
    """

    status: int
    length: int | None
    body_at: int
    keeps_open: bool


def parse_head(data: bytes, *, closed: bool = False) -> HttpHead | None:
    """
    Return the head of the answer at the start of `data`; interim (1xx) answers before it are skipped.

    Args:
        data: everything received since the request was sent.
        closed: the peer will send no more.

    Returns:
        The head, or None if more bytes have to come.

    Raises:
        MalformedHttpError: as `parse_answer`.
    """
    at = 0
    while (end := data.find(b"\r\n\r\n", at)) >= 0:
        version, status = _status(data, at)
        if status >= 200:  # noqa: PLR2004 -- below: interim answers
            headers = _headers(data[data.find(b"\r\n", at) + 2 : end + 2])
            length = headers.get(b"content-length", b"")
            counted = length.isdigit() and b"transfer-encoding" not in headers
            return HttpHead(status, int(length[:20]) if counted else None, end + 4, _keeps_open(version, headers))
        at = end + 4
    _refuse_foreign_start(data[at : at + len(_START)])
    if closed:
        code = "connection-closed"
        raise MalformedHttpError(code, f"after {len(data)} bytes of an answer")
    if len(data) > MAX_ANSWER_BYTES:
        raise _oversized(len(data), MAX_ANSWER_BYTES)
    return None


def _final_answer(data: bytes, most_bytes: int, *, closed: bool) -> HttpAnswer | None:
    at = 0
    while True:
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            _refuse_foreign_start(data[at : at + len(_START)])
            return None
        version, status = _status(data, at)
        if status == _SWITCHING_PROTOCOLS:
            raise _garbage(data[at:end])  # nobody asked for it
        if status >= 200:  # noqa: PLR2004 -- below: interim answers, such as 100 Continue
            return _body(data, at, end, version, status, most_bytes=most_bytes, closed=closed)
        at = end + 4


def _body(  # noqa: PLR0913 -- where the head was found, what it said, and how much there may be
    data: bytes, at: int, end: int, version: int, status: int, *, most_bytes: int, closed: bool
) -> HttpAnswer | None:
    head = data[data.find(b"\r\n", at) + 2 : end + 2]
    headers = _headers(head)
    start = end + 4
    delimited = True
    if status in _BODILESS:
        framed: tuple[bytes, int] | None = b"", start
    elif b"transfer-encoding" in headers:
        framed = _chunked(data, start, headers, most_bytes)
    elif b"content-length" in headers:
        framed = _counted(data, start, headers[b"content-length"], most_bytes)
    else:
        delimited = False
        framed = (data[start:], len(data)) if closed else None
    if framed is None:
        return None
    body, after = framed
    if len(body) > most_bytes:
        raise _oversized(len(body), most_bytes)
    return HttpAnswer(status, head, body, delimited and _keeps_open(version, headers) and after == len(data))


def _keeps_open(version: int, headers: Mapping[bytes, bytes]) -> bool:
    return version == 1 and b"close" not in headers.get(b"connection", b"").lower()


def _garbage(what: bytes) -> MalformedHttpError:
    return MalformedHttpError("garbage-answer", repr(what[:80]))


def _oversized(size_bytes: int, most_bytes: int) -> MalformedHttpError:
    return MalformedHttpError("oversized-answer", f"{size_bytes} bytes are more than {most_bytes}")


def _refuse_foreign_start(start: bytes) -> None:
    if not _START.startswith(start):
        raise _garbage(start)


def _status(data: bytes, at: int) -> tuple[int, int]:
    line = data[at : data.index(b"\r\n", at)]
    found = _STATUS_LINE.fullmatch(line)
    if not found:
        raise _garbage(line)
    return int(found[1]), int(found[2])


def _headers(head: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n")[:-1]:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _garbage(line)
        name, value = name.lower(), value.strip(b" \t")
        if headers.setdefault(name, value) != value:
            if name in (b"content-length", b"transfer-encoding"):
                # Two framings: whoever picks one may take the rest for the next answer.
                raise _garbage(line)
            headers[name] += b", " + value
    return headers


def _counted(data: bytes, start: int, length: bytes, most_bytes: int) -> tuple[bytes, int] | None:
    if not length.isdigit():
        raise _garbage(b"content-length: " + length)
    size = int(length[:20])  # enough to know; int() of a long text is slow, and refused
    if size > most_bytes:
        raise _oversized(size, most_bytes)
    after = start + size
    return (data[start:after], after) if len(data) >= after else None


def _chunked(data: bytes, at: int, headers: Mapping[bytes, bytes], most_bytes: int) -> tuple[bytes, int] | None:
    if headers[b"transfer-encoding"].lower() != b"chunked" or b"content-length" in headers:
        raise _garbage(b"transfer-encoding: " + headers[b"transfer-encoding"])
    chunks: list[bytes] = []
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            if len(data) - at > _MAX_SIZE_LINE_BYTES:
                raise _garbage(data[at:])
            return None
        size = _chunk_size(data[at:line_end], most_bytes)
        at = line_end + 2
        if size == 0:
            after = _after_trailers(data, at)
            return None if after is None else (b"".join(chunks), after)
        ends = data[at + size : at + size + 2]
        if not b"\r\n".startswith(ends):
            raise _garbage(ends)
        if len(ends) < 2:  # noqa: PLR2004 -- the chunk's own CR LF is not there yet
            return None
        chunks.append(data[at : at + size])
        at += size + 2


def _chunk_size(line: bytes, most_bytes: int) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not _HEX.fullmatch(digits):
        raise _garbage(line)
    size = int(digits, 16)
    if size > most_bytes:
        raise _oversized(size, most_bytes)
    return size


def _after_trailers(data: bytes, at: int) -> int | None:
    while (line_end := data.find(b"\r\n", at)) > at:
        at = line_end + 2
    return None if line_end < 0 else line_end + 2
