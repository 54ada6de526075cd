"""A delivery as a receiver stores it: for each trial its arrivals, packed."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepbench.contracts.identity import parse_event_id
from stepbench.records.alike_entries import Beside, pack_alike
from stepbench.records.deliveries import Arrival, Delivery, Malformed, parse_delivery, stream_records, t3_of_stream
from stepbench.records.t4 import FEW_ENTRIES, MAX_BATCH_INDEX, pack


class Packed(NamedTuple):
    """A trial's share: how many arrivals, packed as `records.t4.pack` does, tokens if any has one, and removals."""

    arrivals: int
    entries: bytes
    tokens: list[str]
    ignored: int


class PackedDelivery(NamedTuple):
    """As `Delivery`, by the tags of trials."""

    store: str
    batch: int
    shares: dict[str, Packed]
    malformed: tuple[Malformed, ...]
    stream_head: str


def pack_delivery(event: Any, t4_ns: int) -> PackedDelivery:  # noqa: ANN401 -- whatever somebody sends
    """Read one invocation's event. Never raises: what cannot be read is `malformed`."""
    return _pack_alike(event, t4_ns) or pack_one_by_one(parse_delivery(event, t4_ns))


def pack_one_by_one(delivery: Delivery) -> PackedDelivery:
    """Any delivery."""
    arrivals: dict[str, list[Arrival]] = {}
    ignored: dict[str, int] = {}
    for arrival in delivery.arrivals:
        arrivals.setdefault(arrival.tag, []).append(arrival)
    for removal in delivery.removals:
        ignored[removal.tag] = ignored.get(removal.tag, 0) + 1
    shares = {}
    for tag in sorted({*arrivals, *ignored}):
        of_trial = arrivals.get(tag, [])
        tokens = [arrival.token for arrival in of_trial] if any(arrival.token for arrival in of_trial) else []
        entries = pack(arrival.entry for arrival in of_trial)
        shares[tag] = Packed(len(of_trial), entries, tokens, ignored.get(tag, 0))
    return PackedDelivery(delivery.store, delivery.batch, shares, delivery.malformed, delivery.stream_head)


def _pack_alike(event: Any, t4_ns: int) -> PackedDelivery | None:  # noqa: ANN401 -- see pack_delivery
    """A batch of a stream that is nothing but written records of one trial; None for anything else."""
    records = stream_records(event)
    count = len(records)
    if not FEW_ENTRIES < count <= MAX_BATCH_INDEX:
        return None
    try:
        if any(record["eventName"] == "REMOVE" for record in records):
            return None
        changes = [record["dynamodb"] for record in records]
        texts = [change["NewImage"]["value"]["S"] for change in changes]
        first = parse_event_id(texts[0])
        if first is None:
            return None
        seconds = [change.get("ApproximateCreationDateTime", 0) for change in changes]
        t3_of = {second: t3_of_stream(second) for second in set(seconds)}
        t3_ns = [t3_of[second] for second in seconds]
        entries = pack_alike(first.tag, texts, Beside(range(count), [t4_ns] * count, t3_ns, [0] * count))
        head = str(changes[0]["SequenceNumber"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return PackedDelivery("dynamodb", count, {first.tag: Packed(count, entries, [], 0)}, (), head)
