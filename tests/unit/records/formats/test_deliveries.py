from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record

from stepbench.contracts.identity import (
    ANY_ATTEMPT,
    UNRESOLVED_PHASE,
    EventId,
    delete_key,
    parse_event_id,
    put_key,
    trial_tag,
    update_key,
)
from stepbench.records.formats import deliveries
from stepbench.records.formats.deliveries import Malformed, Removal, pack_delivery, pack_one_by_one, parse_delivery
from stepbench.records.formats.t4 import FEW_ENTRIES, Entry
from stepbench.records.formats.t4_items import unpack

EVENT = EventId("aaaaaaaaaa-0001", 1, 2, 3, 4, 5)
T4_NS = 1_800_000_000_000_000_000
OTHER_TAG = trial_tag("run-2", 7)
OWN_EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
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


def test_an_s3_put_is_known_by_its_key() -> None:
    """By hand: 2026-01-02T03:04:05.678Z is 1,767,323,045.678 s after the epoch."""
    delivery = parse_delivery({"Records": [s3_record(put_key(EVENT, 59).replace("/", "%2F", 1))]}, T4_NS)
    (arrival,) = delivery.arrivals
    assert (delivery.store, delivery.batch, arrival.tag, arrival.token) == ("s3", 1, EVENT.tag, "")
    assert arrival.entry == Entry(1, 4, 2, 3, 0, 5, T4_NS, 1_767_323_045_678_000_000)


def test_an_s3_update_is_known_by_its_version() -> None:
    """One key has many updates; only the version id tells which."""
    (arrival,) = parse_delivery({"Records": [s3_record(update_key(EVENT.tag, 9, 59), version="abc")]}, T4_NS).arrivals
    assert (arrival.tag, arrival.token) == (EVENT.tag, "abc")
    assert (arrival.entry.phase, arrival.entry.sequence) == (UNRESOLVED_PHASE, 9)


def test_the_event_that_s3_sends_on_configuration_is_no_arrival() -> None:
    """It comes once for each notification that is set up, and is not malformed."""
    delivery = parse_delivery({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "bucket"}, T4_NS)
    assert (delivery.arrivals, delivery.malformed, delivery.batch) == ((), (), 0)


def test_a_stream_batch_keeps_the_place_of_each_record() -> None:
    """The paper's own tool read only the first."""
    records = [
        dynamodb_record(EVENT._replace(sequence=n), sequence=str(100 + n), at_s=1_700_000_000.5) for n in range(3)
    ]
    delivery = parse_delivery({"Records": records}, T4_NS)
    assert (delivery.batch, delivery.stream_head) == (3, "100")
    assert [(a.entry.batch_index, a.entry.sequence) for a in delivery.arrivals] == [(0, 0), (1, 1), (2, 2)]
    assert {a.entry.t3_ns for a in delivery.arrivals} == {1_700_000_000_500_000_000}


def test_a_postgresql_trigger_tells_microseconds() -> None:
    """Its t3 is the finest of all stores."""
    (arrival,) = parse_delivery(postgresql_delivery(EVENT, 1_700_000_000_123_456), T4_NS).arrivals
    assert arrival.entry == Entry(1, 4, 2, 3, 0, 5, T4_NS, 1_700_000_000_123_456_000)


def test_removals_are_counted_and_are_no_arrivals() -> None:
    """Tear-down and expiry delete what was measured."""
    removed = dynamodb_record(EVENT, name="REMOVE")
    assert parse_delivery({"Records": [removed]}, T4_NS).removals == (Removal(EVENT.tag),)
    deleted = s3_record(put_key(EVENT, 59), name="ObjectRemoved:Delete")
    assert parse_delivery({"Records": [deleted]}, T4_NS).removals == (Removal(EVENT.tag),)


