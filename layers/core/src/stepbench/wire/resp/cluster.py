"""
Which node of a cluster a key belongs to. Pure.

Source: redis.io, "Redis cluster specification": key distribution model, hash tags, MOVED and ASK redirection.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple

from stepbench.wire.resp.values import ErrorReply, Reply

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
