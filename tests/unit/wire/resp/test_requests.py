"""Replies come out whole, however they were cut on their way, and what is no reply is an error at once."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.wire.resp import (
    ErrorReply,
    MalformedReplyError,
    MapReply,
    Node,
    Push,
    Redirect,
    Reply,
    SlotMap,
    key_slot,
    parse_redirect,
)
from stepbench.wire.resp.requests import ReplyLimits, RespReader, encode_command

if TYPE_CHECKING:
    from collections.abc import Sequence

Wire = tuple[bytes, Reply]
"""Bytes, and what they mean."""

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)


def _blob(kind: bytes, body: bytes) -> bytes:
    return b"%b%d\r\n%b\r\n" % (kind, len(body), body)


def _error(text: str) -> ErrorReply:
    code, _, message = text.partition(" ")
    return ErrorReply(code, message)


SCALARS: st.SearchStrategy[Wire] = st.one_of(
    TEXT.map(lambda text: (b"+%b\r\n" % text.encode(), text)),
    TEXT.map(lambda text: (b"-%b\r\n" % text.encode(), _error(text))),
    TEXT.map(lambda text: (_blob(b"!", text.encode()), _error(text))),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: (b":%d\r\n" % number, number)),
    st.integers(-(10**50), 10**50).map(lambda number: (b"(%d\r\n" % number, number)),
    st.floats(allow_nan=False).map(lambda number: (b",%b\r\n" % repr(number).encode(), number)),
    st.binary(max_size=100).map(lambda body: (_blob(b"$", body), body)),
    st.binary(max_size=100).map(lambda body: (_blob(b"=", b"txt:" + body), body)),
    st.booleans().map(lambda flag: (b"#t\r\n" if flag else b"#f\r\n", flag)),
    st.sampled_from([(b"_\r\n", None), (b"$-1\r\n", None), (b"*-1\r\n", None)]),
)


def _list_of(kind: bytes, items: Sequence[Wire]) -> Wire:
    return b"%b%d\r\n" % (kind, len(items)) + b"".join(wire for wire, _ in items), [value for _, value in items]


def _map_of(pairs: Sequence[tuple[Wire, Wire]]) -> Wire:
    wire = b"".join(key[0] + value[0] for key, value in pairs)
    return b"%%%d\r\n" % len(pairs) + wire, MapReply([(key[1], value[1]) for key, value in pairs])


def _with_attribute(attribute: Wire, described: Wire) -> Wire:
    return b"|" + attribute[0][1:] + described[0], described[1]


def _nested(inner: st.SearchStrategy[Wire]) -> st.SearchStrategy[Wire]:
    maps = st.lists(st.tuples(inner, inner), max_size=3).map(_map_of)
    lists = st.builds(_list_of, st.sampled_from([b"*", b"~"]), st.lists(inner, max_size=4))
    return st.one_of(lists, maps, st.builds(_with_attribute, maps, inner))


def _push_of(items: Sequence[Wire]) -> Wire:
    return b">%d\r\n" % len(items) + b"".join(wire for wire, _ in items), Push([value for _, value in items])


REPLIES = st.recursive(SCALARS, _nested, max_leaves=12)
STREAMS = st.lists(REPLIES | st.lists(REPLIES, min_size=1, max_size=3).map(_push_of), max_size=6)


def _read(data: bytes, cuts: Sequence[int], limits: ReplyLimits = ReplyLimits()) -> tuple[list[Reply], str]:  # noqa: B008
    """All replies of data that comes in pieces, and what was wrong with it."""
    reader, replies = RespReader(limits), list[Reply]()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for start, end in pairwise(edges):
            replies += reader.feed(data[start:end])
    except MalformedReplyError as error:
        return [*replies, *error.replies], str(error)
    return replies, ""


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


@given(STREAMS, CUTS)
def test_replies_mean_the_same_wherever_they_are_cut(stream: list[Wire], cuts: list[int]) -> None:
    """TCP keeps no boundaries; a reply that depends on them would be right on loopback and wrong on AWS."""
    data = b"".join(wire for wire, _ in stream)
    assert _read(data, cuts) == ([value for _, value in stream], "")


@given(STREAMS)
@settings(max_examples=30)
def test_one_byte_at_a_time(stream: list[Wire]) -> None:
    """The worst of all cuts."""
    data = b"".join(wire for wire, _ in stream)
    assert _read(data, range(len(data))) == ([value for _, value in stream], "")


FUZZ = st.binary(max_size=200) | st.lists(
    st.sampled_from(
        [b"*2\r\n", b"$3\r\nabc\r\n", b":1\r\n", b"%1\r\n", b"|1\r\n", b">1\r\n", b"\r\n", b"$5\r\nab", b"-"]
    )
).map(b"".join)


@given(FUZZ, CUTS)
@settings(max_examples=300)
def test_garbage_is_the_same_garbage_wherever_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """The replies before it are answers, and none after it is one: nothing is paired by chance."""
    limits = ReplyLimits(size_bytes=60, elements=5, depth=2)
    assert repr(_read(data, cuts, limits)) == repr(_read(data, (), limits))


@given(STREAMS.filter(bool), st.integers(0, 10_000), st.integers(0, 255))
def test_what_comes_before_a_broken_byte_is_kept(stream: list[Wire], at: int, byte: int) -> None:
    """The commands answered before the break have their outcome, whatever comes after."""
    data = bytearray(b"".join(wire for wire, _ in stream))
    data[at % len(data)] = byte
    whole, size = 0, 0
    for wire, _ in stream:
        size += len(wire)
        whole += size <= at % len(data)
    replies, _ = _read(bytes(data), ())
    assert replies[:whole] == [value for _, value in stream[:whole]]


@given(REPLIES | st.binary(max_size=30_000).map(lambda body: (_blob(b"$", body), body)), st.integers(0, 2_000))
def test_a_reply_alone_is_the_same_by_the_short_way(wire: Wire, size_bytes: int) -> None:
    """Most answers go by it: what it takes for one must be one, within the limits, and whole."""
    data, value = wire
    assert RespReader().read_single(data) in (None, value)
    assert RespReader().read_single(data[:-1]) is None
    assert RespReader().read_single(data + b"+") is None
    limited = ReplyLimits(size_bytes=size_bytes)
    if _read(data, (), limited)[1]:
        assert RespReader(limited).read_single(data) is None


@given(FUZZ)
def test_the_short_way_takes_no_garbage(data: bytes) -> None:
    """It sees less than the reader does."""
    found = RespReader().read_single(data)
    assert found is None or _read(data, ()) == ([found], "")


def test_within_a_string_nothing_is_a_reply_by_itself() -> None:
    """A value may hold what looks like an answer, and a segment may begin and end with it."""
    reader = RespReader()
    assert reader.feed(b"$9\r\n") == []
    assert reader.read_single(b"+OK\r\n") is None
    assert [reader.feed(piece) for piece in (b"+OK\r\n", b":1\r\n", b"\r\n")] == [[], [], [b"+OK\r\n:1\r\n"]]
    assert reader.read_single(b"+OK\r\n") == "OK"


def test_nan_and_the_infinities() -> None:
    """ZADD and GEODIST answer with them."""
    nan, *others = RespReader().feed(b",nan\r\n,inf\r\n,-inf\r\n,1e3\r\n")
    assert isinstance(nan, float)
    assert math.isnan(nan)
    assert others == [math.inf, -math.inf, 1000.0]


def test_attributes_are_skipped_within_an_array_too() -> None:
    """The specification's own example: the third element has a time to live, and is still the third."""
    data = b"*3\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n:3600\r\n:3\r\n"
    assert RespReader().feed(data) == [[1, 2, 3]]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b":1_000\r\n",
        b": 1\r\n",
        b":\r\n",
        b":12345678901234567890\r\n",
        b",0x1p3\r\n",
        b",1_0\r\n",
        b"(" + b"9" * 5000 + b"\r\n",
        b"#true\r\n",
        b"_null\r\n",
        b"$-2\r\n",
        b"$?\r\n",
        b"*?\r\n",
        b"%-1\r\n",
        b"$3\r\nabcde",
        b"=2\r\nab\r\n",
        b"*1\r\n>1\r\n",
        b">0\r\n",
    ],
)
def test_what_is_no_reply_is_malformed(data: bytes) -> None:
    """Python's own `int` and `float` would take some of them."""
    reader = RespReader()
    with pytest.raises(MalformedReplyError):
        reader.feed(b"+OK\r\n" + data)
    with pytest.raises(MalformedReplyError):
        reader.feed(b"+OK\r\n")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"$101\r\n", "bytes"),
        (b"*9\r\n" + b"$9\r\n123456789\r\n" * 9, "bytes"),
        (b"|1\r\n" * 40, "levels"),
        (b"*11\r\n", "elements"),
        (b"%6\r\n", "elements"),
        (b"*5\r\n*6\r\n", "elements"),
        (b"*1\r\n" * 4, "levels"),
        (b"|0\r\n" * 26, "bytes"),
        (b"+" + b"x" * 70_000, "a line"),
    ],
)
def test_a_reply_beyond_its_limits_is_refused_before_it_is_there(data: bytes, what: str) -> None:
    """A server that says it will send 9 GB must cost no memory."""
    with pytest.raises(MalformedReplyError, match=what):
        RespReader(ReplyLimits(size_bytes=100, elements=10, depth=3)).feed(data)


