"""What stores deliver to `ReceiveEvents`, read into arrivals one by one. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from stepbench.contracts.identity import ANY_ATTEMPT, UNRESOLVED_PHASE, EventId, parse_event_id, parse_update_key
from stepbench.records.layout import UNKNOWN_STORE
from stepbench.records.t4 import Entry

POSTGRESQL_SOURCE = "stepbench:postgresql"
T3_RESOLUTION_NS = {"s3": 1_000_000, "dynamodb": 1_000_000_000, "postgresql": 1_000, UNKNOWN_STORE: 0}
_SOURCES = {"aws:s3": "s3", "aws:dynamodb": "dynamodb"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMES_NS = range(-(1 << 63), 1 << 63)
"""What a t4 entry has room for."""
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading a document of the wrong shape can raise."""


class Arrival(NamedTuple):
    """One event that has arrived; `token` only where the identity has to be found by it."""

    tag: str
    entry: Entry
    token: str = ""


class Removal(NamedTuple):
    """A deletion that no trial measures came along: counted, no arrival."""

    tag: str


class Malformed(NamedTuple):
    """A record that names no event."""

    place: int
    body: str


class Delivery(NamedTuple):
    """
    One invocation's worth.

    stream_head: sequence number of the first record where the source is a stream, which retries from there; else "".
    """

    store: str
    batch: int
    arrivals: tuple[Arrival, ...]
    removals: tuple[Removal, ...]
    malformed: tuple[Malformed, ...]
    stream_head: str = ""


def parse_delivery(event: Any, t4_ns: int) -> Delivery:  # noqa: ANN401 -- whatever somebody sends
    """Read one invocation's event. Never raises: what cannot be read is `malformed`."""
    if isinstance(event, dict) and event.get("Event") == "s3:TestEvent":
        return Delivery("s3", 0, (), (), ())  # S3 sends it once, when a notification is configured
    store, records = _records(event)
    found = [_read(store, record, index, t4_ns) for index, record in enumerate(records)]
    return Delivery(
        store=store,
        batch=len(records),
        arrivals=tuple(each for each in found if isinstance(each, Arrival)),
        removals=tuple(each for each in found if isinstance(each, Removal)),
        malformed=tuple(each for each in found if isinstance(each, Malformed)),
        stream_head=_stream_head(records) if store == "dynamodb" else "",
    )


def stream_records(event: Any) -> list[Any]:  # noqa: ANN401 -- see parse_delivery
    """The records of a DynamoDB stream's batch; none of anything else."""
    store, records = _records(event)
    return records if store == "dynamodb" else []


def t3_of_stream(seconds: Any) -> int:  # noqa: ANN401 -- see parse_delivery
    """`ApproximateCreationDateTime`, s, in ns: a number of whole seconds, though not everywhere."""
    return round(float(seconds) * 1_000_000) * 1_000


def _records(event: Any) -> tuple[str, list[Any]]:  # noqa: ANN401 -- see parse_delivery
    if isinstance(event, dict):
        if event.get("source") == POSTGRESQL_SOURCE:
            return "postgresql", [event]
        records = event.get("Records")
        if isinstance(records, list) and records and isinstance(records[0], dict):
            return _SOURCES.get(str(records[0].get("eventSource")), UNKNOWN_STORE), records
    return UNKNOWN_STORE, [event]


def _stream_head(records: list[Any]) -> str:
    try:
        return str(records[0]["dynamodb"]["SequenceNumber"])
    except _UNREADABLE:
        return ""


def _read(store: str, record: Any, index: int, t4_ns: int) -> Arrival | Removal | Malformed:  # noqa: ANN401
    try:
        match store:
            case "s3":
                found = _read_s3(record, index, t4_ns)
            case "dynamodb":
                found = _read_dynamodb(record, index, t4_ns)
            case "postgresql":
                found = _arrival(parse_event_id(record["event"]), index, t4_ns, int(record.get("t3_us") or 0) * 1_000)
            case _:
                found = None
    except _UNREADABLE:
        found = None
    return found or Malformed(index, json.dumps(record, default=str))


def _read_s3(record: dict[str, Any], index: int, t4_ns: int) -> Arrival | Removal | None:
    stored = record["s3"]["object"]
    key = unquote_plus(stored["key"])
    event, update = parse_event_id(key), parse_update_key(key)
    tag = event.tag if event else update[0] if update else ""
    if not tag:
        return None
    name = record["eventName"].removeprefix("s3:")
    measured = name == "ObjectRemoved:DeleteMarkerCreated" and _is_measured_deletion(event)
    if name.startswith("ObjectRemoved") and not measured:
        return Removal(tag)
    t3_ns = (datetime.fromisoformat(record["eventTime"]) - _EPOCH) // _MICROSECOND * 1_000
    if event or not update or t3_ns not in _TIMES_NS:
        return _arrival(event, index, t4_ns, t3_ns)
    entry = Entry(UNRESOLVED_PHASE, 0, 0, 0, index, update[1], t4_ns, t3_ns)
    return Arrival(tag, entry, stored["versionId"])


def _read_dynamodb(record: dict[str, Any], index: int, t4_ns: int) -> Arrival | Removal | None:
    change = record["dynamodb"]
    t3_ns = t3_of_stream(change.get("ApproximateCreationDateTime", 0))
    if record["eventName"] == "REMOVE":
        names = [value["S"] for value in change["Keys"].values()]
        event = next((found for found in map(parse_event_id, names) if found), None)
        if _is_measured_deletion(event):
            return _arrival(event, index, t4_ns, t3_ns)
        return next((Removal(found[0]) for found in (event, *map(parse_update_key, names)) if found), None)
    return _arrival(parse_event_id(change["NewImage"]["value"]["S"]), index, t4_ns, t3_ns)


def _is_measured_deletion(event: EventId | None) -> bool:
    """Whether the key was made to be deleted; others go when somebody clears up."""
    return event is not None and event.attempt == ANY_ATTEMPT


def _arrival(event: EventId | None, index: int, t4_ns: int, t3_ns: int) -> Arrival | None:
    if event is None or t3_ns not in _TIMES_NS:
        return None
    entry = Entry(event.phase, event.attempt, event.writer, event.slice, index, event.sequence, t4_ns, t3_ns)
    return Arrival(event.tag, entry)
