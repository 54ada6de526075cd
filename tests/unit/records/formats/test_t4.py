from __future__ import annotations

import random
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.records import t4_item

from stepbench.contracts.identity import MAX_SLICES
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.t4 import ENTRY as FORM
from stepbench.records.formats.t4 import (
    FEW_ENTRIES,
    MAX_ENTRIES,
    PLAIN,
    ZLIB,
    Entry,
    decode_fallback,
    encode_fallback,
    pack,
)
from stepbench.records.formats.t4_items import parse_item, shape_of, unpack, unpack_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.records.formats.t4_items import T4Item

entries = st.builds(
    Entry,
    phase=st.integers(0, 2**8 - 1),
    attempt=st.integers(0, 2**8 - 1),
    writer=st.integers(0, 2**16 - 1),
    slice=st.integers(0, MAX_SLICES),
    batch_index=st.integers(0, 2**16 - 1),
    sequence=st.integers(0, 2**32 - 1),
    t4_ns=st.integers(-(2**63), 2**63 - 1),
    t3_ns=st.integers(-(2**63), 2**63 - 1),
    position=st.integers(-(2**63), 2**63 - 1),
)
ENTRY = Entry(1, 2, 3, 4, 5, 6, 7)
FIRST = Entry(1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Each of the others differs from it in one field: so items have as many similar_entries, and other planes."""
similar_entries = st.builds(
    lambda field, value: FIRST._replace(**{field: value}),
    st.sampled_from(["writer", "batch_index", "sequence", "t4_ns"]),
    st.integers(0, 2**16 - 1),
)
items = st.lists(
    st.one_of(
        st.lists(similar_entries, max_size=3),
        st.lists(similar_entries, min_size=FEW_ENTRIES + 1, max_size=FEW_ENTRIES + 2),
        st.just([FIRST._replace(sequence=place % 250) for place in range(1_000)]),
    ),
    max_size=12,
)


@given(st.lists(entries, max_size=3 * FEW_ENTRIES))
def test_what_is_packed_is_unpacked(drawn: list[Entry]) -> None:
    """By field name, so that analysis does not depend on their order; few and many are packed in different ways."""
    unpacked = unpack(pack(drawn), "key")
    for name in Entry._fields:
        assert unpacked[name].tolist() == [getattr(entry, name) for entry in drawn]


@given(entries, st.integers(1, 100))
def test_equal_entries_are_unpacked_as_often_as_they_came(entry: Entry, count: int) -> None:
    """Nothing differs between them, so that nothing but their number is written."""
    assert unpack(pack([entry] * count), "key").tobytes() == FORM.pack(*entry) * count


def test_what_was_stored_before_entries_were_compressed_is_read() -> None:
    """Results outlive versions: a table may hold items of a hundred entries as they were."""
    rows = b"".join(FORM.pack(*ENTRY._replace(batch_index=place)) for place in range(100))
    assert unpack(rows, "key")["batch_index"].tolist() == list(range(100))


def test_a_batch_of_a_stream_takes_few_write_units() -> None:
    """A table is paid, and throttles, by the kB: 100 arrivals of ten writers take one, 10,000 took 352."""

    def batch(count: int) -> list[Entry]:
        first = [Entry(0, 0, place % 10, 0, place, 1_000 + place // 10, 1_700, 1_600) for place in range(count)]
        return [entry._replace(t3_ns=entry.t3_ns + entry.batch_index // 3_000 * 10**9) for entry in first]

    assert len(pack(batch(100))) < 400
    assert len(pack(batch(10_000))) < 10_000


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-1],
        lambda packed: packed[: len(PLAIN)],
        lambda _: ZLIB + b"junk",
        lambda _: ZLIB + zlib.compress(struct.pack("<IQ", 3, 1) + bytes(36) + b"ab"),
        lambda _: ZLIB + zlib.compress(struct.pack("<IQ", 1, 1 << 36) + bytes(37)),
        lambda _: ZLIB + zlib.compress(b""),
    ],
)
def test_compressed_entries_that_are_damaged_are_named(damage: Callable[[bytes], bytes]) -> None:
    """Half-read arrivals would be reported as lost events."""
    few, many = ([ENTRY._replace(sequence=place * place) for place in range(count)] for count in (100, 1_000))
    assert (pack(few)[: len(PLAIN)], pack(many)[: len(ZLIB)]) == (PLAIN, ZLIB)
    for packed in (pack(few), pack(many)):
        with pytest.raises(CorruptRecordsError, match="t4 item some-key"):
            unpack(damage(packed), "some-key")


def test_a_batch_larger_than_the_index_is_kept_all_the_same() -> None:
    """A watch may hand over a backlog of any length."""
    assert unpack(pack([ENTRY._replace(batch_index=70_000)]), "key")["batch_index"].tolist() == [65_535]


def test_a_full_item_stays_below_what_the_table_takes() -> None:
    """DynamoDB refuses items above 400 kB, whatever is in them; the largest batch of a stream has 10,000."""
    noise = random.Random(1)  # noqa: S311 -- no secret
    narrow = 0xFFFE
    entries = [
        Entry(
            1,
            2,
            *(noise.randrange(narrow) for _ in range(3)),
            *(noise.randrange(1 << bits) for bits in (32, 63, 63, 63)),
        )
        for _ in range(MAX_ENTRIES)
    ]
    assert MAX_ENTRIES == 10_000
    assert len(pack(entries)) < 365_000


def test_an_item_is_read_with_its_circumstances() -> None:
    """Cold starts and batch sizes explain latencies."""
    item = {"sk": "request#00000000000000000007", **t4_item([ENTRY], cold=True, init_ns=9, tokens=["v1"], ignored=2)}
    read = parse_item(item)
    assert (read.request_id, read.tokens, read.cold, read.init_ns, read.ignored) == ("request", ("v1",), True, 9, 2)
    assert read.entries["sequence"].tolist() == [6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 2}, "n is 2, but it has 1 entries"),
        ({"tokens": ["a", "b"]}, "2 tokens"),
        ({"entries": b"abc"}, "no whole number"),
        ({"entries": None}, "TypeError"),
        ({"batch": "many"}, "ValueError"),
    ],
)
def test_an_item_that_contradicts_itself_is_named(change: dict[str, Any], message: str) -> None:
    """Half-read arrivals would be reported as lost events."""
    with pytest.raises(CorruptRecordsError, match=rf"t4 item request#7: .*{message}"):
        parse_item({"sk": "request#7", **t4_item([ENTRY]), **change})


def test_an_item_survives_the_fallback() -> None:
    """While the table is down, items go to the bucket as documents."""
    item = {**t4_item([ENTRY], tokens=["v1"]), "source": "receiver"}
    assert decode_fallback("key", encode_fallback("request#7", item)) == {"sk": "request#7", **item}


@pytest.mark.parametrize("body", [b"", b"{}", b'{"entries": "?"}', b"[]", b'{"entries": 3}'])
def test_a_fallback_that_is_none_is_named(body: bytes) -> None:
    """Somebody else's file under our prefix."""
    with pytest.raises(CorruptRecordsError, match="t4 fallback some/key"):
        decode_fallback("some/key", body)


def test_receivers_start_with_little() -> None:
    """Each of these would add tens of milliseconds or more to every cold start, and so to trigger latencies."""
    heavy = {"numpy", "boto3", "botocore", "pydantic", "asyncio", "ssl", "http.client", "stepbench.settings"}
    code = f"import sys, stepbench.stages.receive_events; print(*(set(sys.modules) & {heavy}))"
    started = subprocess.run([sys.executable, "-c", code], timeout=60, check=True, capture_output=True, text=True)
    assert started.stdout.split() == []


def item(number: int, drawn: list[Entry]) -> T4Item:
    """Return the item that analysis reads from the table."""
    return parse_item({"sk": f"request-{number}#7", **t4_item(drawn)})


@given(items)
def test_items_that_are_unpacked_together_are_what_each_is_by_itself(drawn: list[list[Entry]]) -> None:
    """In the order given, alike or not: an entry in another item's place would be another delivery's arrival."""
    read = [item(number, each) for number, each in enumerate(drawn)]
    written = [b"".join(FORM.pack(*entry) for entry in each) for each in drawn]
    assert [each.entries.tobytes() for each in read] == written
    assert unpack_together([each.packed for each in read]).tobytes() == b"".join(written)


def test_alike_items_have_one_shape_and_others_have_another() -> None:
    """Items that are unpacked in one go have as many entries, and the same planes."""
    many = [FIRST._replace(sequence=place) for place in range(100)]
    one, same, other, longer = (
        item(0, many),
        item(1, [entry._replace(writer=8) for entry in many]),
        item(2, [entry._replace(writer=entry.sequence) for entry in many]),
        item(3, many[:-1]),
    )
    assert shape_of(one.packed) == shape_of(same.packed)
    assert len({shape_of(each.packed) for each in (one, other, longer)}) == 3
    assert [each.arrivals for each in (one, longer)] == [100, 99]