def test_limits_are_each_replys_own() -> None:
    """A connection that lives for hours must not use them up."""
    reader = RespReader(ReplyLimits(size_bytes=30, elements=2, depth=1))
    assert reader.feed(b"*2\r\n:1\r\n:2\r\n" * 1000) == [[1, 2]] * 1000


def test_a_big_string_in_small_pieces_is_looked_at_once() -> None:
    """Joining all that is there at every piece would take time with the square: 64 MB were a minute."""
    reader = RespReader()
    body = bytes(32 * 1024 * 1024)
    assert reader.feed(b"$%d\r\n" % len(body)) == []
    piece = memoryview(body)
    for at in range(0, len(body), 4096):
        assert reader.feed(bytes(piece[at : at + 4096])) == []
    assert reader.feed(b"\r\n") == [body]


def test_a_command_is_an_array_of_bulk_strings() -> None:
    """The specification's own example; keys and values are bytes, whatever is in them."""
    assert encode_command(b"LLEN", b"mylist") == b"*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n"
    assert encode_command(b"SET", b"", b"\r\n") == b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n"
    with pytest.raises(ValueError, match="name"):
        encode_command()


@given(st.lists(st.binary(max_size=30), min_size=1))
def test_a_command_reads_back(parts: list[bytes]) -> None:
    """Commands and arrays of replies have one form."""
    assert RespReader().feed(encode_command(*parts)) == [parts]


@pytest.mark.parametrize("data", [b"+OK\r\n", b"$0\r\n\r\n", b"$5\r\na\r\nb\n\r\n", b"$05\r\nabcde\r\n", b"$-1\r\n"])
def test_a_reply_that_comes_alone_and_whole_is_the_one_that_comes_in_two_pieces(data: bytes) -> None:
    """The most common are read by a shorter way, which must not read anything else into them."""
    split = RespReader()
    assert RespReader().feed(data) == split.feed(data[:2]) + split.feed(data[2:])


@pytest.mark.parametrize("data", [b"+OK\r\n", b"$1\r\na\r\n"])
def test_a_whole_reply_within_an_array_is_its_element(data: bytes) -> None:
    """A server may send an array element by element."""
    reader = RespReader()
    assert reader.feed(b"*2\r\n") == reader.feed(data) == []
    assert len(reader.feed(data)) == 1


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
