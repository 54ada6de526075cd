"""
The reference store's truth log has what it did with each write of a trial, one JSON object a line. Pure.

    {"write": 7, "event": "…", "received_at_ns": …, "due_ns": …, "dropped": false, "duplicated": false,
     "reordered": false, "stalled": false}
    {"delivery": 7, "write": 7, "delivered_at_ns": …}

`event` is the first 40 bytes of the value, `due_ns` when it was to be delivered first, were it not dropped or
reordered; `stalled` says that a stall has put that off. A
`delivery` is a position of the watch; it is on record once for each watcher that it was sent to. All times are by the
store's own clock, in ns since the epoch: `received_at_ns` when its kernel had the bytes of the write,
`delivered_at_ns` the statement before those of the delivery went into a socket.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.identity import CANARY_PHASE, EventId, parse_event_id
from stepbench.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fate(NamedTuple):
    """A fate is when a write is delivered after its reception, and what goes wrong on the way."""

    delay_ns: int
    dropped: bool = False
    duplicated: bool = False
    reordered: bool = False


@dataclass
class TrueWrite:
    """A write has its deliveries by position, each with the time of its first sending."""

    number: int
    event: EventId | None
    received_at_ns: int
    due_ns: int
    dropped: bool
    duplicated: bool
    reordered: bool
    stalled: bool
    deliveries: dict[int, int] = field(default_factory=dict)

    @property
    def delivered_at_ns(self) -> int | None:
        """Return when it was first delivered; None if it never was."""
        return min(self.deliveries.values(), default=None)


def write_line(  # noqa: PLR0913 -- the fields of a line
    number: int, event: bytes, received_at_ns: int, due_ns: int, fate: Fate, *, stalled: bool
) -> str:
    """Format the line of a write."""
    line = {
        "write": number,
        "event": event.decode("latin-1"),
        "received_at_ns": received_at_ns,
        "due_ns": due_ns,
        "dropped": fate.dropped,
        "duplicated": fate.duplicated,
        "reordered": fate.reordered,
        "stalled": stalled,
    }
    return json.dumps(line) + "\n"


def delivery_line(position: int, write: int, delivered_at_ns: int) -> str:
    """Format the line of a delivery."""
    return f'{{"delivery": {position}, "write": {write}, "delivered_at_ns": {delivered_at_ns}}}\n'


def read_truth(lines: Iterable[str]) -> tuple[TrueWrite, ...]:
    """
    Return all writes of a log but canaries, in the order of reception.

    Raises:
        CorruptRecordsError: a line is none of the two, or delivers a write that was never received; names the line.
    """
    writes: dict[int, TrueWrite] = {}
    for at, line in enumerate(lines, 1):
        try:
            _read_line(json.loads(line), writes)
        except (KeyError, TypeError, ValueError) as error:
            message = f"truth log, line {at}: {type(error).__name__}: {error}; was the store ended while it wrote?"
            raise CorruptRecordsError(message) from error
    return tuple(write for write in writes.values() if write.event is None or write.event.phase != CANARY_PHASE)


def _read_line(line: dict[str, object], writes: dict[int, TrueWrite]) -> None:
    number = _integer(line["write"])
    if "delivery" in line:
        position, at_ns = _integer(line["delivery"]), _integer(line["delivered_at_ns"])
        deliveries = writes[number].deliveries
        deliveries[position] = min(at_ns, deliveries.get(position, at_ns))
        return
    writes[number] = TrueWrite(
        number=number,
        event=parse_event_id(str(line["event"])),
        received_at_ns=_integer(line["received_at_ns"]),
        due_ns=_integer(line["due_ns"]),
        dropped=bool(line["dropped"]),
        duplicated=bool(line["duplicated"]),
        reordered=bool(line["reordered"]),
        stalled=bool(line["stalled"]),
    )


def _integer(value: object) -> int:
    if not isinstance(value, int):
        message = f"{value!r} is no integer"
        raise TypeError(message)
    return value
