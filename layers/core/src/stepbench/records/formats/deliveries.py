"""
What stores deliver to `ReceiveEvents`, read into arrivals and packed for each trial. Pure.

`pack_delivery` reads the common batch of a stream a column at a time, and any other delivery record by record; tests
hold the two ways equal.

An event is named by the attribute `value` of an item. Where that does not name one, the item is a row of the user's
own: then the key names the event, or where that is one of several events', an attribute whose name only the plan knows.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from stepbench.contracts.identity import (
    ANY_ATTEMPT,
    UNRESOLVED_PHASE,
    VALUE_ATTRIBUTE,
    EventId,
    parse_event_id,
    parse_update_key,
)
from stepbench.records.formats.t4 import FEW_ENTRIES, MAX_BATCH_INDEX, Entry, EntryColumns, pack, pack_columns

POSTGRESQL_SOURCE = "stepbench:postgresql"
UNKNOWN_STORE = "unknown"
"""Stands for the store of malformed deliveries that do not even say where they come from."""
# S3's eventTime has milliseconds; ApproximateCreationDateTime is rounded down to seconds, by DynamoDB's documentation.
T3_RESOLUTION_NS = {"s3": 1_000_000, "dynamodb": 1_000_000_000, "postgresql": 1_000, UNKNOWN_STORE: 0}
_SOURCES = {"aws:s3": "s3", "aws:dynamodb": "dynamodb"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMES_NS = range(-(1 << 63), 1 << 63)
"""A t4 entry has room for these."""
_NO_TEXT: dict[str, Any] = {}
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""Reading a document of the wrong shape can raise these."""


class Arrival(NamedTuple):
    """One event that has arrived; `token` only where the identity has to be found by it."""

    tag: str
    entry: Entry
    token: str = ""


class Removal(NamedTuple):
    """A deletion that came along and that no trial measures: it is counted, and is no arrival."""

    tag: str


class Malformed(NamedTuple):
    """A record that names no event."""

    place: int
    body: str


class ParsedDelivery(NamedTuple):
    """
    One invocation's event, parsed.

    stream_head: sequence number of the first record where the source is a stream, which retries from there; else "".
    """

    store: str
    batch: int
    arrivals: tuple[Arrival, ...]
    removals: tuple[Removal, ...]
    malformed: tuple[Malformed, ...]
    stream_head: str = ""


class TrialShare(NamedTuple):
    """A trial's share of a delivery: how many arrivals, packed by `pack`, tokens if any has one, and removals."""

    arrivals: int
    entries: bytes
    tokens: list[str]
    ignored: int


class PackedDelivery(NamedTuple):
    """One invocation's event as a receiver stores it: packed arrivals by the tags of trials."""

    store: str
    batch: int
    shares: dict[str, TrialShare]
    malformed: tuple[Malformed, ...]
    stream_head: str


def pack_delivery(event: Any, t4_ns: int) -> PackedDelivery:  # noqa: ANN401 -- whatever somebody sends
    """Read one invocation's event. Never raises: what cannot be read is `malformed`."""
    return _pack_stream_batch(event, t4_ns) or pack_one_by_one(parse_delivery(event, t4_ns))


def pack_one_by_one(delivery: ParsedDelivery) -> PackedDelivery:
    """Pack any delivery, record by record."""
    arrivals: dict[str, list[Arrival]] = {}
    ignored: dict[str, int] = {}
    for arrival in delivery.arrivals:
        arrivals.setdefault(arrival.tag, []).append(arrival)
    for removal in delivery.removals:
        ignored[removal.tag] = ignored.get(removal.tag, 0) + 1
    shares = {}
    for tag in sorted({*arrivals, *ignored}):
        own = arrivals.get(tag, [])
        tokens = [arrival.token for arrival in own] if any(arrival.token for arrival in own) else []
        entries = pack(arrival.entry for arrival in own)
        shares[tag] = TrialShare(len(own), entries, tokens, ignored.get(tag, 0))
    return PackedDelivery(delivery.store, delivery.batch, shares, delivery.malformed, delivery.stream_head)


