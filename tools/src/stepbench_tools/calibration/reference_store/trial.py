"""
One trial in the reference store: its keys, what is still to be delivered, what was, and the truth about it.

Time comes from outside, so all of it can be tested without a server. A reordered write waits for the next write of
the same writer that is not dropped, and is delivered right after it; if none is delivered in `HOLD_NS`, it waits no
longer. The second delivery of a duplicate comes `COPY_AFTER_NS` after the first, with a position of its own.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, TextIO, assert_never

from stepbench.contracts.capacity import BimodalDelay, ConstantDelay, ParetoDelay, StallDelay
from stepbench.contracts.identity import CANARY_PHASE, EVENT_ID_CHARS, TAG_CHARS, parse_event_id
from stepbench_tools.calibration.truth import Fate, delivery_line, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.capacity import Delay
    from stepbench.contracts.target import ReferenceTarget

LONGEST_NS = 10_000_000_000
"""A heavy tail is cut there."""
_NS_PER_MS = 1_000_000
_SCATTER = NormalDist(1.0, 0.02)
_DRAWS = struct.Struct("!5Q")


def draw_fate(target: ReferenceTarget, seed: int, event: bytes) -> Fate:
    """
    Return the fate of a write.

    Args:
        target: with the distribution and the shares.
        seed: the plan's.
        event: the head of the value, 40 bytes. Canaries are delayed like all others, and delivered once for certain.
    """
    drop, duplicate, reorder, first, second = uniforms(seed, event[TAG_CHARS:])
    delay_ns = _delay_ns(target.delay, first, second)
    if _is_canary(event):
        return Fate(delay_ns)
    dropped = drop < target.drop_share
    return Fate(
        delay_ns,
        dropped=dropped,
        duplicated=not dropped and duplicate < target.duplicate_share,
        reordered=not dropped and reorder < target.reorder_share,
    )


def stall_end_ns(delay: Delay, since_ns: int, due_ns: int) -> int:
    """
    Return when a delivery can be made: when it is due or, in a stall, at its end.

    Stalls begin at whole multiples of `every_s` after `since_ns`, from the first multiple on.
    """
    if not isinstance(delay, StallDelay):
        return due_ns
    every_ns, stall_ns = round(delay.every_s * 1e9), round(delay.stall_ms * _NS_PER_MS)
    number, into_ns = divmod(due_ns - since_ns, every_ns)
    return due_ns + stall_ns - into_ns if number > 0 and into_ns < stall_ns else due_ns


def _delay_ns(delay: Delay, first: float, second: float) -> int:
    match delay:
        case ConstantDelay():
            return round(delay.ms * _NS_PER_MS)
        case BimodalDelay():
            mode_ms = delay.high_ms if first < delay.high_share else delay.low_ms
            return max(0, round(mode_ms * _SCATTER.inv_cdf(second) * _NS_PER_MS))
        case ParetoDelay():
            # P(delay > x) = (scale / x) ** shape; `first` is above 0.
            return min(LONGEST_NS, round(delay.scale_ms * math.pow(first, -1 / delay.shape) * _NS_PER_MS))
        case StallDelay():
            return round(delay.base_ms * _NS_PER_MS)
        case _ as unreachable:
            assert_never(unreachable)


def uniforms(seed: int, identity: bytes) -> tuple[float, ...]:
    """Return five independent numbers in (0, 1)."""
    digest = hashlib.blake2b(identity, key=seed.to_bytes(8, "big"), digest_size=_DRAWS.size).digest()
    return tuple(((word >> 11) + 0.5) / 2**53 for word in _DRAWS.unpack(digest))


def _is_canary(event: bytes) -> bool:
    parsed = parse_event_id(event[:EVENT_ID_CHARS].decode("ascii", "replace"))
    return parsed is not None and parsed.phase == CANARY_PHASE


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
    """A step is why something is due."""

    FIRST = 0
    LAST_CALL = 1
    COPY = 2


class Due(NamedTuple):
    """Something is due at a time; `Trial.deliver` does it then."""

    due_ns: int
    event: _Event
    step: Step = Step.FIRST


class DeliveredWrite(NamedTuple):
    """A delivery has its position in the trial, its write and its value."""

    position: int
    write: int
    value: bytes


class Trial:
    """
    A trial of the reference store.

    Args:
        tag: the trial's namespace.
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
        self.deliveries: list[DeliveredWrite] = []
        self.pending = 0
        self._since_ns = since_ns
        self._writes = 0
        self._waiting: dict[bytes, _Event] = {}

    @property
    def position(self) -> int:
        """Return the position of the last delivery; 0 before the first."""
        return len(self.deliveries)

    def next_write(self) -> int:
        """Return the number of the write that comes now, from 1."""
        self._writes += 1
        return self._writes

    def write(self, number: int, key: bytes, value: bytes, received_at_ns: int) -> Due | None:
        """Record a write, and return when it is due; None if it is dropped."""
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

    def deliver(self, due: Due, now_ns: int) -> tuple[list[DeliveredWrite], list[Due]]:
        """Return what to deliver now, in this order, and what is due later."""
        event = due.event
        if due.step is Step.COPY:
            return [self._delivery(event)], []
        if event.delivered:
            return [], []
        if event.waits and due.step is Step.FIRST:
            event.held = True
            return [], [Due(due.due_ns + HOLD_NS, event, Step.LAST_CALL)]
        deliveries: list[DeliveredWrite] = []
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

    def sent(self, deliveries: Sequence[DeliveredWrite], at_ns: int) -> None:
        """Log that these went to a watcher."""
        self.log.writelines(delivery_line(delivery.position, delivery.write, at_ns) for delivery in deliveries)

    def _line_up(self, event: _Event, writer: bytes) -> None:
        before = self._waiting.pop(writer, None)
        if before is not None:
            event.releases.append(before)
        if event.fate.reordered:
            self._waiting[writer] = event

    def _delivery(self, event: _Event) -> DeliveredWrite:
        self.pending -= 1
        delivery = DeliveredWrite(self.position + 1, event.number, event.value)
        self.deliveries.append(delivery)
        return delivery
