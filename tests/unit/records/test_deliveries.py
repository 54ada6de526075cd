from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.identity import (
    ANY_ATTEMPT,
    UNRESOLVED_PHASE,
    EventId,
    delete_key,
    parse_event_id,
    put_key,
    update_key,
)
from stepbench.records.deliveries import Malformed, Removal, parse_delivery
from stepbench.records.t4 import Entry
from stepbench.testing.records import dynamodb_record, postgresql_delivery, s3_record

EVENT = EventId("aaaaaaaaaa-0001", 1, 2, 3, 4, 5)
T4_NS = 1_800_000_000_000_000_000


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
