"""Deliveries as they are stored; the quick way of alike records gives what the slow one of any records gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.identity import EventId, trial_tag, update_key
from stepbench.records import packed_deliveries
from stepbench.records.deliveries import parse_delivery
from stepbench.records.packed_deliveries import pack_delivery, pack_one_by_one
from stepbench.records.t4 import FEW_ENTRIES, unpack
from stepbench.testing.records import REF, dynamodb_record, postgresql_delivery, s3_record

T4_NS = 1_800_000_000_000_000_000
OTHER_TAG = trial_tag("run-2", 7)
EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
COUNT = 3 * FEW_ENTRIES
Change = Callable[[dict[str, Any]], None]

events = st.builds(
    EventId,
    tag=st.just(REF.tag),
    phase=st.integers(0, 0xFF),
    writer=st.integers(0, 0xFFFF),
    slice=st.integers(0, 0xFFFF),
    attempt=st.integers(0, 0xFF),
    sequence=st.integers(0, 0xFFFF_FFFF),
    matching=st.booleans(),
)
seconds = st.sampled_from([0, 1_700_000_000, 1_700_000_001.5, -1, 2**33])


def batch(count: int = COUNT) -> list[dict[str, Any]]:
    """Records of one trial that were all written."""
    return [dynamodb_record(EVENT._replace(sequence=number), sequence=str(100 + number)) for number in range(count)]


def with_value(text: object) -> Change:
    """What makes of a record one with another value."""

    def change(record: dict[str, Any]) -> None:
        record["dynamodb"]["NewImage"]["value"]["S"] = text

    return change


CHANGES: dict[str, Change] = {
    "of another trial": with_value(EVENT._replace(tag=OTHER_TAG).text()),
    "in capitals": with_value(EVENT._replace(sequence=0xABC).text().upper()),
    "digits in capitals": with_value(EVENT.text()[:-3] + "ABC"),
    "no digits": with_value(EVENT.text()[:-3] + "xyz"),
    "a blank for a digit": with_value(EVENT.text()[:-2] + " 5"),
    "a blank for a hyphen": with_value(EVENT.text()[:-9] + " 00000005"),
    "hyphens elsewhere": with_value(EVENT.text()[:16] + "010002-0003--04-00000005"),
    "wide digits": with_value(EVENT.text()[:-1] + "\uff15"),
    "too short": with_value(EVENT.text()[:-1]),
    "empty": with_value(""),
    "no text": with_value(5),
    "a list": with_value([EVENT.text()]),
    "removed": lambda record: record.update(eventName="REMOVE"),
    "without a name": lambda record: record.pop("eventName"),
    "without an image": lambda record: record["dynamodb"].pop("NewImage"),
    "without a change": lambda record: record.pop("dynamodb"),
    "without a time": lambda record: record["dynamodb"].pop("ApproximateCreationDateTime"),
    "at no time": lambda record: record["dynamodb"].update(ApproximateCreationDateTime="soon"),
    "at a nested time": lambda record: record["dynamodb"].update(ApproximateCreationDateTime=[1]),
    "at not a number": lambda record: record["dynamodb"].update(ApproximateCreationDateTime=float("nan")),
    "at the end of times": lambda record: record["dynamodb"].update(ApproximateCreationDateTime=1e30),
    "without a place in the stream": lambda record: record["dynamodb"].pop("SequenceNumber"),
    "modified": lambda record: record.update(eventName="MODIFY"),
    "not to pass the filter": with_value(EVENT._replace(matching=False).text()),
}


@given(st.lists(st.tuples(events, seconds), min_size=1, max_size=COUNT))
def test_alike_records_are_packed_as_one_by_one(drawn: list[tuple[EventId, float]]) -> None:
    """To the byte: which way a batch takes must not be seen in a result."""
    event = {"Records": [dynamodb_record(each, at_s=at_s) for each, at_s in drawn]}
    assert pack_delivery(event, T4_NS) == pack_one_by_one(parse_delivery(event, T4_NS))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("place", [0, 20])
def test_a_batch_with_one_other_record_is_packed_as_one_by_one(place: int, change: Change) -> None:
    """A stricter or a laxer reading of identities would lose arrivals, or make some up."""
    records = copy.deepcopy(batch())
    change(records[place])
    event = {"Records": records}
    assert pack_delivery(event, T4_NS) == pack_one_by_one(parse_delivery(event, T4_NS))


def test_the_usual_batch_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow one takes ten times the CPU, for which the shard's next batch waits."""
    monkeypatch.setattr(packed_deliveries, "parse_delivery", lambda *_: pytest.fail("read one by one"))
    delivery = pack_delivery({"Records": batch()}, T4_NS)
    (share,) = delivery.shares.values()
    assert (delivery.store, delivery.batch, delivery.stream_head, share.arrivals) == ("dynamodb", COUNT, "100", COUNT)
    entries = unpack(share.entries, "key")
    assert entries["batch_index"].tolist() == entries["sequence"].tolist() == list(range(COUNT))
    assert set(entries["t4_ns"].tolist()) == {T4_NS}
    assert [set(entries[name].tolist()) for name in ("phase", "writer", "slice", "attempt")] == [{1}, {2}, {3}, {4}]


def test_a_batch_of_ten_thousand_fits_into_one_item() -> None:
    """DynamoDB takes 400 kB, and paid are those that are written."""
    (share,) = pack_delivery({"Records": batch(10_000)}, T4_NS).shares.values()
    assert share.arrivals == 10_000
    assert len(share.entries) < 5_000


def test_each_trial_of_a_delivery_has_its_share() -> None:
    """A late event of the last trial may share a batch with this one's; removals are counted, too."""
    other = EVENT._replace(tag=OTHER_TAG)
    records = [dynamodb_record(EVENT), dynamodb_record(other, name="REMOVE"), dynamodb_record(EVENT), {}]
    delivery = pack_delivery({"Records": records}, T4_NS)
    assert {tag: (share.arrivals, share.ignored) for tag, share in delivery.shares.items()} == {
        REF.tag: (2, 0),
        OTHER_TAG: (0, 1),
    }
    assert [each.place for each in delivery.malformed] == [3]


def test_tokens_come_where_any_arrival_has_one() -> None:
    """Else they would be empty attributes, paid with every item."""
    event = {"Records": [s3_record(update_key(REF.tag, 9, 59), version="abc")]}
    assert pack_delivery(event, T4_NS).shares[REF.tag].tokens == ["abc"]
    assert pack_delivery(postgresql_delivery(EVENT), T4_NS).shares[REF.tag].tokens == []


def test_a_time_that_no_entry_has_room_for_is_malformed() -> None:
    """Raised, the whole batch would be delivered again and again."""
    records = [dynamodb_record(EVENT, at_s=1e30), s3_record(update_key(REF.tag, 9, 59), at="9999-01-01T00:00:00Z")]
    for record in records:
        delivery = pack_delivery({"Records": [record]}, T4_NS)
        assert (delivery.shares, len(delivery.malformed)) == ({}, 1)
