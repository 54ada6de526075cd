"""Keys find their slots and slots their nodes, by the specification's own examples."""

from __future__ import annotations

import pytest

from stepbench.wire.resp.cluster import Node, Redirect, SlotMap, key_slot, parse_redirect
from stepbench.wire.resp.values import ErrorReply, Reply

ASKED = Node("10.0.0.1", 6379)
OTHER = Node("10.0.0.2", 6380)


def test_slots_are_crc16_of_the_key() -> None:
    """The specification gives CRC16("123456789") = 0x31C3, and 12182 for "foo"."""
    assert key_slot(b"123456789") == 0x31C3 % 16_384
    assert key_slot(b"foo") == 12_182


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"{user1000}.following", b"user1000"),
        (b"foo{}{bar}", b"foo{}{bar}"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"foo{bar}{zap}", b"bar"),
        (b"foo}bar{", b"foo}bar{"),
    ],
)
def test_hash_tags(key: bytes, hashed: bytes) -> None:
    """Keys that an operation needs together must be on one node."""
    assert key_slot(key) == _crc16(hashed) % 16_384


def _crc16(data: bytes) -> int:
    """The specification's definition, bit by bit: polynomial 0x1021, from 0, nothing reflected."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc


@pytest.mark.parametrize(
    ("error", "redirect"),
    [
        (ErrorReply("MOVED", "3999 10.0.0.2:6380"), Redirect(3999, OTHER, ask=False)),
        (ErrorReply("ASK", "3999 10.0.0.2:6380"), Redirect(3999, OTHER, ask=True)),
        (ErrorReply("MOVED", "3999 :6380"), Redirect(3999, Node("10.0.0.1", 6380), ask=False)),
        (ErrorReply("MOVED", "1 ::1:6380"), Redirect(1, Node("::1", 6380), ask=False)),
        (ErrorReply("MOVED", "1 [::1]:6380"), Redirect(1, Node("::1", 6380), ask=False)),
        (ErrorReply("MOVED", "16384 10.0.0.2:6380"), None),
        (ErrorReply("MOVED", "3999 10.0.0.2"), None),
        (ErrorReply("MOVED", ""), None),
        (ErrorReply("ERR", "3999 10.0.0.2:6380"), None),
    ],
)
def test_redirections_are_read(error: ErrorReply, redirect: Redirect | None) -> None:
    """An endpoint without a host is the one that was asked."""
    assert parse_redirect(error, ASKED) == redirect


def test_the_slot_map_follows_what_moves() -> None:
    """ASK is for one command; the next one for that slot goes where the map says."""
    reply: Reply = [
        [0, 8191, [b"10.0.0.1", 6379, b"id"], [b"10.0.0.9", 6379, b"replica"]],
        [8192, 16_383, [None, 6390, b"id"]],
    ]
    slots = SlotMap(reply, ASKED)
    moved = key_slot(b"foo")
    assert slots.find_node(b"foo") == Node("10.0.0.1", 6390)
    slots.follow(Redirect(moved, OTHER, ask=True))
    assert slots.find_node(b"foo") == Node("10.0.0.1", 6390)
    slots.follow(Redirect(moved, OTHER, ask=False))
    assert slots.find_node(b"foo") == OTHER
    assert slots.nodes == {ASKED, Node("10.0.0.1", 6390), OTHER}


def test_slots_without_a_node_have_none() -> None:
    """A cluster that is being built."""
    assert SlotMap([], ASKED).find_node(b"foo") is None


@pytest.mark.parametrize("reply", [None, [1], [[0, 16_384, [b"h", 1]]], [[5, 4, [b"h", 1]]], [[0, 1, []]]])
def test_another_answer_is_no_slot_map(reply: Reply) -> None:
    """A server without cluster support answers with an error."""
    with pytest.raises(ValueError, match=r"slots|SLOTS"):
        SlotMap(reply, ASKED)
