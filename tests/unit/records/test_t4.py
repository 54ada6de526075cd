from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.errors import CorruptRecordsError
from stepbench.records.t4 import MAX_ENTRIES, Entry, decode_fallback, encode_fallback, pack, parse_item, unpack
from stepbench.testing.records import t4_item

entries = st.builds(
    Entry,
    phase=st.integers(0, 2**8 - 1),
    attempt=st.integers(0, 2**8 - 1),
    writer=st.integers(0, 2**16 - 1),
    slice=st.integers(0, 2**16 - 1),
    batch_index=st.integers(0, 2**16 - 1),
    sequence=st.integers(0, 2**32 - 1),
    t4_ns=st.integers(-(2**63), 2**63 - 1),
    t3_ns=st.integers(-(2**63), 2**63 - 1),
    position=st.integers(-(2**63), 2**63 - 1),
)
ENTRY = Entry(1, 2, 3, 4, 5, 6, 7)


@given(st.lists(entries, max_size=20))
def test_what_is_packed_is_unpacked(drawn: list[Entry]) -> None:
    """By field name, so that analysis does not depend on their order."""
    unpacked = unpack(pack(drawn), "key")
    for name in Entry._fields:
        assert unpacked[name].tolist() == [getattr(entry, name) for entry in drawn]


def test_a_batch_larger_than_the_index_is_kept_all_the_same() -> None:
    """A watch may hand over a backlog of any length."""
    assert unpack(pack([ENTRY._replace(batch_index=70_000)]), "key")["batch_index"].tolist() == [65_535]


def test_a_full_item_stays_below_what_the_table_takes() -> None:
    """DynamoDB refuses items above 400 kB."""
    assert len(pack([ENTRY] * MAX_ENTRIES)) < 300_000


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


def test_receivers_start_without_numpy() -> None:
    """It is not in their layers, and would add a tenth of a second to each cold start."""
    code = "import sys, stepbench.stages.receive_events; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
