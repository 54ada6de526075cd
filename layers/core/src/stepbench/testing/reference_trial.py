"""
One trial in the reference store: its keys, what is still to be delivered, what was, and the truth about it.

Time comes from outside, so all of it can be tested without a server. A reordered write waits for the next write of
the same writer that is not dropped, and is delivered right after it; if none is delivered in `HOLD_NS`, it waits no
longer. The second delivery of a duplicate comes `COPY_AFTER_NS` after the first, with a position of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TextIO

from stepbench.calibration.truth import Fate, delivery_line, write_line
from stepbench.contracts.identity import EVENT_ID_CHARS, TAG_CHARS
from stepbench.testing.reference_fates import draw_fate, stall_end_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.target import ReferenceTarget

COPY_AFTER_NS = 1_000_000
HOLD_NS = 500_000_000
_WRITER = slice(TAG_CHARS, TAG_CHARS + len("/pp-wwww"))


@dataclass
class _Event:
    number: int
    value: bytes
    fate: Fate
    waits: bool
    held: bool = False
    delivered: bool = False
    releases: list[_Event] = field(default_factory=list)


class Step(IntEnum):
    """Why something is due."""

    FIRST = 0
    LAST_CALL = 1
    COPY = 2


class Due(NamedTuple):
    """Something to do at a time; `Trial.deliver` takes it then."""

    due_ns: int
    event: _Event
    step: Step = Step.FIRST


class Delivery(NamedTuple):
    """One delivery: where it stands in the trial, of which write, with what."""

    position: int
    write: int
    value: bytes


class Trial:
    """
    One trial.

    Args:
        tag: its namespace.
        target: how it is to be treated.
        seed: of its fates.
        since_ns: from when on stalls are counted.
        log: the truth is written to it.
    """

    def __init__(self, tag: str, target: ReferenceTarget, seed: int, since_ns: int, log: TextIO) -> None:
        self.tag = tag
        self.target = target
        self.seed = seed
        self.log = log
        self.values: dict[bytes, bytes] = {}
        self.deliveries: list[Delivery] = []
        self.pending = 0
        self._since_ns = since_ns
        self._writes = 0
        self._waiting: dict[bytes, _Event] = {}

    @property
    def position(self) -> int:
        """Of the last delivery; 0 before the first."""
        return len(self.deliveries)

    def next_write(self) -> int:
        """The number of the write that comes now, from 1."""
        self._writes += 1
        return self._writes

    def write(self, number: int, key: bytes, value: bytes, received_at_ns: int) -> Due | None:
        """Take a write; when it is to be delivered, None if it is dropped."""
        self.values[key] = value
        head = value[:EVENT_ID_CHARS]
        fate = draw_fate(self.target, self.seed, head)
        planned_ns = received_at_ns + fate.delay_ns
        due_ns = stall_end_ns(self.target.delay, self._since_ns, planned_ns)
        self.log.write(write_line(number, head, received_at_ns, due_ns, fate, stalled=due_ns > planned_ns))
        if fate.dropped:
            return None
        event = _Event(number, value, fate, waits=fate.reordered)
        self._line_up(event, head[_WRITER])
        self.pending += 2 if fate.duplicated else 1
        return Due(due_ns, event)

    def deliver(self, due: Due, now_ns: int) -> tuple[list[Delivery], list[Due]]:
        """What to deliver now, in this order, and what is to be done later."""
        event = due.event
        if due.step is Step.COPY:
            return [self._delivery(event)], []
        if event.delivered:
            return [], []
        if event.waits and due.step is Step.FIRST:
            event.held = True
            return [], [Due(due.due_ns + HOLD_NS, event, Step.LAST_CALL)]
        deliveries: list[Delivery] = []
        later: list[Due] = []
        released = [event]
        while released:
            event = released.pop()
            event.delivered = True
            deliveries.append(self._delivery(event))
            if event.fate.duplicated:
                later.append(Due(now_ns + COPY_AFTER_NS, event, Step.COPY))
            for before in event.releases:
                before.waits = False
            released += [before for before in event.releases if before.held and not before.delivered]
        return deliveries, later

    def sent(self, deliveries: Sequence[Delivery], at_ns: int) -> None:
        """Put on record that these went to a watcher."""
        self.log.writelines(delivery_line(delivery.position, delivery.write, at_ns) for delivery in deliveries)

    def _line_up(self, event: _Event, writer: bytes) -> None:
        before = self._waiting.pop(writer, None)
        if before is not None:
            event.releases.append(before)
        if event.fate.reordered:
            self._waiting[writer] = event

    def _delivery(self, event: _Event) -> Delivery:
        self.pending -= 1
        delivery = Delivery(self.position + 1, event.number, event.value)
        self.deliveries.append(delivery)
        return delivery