def test_a_measured_deletion_is_known_by_its_key() -> None:
    """The key is all that is left of it. It names no attempt, since it was there before any."""
    key = delete_key(EVENT, 59)
    deliveries = [
        {"Records": [s3_record(key, name="ObjectRemoved:DeleteMarkerCreated")]},
        {"Records": [dynamodb_record(parse_event_id(key) or "", name="REMOVE")]},
        postgresql_delivery(EVENT._replace(attempt=ANY_ATTEMPT)),
    ]
    for each in deliveries:
        (arrival,) = parse_delivery(each, T4_NS).arrivals
        assert (arrival.tag, arrival.token, arrival.entry.attempt) == (EVENT.tag, "", ANY_ATTEMPT)
        found = arrival.entry
        assert (found.phase, found.writer, found.slice, found.sequence, found.t4_ns) == (1, 2, 3, 5, T4_NS)
        assert found.t3_ns > 0


@pytest.mark.parametrize(
    ("event", "store"),
    [
        ({"Records": [s3_record("photos/cat.jpg")]}, "s3"),
        ({"Records": [{"eventSource": "aws:s3"}]}, "s3"),
        ({"Records": [s3_record(put_key(EVENT, 59), at="yesterday")]}, "s3"),
        (
            {"Records": [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {"NewImage": {}}}]},
            "dynamodb",
        ),
        ({"Records": [dynamodb_record("not an identity, but long enough for one")]}, "dynamodb"),
        ({"Records": [dynamodb_record("not an identity", name="REMOVE")]}, "dynamodb"),
        ({"source": "stepbench:postgresql"}, "postgresql"),
        ({"source": "stepbench:postgresql", "event": 5}, "postgresql"),
        ({"source": "stepbench:postgresql", "event": EVENT.text(), "t3_us": "soon"}, "postgresql"),
        ({"Records": []}, "unknown"),
        ({"Records": ["x"]}, "unknown"),
        ({"Records": [{"eventSource": "aws:sqs"}]}, "unknown"),
        ({"hello": "world"}, "unknown"),
        ("text", "unknown"),
        (None, "unknown"),
    ],
)
def test_what_names_no_event_is_kept_aside(event: Any, store: str) -> None:  # noqa: ANN401 -- anything
    """Dropped, it would look like an event that got lost; raised, Lambda would send it again and again."""
    delivery = parse_delivery(event, T4_NS)
    assert delivery.store == store
    assert len(delivery.malformed) == 1
    assert delivery.arrivals == ()
    assert delivery.removals == ()


def test_one_bad_record_does_not_spoil_its_batch() -> None:
    """The other 99 arrived."""
    records = [dynamodb_record(EVENT), {"eventSource": "aws:dynamodb"}, dynamodb_record(EVENT._replace(sequence=6))]
    delivery = parse_delivery({"Records": records}, T4_NS)
    assert [arrival.entry.batch_index for arrival in delivery.arrivals] == [0, 2]
    assert delivery.malformed == (Malformed(1, '{"eventSource": "aws:dynamodb"}'),)


def test_a_stream_whose_first_record_is_broken_has_no_place_to_retry_from() -> None:
    """It then has to fail as a whole."""
    assert parse_delivery({"Records": [{"eventSource": "aws:dynamodb"}]}, T4_NS).stream_head == ""


def batch(count: int = COUNT) -> list[dict[str, Any]]:
    """Return records of one trial that were all written."""
    return [dynamodb_record(OWN_EVENT._replace(sequence=number), sequence=str(100 + number)) for number in range(count)]


def with_value(text: object) -> Change:
    """Return a change that gives a record another value."""

    def change(record: dict[str, Any]) -> None:
        record["dynamodb"]["NewImage"]["value"]["S"] = text

    return change


