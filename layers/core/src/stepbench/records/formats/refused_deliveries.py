"""
What Lambda gave up to deliver to the receiver, as it reports to the on-failure queues. Pure.

A message of an asynchronous invocation has its event. One of a stream's batch has only where the batch stands in the
stream, whose records have to be read there: `Batch`.

Source: AWS Lambda's developer guide, "Capturing records of Lambda asynchronous invocations" and "Retain discarded
records for a DynamoDB event source".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.base import Contract
from stepbench.contracts.identity import UNRESOLVED_PHASE, EventId, parse_event_id
from stepbench.records.formats.deliveries import parse_delivery
from stepbench.records.formats.t4 import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


class RefusedDelivery(Contract):
    """
    One delivery that was given up.

    message_id: of the queue's message. condition: why Lambda gave it up, such as `RetriesExhausted`,
    `RetryAttemptsExhausted` or `EventAgeExceeded`. error: what the function failed with; empty if it was not invoked.
    records: how many it had. events: the trial's events among them, as `EventId.text`; of a batch whose stream can be
    read no more, and of an S3 object that is known by its version, there is none.
    """

    message_id: str
    condition: str
    error: str = ""
    records: int
    events: tuple[str, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield its events as they would have been recorded, with times 0."""
        for event in filter(None, map(parse_event_id, self.events)):
            yield Entry(event.phase, event.attempt, event.writer, event.slice, 0, event.sequence, 0)


class RefusedDeliveries(Contract):
    """A trial's deliveries that were given up; stored as `refused.json`."""

    deliveries: tuple[RefusedDelivery, ...] = ()


class Batch(NamedTuple):
    """Where a stream's batch stands: sequence numbers of its first and last record, both included."""

    stream_arn: str
    shard_id: str
    first: str
    last: str
    records: int


class Message(NamedTuple):
    """A message of an on-failure queue: `payload` is the event, or else `batch` says where its records are."""

    condition: str
    error: str
    payload: Any
    batch: Batch | None


def parse_message(body: str) -> Message | None:
    """Read a message's body; None where it is none of Lambda's, such as a start that a schedule could not deliver."""
    try:
        message = json.loads(body)
        condition = str(message["requestContext"]["condition"])
        answer = message.get("responsePayload")
        named = answer.get("errorType") if isinstance(answer, dict) else None
        error = str(named or (message.get("responseContext") or {}).get("functionError") or "")
        if "DDBStreamBatchInfo" in message:
            info = message["DDBStreamBatchInfo"]
            place = (str(info["streamArn"]), str(info["shardId"]))
            ends = (str(info["startSequenceNumber"]), str(info["endSequenceNumber"]))
            batch = Batch(*place, *ends, int(info["batchSize"]))
            return Message(condition, error, None, batch)
        return Message(condition, error, message["requestPayload"], None)
    except _UNREADABLE:
        return None


def stream_event(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the event that Lambda makes of a stream's records, as far as it names events."""
    return {
        "Records": [
            {
                "eventSource": "aws:dynamodb",
                "eventName": record["eventName"],
                "dynamodb": {name: record["dynamodb"].get(name, {}) for name in ("Keys", "NewImage")},
            }
            for record in records
        ]
    }


def events_of(event: Any, tag: str) -> tuple[int, tuple[str, ...]] | None:  # noqa: ANN401 -- whatever was delivered
    """Return how many records a delivery had, and the trial's events among them; None where nothing is the trial's."""
    found = parse_delivery(event, 0)
    own = [arrival.entry for arrival in found.arrivals if arrival.tag == tag]
    if not own and not any(removal.tag == tag for removal in found.removals):
        return None
    named = (entry for entry in own if entry.phase != UNRESOLVED_PHASE)
    ids = (EventId(tag, each.phase, each.writer, each.slice, each.attempt, each.sequence) for each in named)
    return found.batch, tuple(each.text() for each in ids)
