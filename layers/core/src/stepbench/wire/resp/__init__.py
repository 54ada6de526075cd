"""
RESP, the protocol of Redis and Valkey. Here their values, and which node of a cluster has a key: pure.

Source: redis.io, "Redis serialization protocol specification", and "Redis cluster specification" (key distribution
model, hash tags, MOVED and ASK redirection); github.com/redis/redis-specifications, RESP3.md.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

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


SLOTS = 16_384
_REDIRECT_WORDS = 2


class Node(NamedTuple):
    """The address of a node."""

    host: str
    port: int


class Redirect(NamedTuple):
    """
    The node asked is not the right one.

    node: the right one; its host is that of the node asked where the answer names none.
    ask: for this one command only, after ASKING; otherwise the slot has moved for good.
    """

    slot: int
    node: Node
    ask: bool


def key_slot(key: bytes) -> int:
    """Return the slot in [0, 16384): CRC16 (XMODEM) of the key, or of what its first braces hold, if anything."""
    start = key.find(b"{")
    if start >= 0 and (end := key.find(b"}", start + 1)) > start + 1:
        key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def parse_redirect(error: ErrorReply, asked: Node) -> Redirect | None:
    """Return the redirection that an error is; None: it is none, or does not say where to."""
    words = error.message.split()
    if error.code not in ("MOVED", "ASK") or len(words) < _REDIRECT_WORDS:
        return None
    slot, (host, _, port) = words[0], words[1].rpartition(":")
    if not (slot.isdecimal() and port.isdecimal()) or int(slot) >= SLOTS:
        return None
    return Redirect(int(slot), Node(host.strip("[]") or asked.host, int(port)), error.code == "ASK")


class SlotMap:
    """
    Primary nodes by slot.

    Raises:
        ValueError: the reply is none of CLUSTER SLOTS.
    """

    def __init__(self, cluster_slots: Reply, asked: Node) -> None:
        self._nodes: list[Node | None] = [None] * SLOTS
        if not isinstance(cluster_slots, list):
            message = f"{cluster_slots!r} is no answer to CLUSTER SLOTS"
            raise ValueError(message)  # noqa: TRY004 -- the peer's fault, not the caller's
        for entry in cluster_slots:
            first, last, node = _read_range(entry, asked)
            self._nodes[first : last + 1] = [node] * (last + 1 - first)

    @property
    def nodes(self) -> frozenset[Node]:
        """Return the nodes that have a slot."""
        return frozenset(node for node in self._nodes if node is not None)

    def find_node(self, key: bytes) -> Node | None:
        """Return the node that has the key; None: none has its slot."""
        return self._nodes[key_slot(key)]

    def follow(self, redirect: Redirect) -> None:
        """Remember that a slot has moved; a redirection of one request (ASK) changes nothing."""
        if not redirect.ask:
            self._nodes[redirect.slot] = redirect.node


def _read_range(entry: Reply, asked: Node) -> tuple[int, int, Node]:
    match entry:
        case [int(first), int(last), [host, int(port), *_], *_] if 0 <= first <= last < SLOTS:
            name = host.decode() if isinstance(host, bytes) else ""  # null: as the node asked
            return first, last, Node(name or asked.host, port)
    message = f"{entry!r} is no range of slots"
    raise ValueError(message)