CHANGES: dict[str, Change] = {
    "of another trial": with_value(OWN_EVENT._replace(tag=OTHER_TAG).text()),
    "in capitals": with_value(OWN_EVENT._replace(sequence=0xABC).text().upper()),
    "digits in capitals": with_value(OWN_EVENT.text()[:-3] + "ABC"),
    "no digits": with_value(OWN_EVENT.text()[:-3] + "xyz"),
    "a blank for a digit": with_value(OWN_EVENT.text()[:-2] + " 5"),
    "a blank for a hyphen": with_value(OWN_EVENT.text()[:-9] + " 00000005"),
    "hyphens elsewhere": with_value(OWN_EVENT.text()[:16] + "010002-0003--04-00000005"),
    "wide digits": with_value(OWN_EVENT.text()[:-1] + "\uff15"),
    "too short": with_value(OWN_EVENT.text()[:-1]),
    "empty": with_value(""),
    "no text": with_value(5),
    "a list": with_value([OWN_EVENT.text()]),
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
    "not to pass the filter": with_value(OWN_EVENT._replace(matching=False).text()),
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
    monkeypatch.setattr(deliveries, "parse_delivery", lambda *_: pytest.fail("read one by one"))
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
    other = OWN_EVENT._replace(tag=OTHER_TAG)
    records = [dynamodb_record(OWN_EVENT), dynamodb_record(other, name="REMOVE"), dynamodb_record(OWN_EVENT), {}]
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
    assert pack_delivery(postgresql_delivery(OWN_EVENT), T4_NS).shares[REF.tag].tokens == []


def test_a_time_that_no_entry_has_room_for_is_malformed() -> None:
    """Raised, the whole batch would be delivered again and again."""
    records = [dynamodb_record(OWN_EVENT, at_s=1e30), s3_record(update_key(REF.tag, 9, 59), at="9999-01-01T00:00:00Z")]
    for record in records:
        delivery = pack_delivery({"Records": [record]}, T4_NS)
        assert (delivery.shares, len(delivery.malformed)) == ({}, 1)


def of_row(event: EventId, attributes: dict[str, Any], key: str | None = None) -> dict[str, Any]:
    """Return the stream's record of an item that is a row of the user's own."""
    record = dynamodb_record(event)
    keys = {"pk": {"S": key or put_key(event, 59)}}
    record["dynamodb"] |= {"Keys": keys, "NewImage": {**keys, **attributes}}
    return record


@pytest.mark.parametrize(
    "attributes",
    [{}, {"value": {"N": "5"}}, {"value": {"S": "a price"}}, {"a": {"S": EventId(OTHER_TAG, 1, 1, 1, 1, 1).text()}}],
)
@pytest.mark.parametrize("count", [1, COUNT])
def test_an_own_row_is_known_by_its_key(attributes: dict[str, Any], count: int) -> None:
    """A row has what attributes it has, `value` among them; large batches have their quick way here, too."""
    sent = [OWN_EVENT._replace(sequence=number) for number in range(count)]
    event = {"Records": [of_row(each, attributes) for each in sent]}
    packed = pack_delivery(event, T4_NS)
    assert packed == pack_one_by_one(parse_delivery(event, T4_NS))
    assert packed.malformed == ()
    assert unpack(packed.shares[REF.tag].entries, "")["sequence"].tolist() == list(range(count))


def test_an_update_s_row_is_known_by_the_attribute_that_names_an_event_of_its_trial() -> None:
    """Its name is the plan's, which no receiver knows."""
    other = EventId(OTHER_TAG, 1, 1, 1, 1, 1)
    attributes = {"a": {"S": other.text()}, "n": {"N": "1"}, "_event": {"S": OWN_EVENT.text()}}
    event = {"Records": [of_row(OWN_EVENT, attributes, update_key(REF.tag, 3, 59))] * COUNT}
    packed = pack_delivery(event, T4_NS)
    assert packed == pack_one_by_one(parse_delivery(event, T4_NS))
    assert (set(packed.shares), packed.malformed) == ({REF.tag}, ())
    assert packed.shares[REF.tag].arrivals == COUNT


def test_a_row_that_names_no_event_is_malformed() -> None:
    """An update's row without its identity is nobody's."""
    record = of_row(OWN_EVENT, {"a": {"S": "b"}}, update_key(REF.tag, 3, 59))
    assert len(parse_delivery({"Records": [record]}, T4_NS).malformed) == 1