def parse_delivery(event: Any, t4_ns: int) -> ParsedDelivery:  # noqa: ANN401 -- whatever somebody sends
    """Read one invocation's event. Never raises: what cannot be read is `malformed`."""
    if isinstance(event, dict) and event.get("Event") == "s3:TestEvent":
        return ParsedDelivery("s3", 0, (), (), ())  # S3 sends it once, when a notification is configured
    store, records = _records(event)
    found = [_read(store, record, index, t4_ns) for index, record in enumerate(records)]
    return ParsedDelivery(
        store=store,
        batch=len(records),
        arrivals=tuple(each for each in found if isinstance(each, Arrival)),
        removals=tuple(each for each in found if isinstance(each, Removal)),
        malformed=tuple(each for each in found if isinstance(each, Malformed)),
        stream_head=_stream_head(records) if store == "dynamodb" else "",
    )


def _t3_of_stream(seconds: Any) -> int:  # noqa: ANN401 -- see parse_delivery
    """Convert `ApproximateCreationDateTime` from s to ns: a number of whole seconds, though not everywhere."""
    return round(float(seconds) * 1_000_000) * 1_000


def _pack_stream_batch(event: Any, t4_ns: int) -> PackedDelivery | None:  # noqa: ANN401 -- see pack_delivery
    """Pack a batch of a stream that is nothing but written records of one trial; return None for anything else."""
    store, records = _records(event)
    count = len(records)
    if store != "dynamodb" or not FEW_ENTRIES < count <= MAX_BATCH_INDEX:
        return None
    try:
        if any(record["eventName"] == "REMOVE" for record in records):
            return None
        changes = [record["dynamodb"] for record in records]
        texts, first = _stream_identities(changes)
        if first is None:
            return None
        seconds = [change.get("ApproximateCreationDateTime", 0) for change in changes]
        t3_of = {second: _t3_of_stream(second) for second in set(seconds)}
        t3_ns = [t3_of[second] for second in seconds]
        entries = pack_columns(first.tag, texts, EntryColumns(range(count), [t4_ns] * count, t3_ns, [0] * count))
        head = str(changes[0]["SequenceNumber"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return PackedDelivery("dynamodb", count, {first.tag: TrialShare(count, entries, [], 0)}, (), head)


def _stream_identities(changes: list[Any]) -> tuple[list[str], EventId | None]:
    """Return the texts that begin with the identities of written records, and the first's; rows have it in the key."""
    try:
        texts = [change["NewImage"]["value"]["S"] for change in changes]
        if (first := parse_event_id(texts[0])) is not None:
            return texts, first
    except KeyError:
        pass
    texts = [change["Keys"]["pk"]["S"] for change in changes]
    return texts, parse_event_id(texts[0])


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
    t3_ns = _t3_of_stream(change.get("ApproximateCreationDateTime", 0))
    if record["eventName"] == "REMOVE":
        names = [value["S"] for value in change["Keys"].values()]
        event = next((found for found in map(parse_event_id, names) if found), None)
        if _is_measured_deletion(event):
            return _arrival(event, index, t4_ns, t3_ns)
        return next((Removal(found[0]) for found in (event, *map(parse_update_key, names)) if found), None)
    return _arrival(_written_event(change), index, t4_ns, t3_ns)


def _written_event(change: dict[str, Any]) -> EventId | None:
    """Return the event that a record of a stream names: by its value, its key, or another attribute of the item."""
    image = change["NewImage"]
    found = parse_event_id(image[VALUE_ATTRIBUTE].get("S", "")) if VALUE_ATTRIBUTE in image else None
    if found:
        return found
    keys = [value["S"] for value in change.get("Keys", _NO_TEXT).values() if "S" in value]
    found = next((event for event in map(parse_event_id, keys) if event), None)
    update = next((key for key in map(parse_update_key, keys) if key), None)
    if found or update is None:
        return found
    named = (parse_event_id(value["S"]) for value in image.values() if "S" in value)
    return next((event for event in named if event and event.tag == update[0]), None)


def _is_measured_deletion(event: EventId | None) -> bool:
    """Return whether the key was made to be deleted; others go when somebody clears up."""
    return event is not None and event.attempt == ANY_ATTEMPT


def _arrival(event: EventId | None, index: int, t4_ns: int, t3_ns: int) -> Arrival | None:
    if event is None or t3_ns not in _TIMES_NS:
        return None
    entry = Entry(event.phase, event.attempt, event.writer, event.slice, index, event.sequence, t4_ns, t3_ns)
    return Arrival(event.tag, entry)
