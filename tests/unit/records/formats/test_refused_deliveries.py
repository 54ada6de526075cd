"""What the on-failure queues tell of deliveries that Lambda gave up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record
from tests.samples.refused_deliveries import refused_batch, refused_event

from stepbench.contracts.identity import EventId, put_key, update_key
from stepbench.records.formats.refused_deliveries import (
    Batch,
    RefusedDelivery,
    events_of,
    parse_message,
    stream_event,
)
from stepbench.records.formats.t4 import Entry

EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
ARN = "arn:aws:dynamodb:us-east-1:1:table/target-x/stream/2026"


def test_an_event_that_a_function_failed_at_comes_with_its_error() -> None:
    """It names what was lost, and why."""
    found = parse_message(refused_event(postgresql_delivery(EVENT)))
    assert found is not None
    assert (found.condition, found.error, found.batch) == ("RetriesExhausted", "Sandbox.Timedout", None)
    assert events_of(found.payload, REF.tag) == (1, (EVENT.text(),))


def test_an_event_that_waited_too_long_has_no_error() -> None:
    """The account's concurrency was used up: nothing was invoked."""
    found = parse_message(refused_event(postgresql_delivery(EVENT), condition="EventAgeExceeded", error=""))
    assert found is not None
    assert (found.condition, found.error) == ("EventAgeExceeded", "")


def test_a_batch_says_where_its_records_stand() -> None:
    """Its message has none of them."""
    found = parse_message(refused_batch(ARN, "100", "199", 7, "shardId-9"))
    assert found is not None
    assert (found.condition, found.error, found.payload) == ("RetryAttemptsExhausted", "Unhandled", None)
    assert found.batch == Batch(ARN, "shardId-9", "100", "199", 7)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "null",
        '{"StateMachineArn": "arn", "Input": "{}"}',
        '{"requestContext": {"condition": "RetriesExhausted"}}',
        '{"requestContext": 3, "requestPayload": {}}',
        json.dumps({"requestContext": {"condition": "x"}, "DDBStreamBatchInfo": {"batchSize": "many"}}),
    ],
)
def test_what_is_none_of_lambdas_is_nobodys(body: str) -> None:
    """A schedule's undelivered start waits in the same queue, and has to stay there."""
    assert parse_message(body) is None


def test_a_streams_records_become_the_event_that_lambda_makes_of_them() -> None:
    """`GetRecords` gives times as dates, which JSON has not, and no name of the source."""
    records = [dynamodb_record(EVENT), dynamodb_record(EVENT._replace(sequence=6), name="REMOVE")]
    for record in records:
        del record["eventSource"]
        record["dynamodb"]["ApproximateCreationDateTime"] = object()
    assert events_of(stream_event(records), REF.tag) == (2, (EVENT.text(),))


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"Records": [s3_record(put_key(EVENT, 59)), s3_record(put_key(EVENT._replace(sequence=6), 59))]}, 2),
        ({"Records": [s3_record(update_key(REF.tag, 3, 59))]}, 0),
        ({"Records": [s3_record(put_key(EVENT, 59), name="ObjectRemoved:Delete")]}, 0),
    ],
    ids=["puts", "an update, known by its version", "a removal"],
)
def test_what_cannot_be_named_is_the_trials_all_the_same(event: dict[str, Any], found: int) -> None:
    """It is counted, and leaves the queue."""
    told = events_of(event, REF.tag)
    assert told is not None
    assert (told[0], len(told[1])) == (len(event["Records"]), found)


@pytest.mark.parametrize(
    "event", [postgresql_delivery(EVENT), {"Records": []}, None, "text", {"Event": "s3:TestEvent"}]
)
def test_another_trials_events_are_not_taken(event: Any) -> None:  # noqa: ANN401 -- whatever was delivered
    """Two runs share a stack's queues."""
    assert events_of(event, "other-tag") is None


def test_events_are_found_again_by_their_names() -> None:
    """As a receiver would have recorded them."""
    told = RefusedDelivery(message_id="m", condition="c", records=2, events=(EVENT.text(), "garbled"))
    assert list(told.entries()) == [Entry(1, 4, 2, 3, 0, 5, 0)]
