"""
The values that Redis and Valkey answer with, and their bytes in RESP2 and RESP3. Pure.

Source: as `wire.resp`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BULK, BULK_ERROR, VERBATIM = b"$!="
ARRAY, SET, MAP, ATTRIBUTE, PUSH = b"*~%|>"
_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_BIG_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,4000}")  # Python refuses to convert more than 4,300 digits
_DOUBLE: Final = re.compile(rb"[+-]?(?:inf|nan|[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,5})?)")
_LENGTH_DIGITS: Final = 10
_FORMAT_BYTES: Final = 4


class ErrorReply(NamedTuple):
    """The server said no; an element of an array may be one, too. `code` is the first word ("WRONGTYPE", "MOVED")."""

    code: str
    message: str


class MapReply(NamedTuple):
    """RESP3's map, in the order of the server. Keys may be of any type, so this is no dict."""

    pairs: list[tuple[Reply, Reply]]


class Push(NamedTuple):
    """RESP3's message that answers no command; the first item says of what kind it is."""

    items: list[Reply]


Reply: TypeAlias = "bool | int | float | str | bytes | list[Reply] | MapReply | ErrorReply | Push | None"
"""
Simple strings are `str`; bulk and verbatim strings `bytes` (the latter without their format); integers and big numbers
`int`; both kinds of null None; arrays and sets lists.
"""


class MalformedReplyError(ValueError):
    """The peer speaks another protocol, or too much of this one. `replies`: those that were complete before that."""

    def __init__(self, message: str, replies: Sequence[Reply] = ()) -> None:
        self.replies = replies
        super().__init__(message)


def build_aggregate(kind: int, items: list[Reply]) -> Reply:
    """Return the array, set, map or push whose elements are all there (a map's: key, value, key, value …)."""
    if kind == MAP:
        return MapReply(list(zip(items[::2], items[1::2], strict=True)))
    return Push(items) if kind == PUSH else items


def read_length(line: bytes, *, nullable: bool) -> int:
    """Read how many bytes or elements follow; -1 is null, where there is such a thing. Raises as a reader does."""
    if nullable and line == b"-1":
        return -1
    if not line.isdigit() or len(line) > _LENGTH_DIGITS:
        message = f"{line[:20]!r} is no length"
        raise MalformedReplyError(message)
    return int(line)


def _error(text: bytes) -> ErrorReply:
    code, _, message = text.decode("utf-8", "replace").partition(" ")
    return ErrorReply(code, message)


def decode_blob(kind: int, body: bytes) -> Reply:
    """Return the value of a bulk error or a verbatim string. Raises as a reader does."""
    if kind == BULK_ERROR:
        return _error(body)
    if body[_FORMAT_BYTES - 1 : _FORMAT_BYTES] != b":":
        message = f"{body[:20]!r} has no format of three letters"
        raise MalformedReplyError(message)
    return body[_FORMAT_BYTES:]


def _decoder(
    what: str, valid: Callable[[bytes], object], convert: Callable[[bytes], Reply]
) -> Callable[[bytes], Reply]:
    def decode(line: bytes) -> Reply:
        if not valid(line):
            message = f"{line[:20]!r} is no {what}"
            raise MalformedReplyError(message)
        return convert(line)

    return decode


SCALARS: Final[dict[int, Callable[[bytes], Reply]]] = {
    ord("+"): lambda line: line.decode("utf-8", "replace"),
    ord("-"): _error,
    ord(":"): _decoder("integer", _INTEGER.fullmatch, int),
    ord("("): _decoder("big number", _BIG_NUMBER.fullmatch, int),
    ord(","): _decoder("double", _DOUBLE.fullmatch, float),
    ord("#"): _decoder("boolean", (b"t", b"f").__contains__, lambda line: line == b"t"),
    ord("_"): _decoder("null", (b"",).__contains__, lambda _: None),
}

KINDS: Final = frozenset(SCALARS) | frozenset(b"$!=*~%|>")
"""The first bytes that there are."""
