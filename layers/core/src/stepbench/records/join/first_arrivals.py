"""
The time at which each event arrived first, after its t0, and the order: the last step of the join.

Of an event that arrived more than once, the earliest arrival counts. Of two at the same time, what else is known of
them decides, so that it does not matter in which order they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.records.join.arrivals import RepeatedArrivals
from stepbench.records.join.sent import Narrow, NarrowTimes, none_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.records.join.arrivals import Arrivals, WatchGap
    from stepbench.records.join.grid import Grid
    from stepbench.records.join.sent import Ints

_AT_ONCE = 1 << 16
_NEVER = np.iinfo(np.int64).max
LATE, DISORDER, COLD, WATCH_GAP, UNPAIRED = (np.uint8(1 << bit) for bit in range(5))


class FirstArrivals(NamedTuple):
    """
    Columns of the events' first arrivals, in the grid's order.

    response_ns: t4 - t0, the largest number of its type = none. flags: `LATE`, `DISORDER`, `COLD`, `WATCH_GAP` and
    `UNPAIRED`, a bit each. repeats: how many arrivals came after it. The other columns are those of
    `records.join.joined.Joined`.
    """

    response_ns: Ints
    flags: NDArray[np.uint8]
    repeats: Ints
    retried: Ints
    batch: NDArray[np.uint32]
    batch_index: NDArray[np.uint16]
    t3_ns: NDArray[np.int64]
    item: NDArray[np.uint32]

    @property
    def has(self) -> NDArray[np.bool_]:
        """Return which events arrived at all."""
        has: NDArray[np.bool_] = np.not_equal(self.response_ns, none_of(self.response_ns))
        return has

    def flagged(self, flag: np.uint8) -> NDArray[np.bool_]:
        """Return which have this flag."""
        flagged: NDArray[np.bool_] = np.not_equal(self.flags & flag, 0)
        return flagged

    def part(self, own: slice) -> FirstArrivals:
        """Return the first arrivals of some of the events."""
        return FirstArrivals._make(column[own] for column in self)


def nothing_arrived(events: int) -> FirstArrivals:
    """Return columns without arrivals. Unwritten pages take no memory, and neither does a value that is repeated."""
    response_ns = np.broadcast_to(np.int32(np.iinfo(np.int32).max), events)
    kinds = (np.uint8, np.int8, np.int8, np.uint32, np.uint16, np.int64, np.uint32)
    return FirstArrivals._make([response_ns, *(np.zeros(events, kind) for kind in kinds)])


def settle_times(  # noqa: PLR0913 -- what is kept
    arrivals: Arrivals,
    limit_ns: int,
    every: RepeatedArrivals | None = None,
    *,
    details: bool,
    batches: bool = False,
    gaps: Sequence[WatchGap] = (),
) -> FirstArrivals:
    """
    Turn deliveries into times; `arrivals` is used up, since its columns become these.

    Args:
        arrivals: all of them, matched.
        every: as `settle_repeats` has returned it.
        limit_ns: what arrives after it is late.
        details: whether to keep batch and batch_index; t3 is kept where `arrivals` has it.
        batches: whether to keep with which item each came.
        gaps: in which nobody watched.
    """
    grid = arrivals.grid
    found = nothing_arrived(grid.events)
    repeats, retried = _count_repeats(arrivals, every)
    t4_ns = arrivals.delivery_t4_ns()
    if t4_ns.size == 1:
        return found
    any_late = bool((t4_ns > limit_ns).any())
    order = _Order(grid, t4_ns, arrivals.batch_index)
    item, items = arrivals.delivery_item(), arrivals.items
    cold = items.cold[item] if items.cold.any() else None
    response = NarrowTimes(arrivals.delivery.view(np.int32))  # from its end on, deliveries become times
    batch = items.batch[item] if details else None
    unseen_ns = _unseen_until_ns(arrivals, gaps)
    for slot, first, end in _backwards(grid):
        delivery = response.values[first:end].astype(np.int64)
        has, arrived_ns = delivery > 0, t4_ns.take(delivery)
        response.put(slice(first, end), arrived_ns - grid.due_ns(first, end), has)
        late = has & (arrived_ns > limit_ns) if any_late else np.zeros_like(has)
        gap = None
        if unseen_ns is not None:
            gap = has & (_answered_ns(arrivals, first, end) <= unseen_ns.take(delivery))
            late &= ~gap  # nobody was there to see it in time
        disorder = order.disorder(slot, first, end, np.where(has & ~late, delivery, 0))
        flags = late * LATE | disorder * DISORDER
        if cold is not None:
            flags |= (has & cold[delivery]) * COLD
        if gap is not None:
            flags |= gap * WATCH_GAP
        if flags.any():
            found.flags[first:end] = flags
        if batch is not None:
            found.batch[first:end] = np.where(has, batch[delivery], 0)
        if batches:
            found.item[first:end] = item[delivery]  # of what did not arrive any
    return found._replace(
        response_ns=response.values,
        repeats=repeats,
        retried=retried,
        batch_index=arrivals.batch_index if details else found.batch_index,
        t3_ns=arrivals.t3_ns if arrivals.keep_t3 else found.t3_ns,
    )


def _unseen_until_ns(arrivals: Arrivals, gaps: Sequence[WatchGap]) -> NDArray[np.int64] | None:
    """Return by delivery until when nobody had watched what it brought; None where somebody always did."""
    if not gaps:
        return None
    watch, t4_ns = arrivals.items.watch[arrivals.delivery_item()], arrivals.delivery_t4_ns()
    unseen_ns = np.zeros_like(t4_ns)
    for gap in gaps:
        delivered = (watch == arrivals.items.watches.get(gap.sandbox)) & (t4_ns >= gap.from_ns) | (t4_ns > gap.to_ns)
        delivered[0] = False  # number 0 is none
        unseen_ns[delivered] = np.maximum(unseen_ns[delivered], gap.to_ns)
    return unseen_ns


def _answered_ns(arrivals: Arrivals, first: int, end: int) -> NDArray[np.int64]:
    """Return t2, or t0 where nothing is known of an event but that it arrived."""
    own, sent = slice(first, end), arrivals.sent
    return arrivals.grid.due_ns(first, end) + sent.lateness_ns.values[own] + sent.service_ns.values[own]


def _backwards(grid: Grid) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of events, slot by slot, the last ones first."""
    for slot in range(grid.count.size - 1, -1, -1):
        base = int(grid.base[slot])
        for first in range(int(grid.count[slot]) // _AT_ONCE * _AT_ONCE, -1, -_AT_ONCE):
            end = min(first + _AT_ONCE, int(grid.count[slot]))
            if end > first:
                yield slot, base + first, base + end


class _Order:
    """
    Finds which events arrived after one that stands later in their writer's schedule.

    Going backwards, one that arrived later than the earliest of all that stand behind it did.
    """

    def __init__(self, grid: Grid, t4_ns: NDArray[np.int64], batch_index: NDArray[np.uint16]) -> None:
        self._grid = grid
        self._batch_index = batch_index
        bits = int(batch_index.max(initial=0)).bit_length()
        after_ns = t4_ns - t4_ns[1:].min()
        if int(after_ns.max()) >= 1 << (62 - bits):  # a garbled time, years off: their order will do
            after_ns = np.unique(t4_ns, return_inverse=True)[1]
        self._moment = after_ns << bits
        self._moment[0] = _NEVER
        self._earliest: dict[int, int] = {}

    def disorder(self, slot: int, first: int, end: int, delivery: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these events arrived too late for their place; to be called for the last events first."""
        writer = int(self._grid.writer[slot])
        moment = self._moment.take(delivery)
        moment |= self._batch_index[first:end]
        behind = np.empty(moment.size + 1, np.int64)
        behind[-1] = self._earliest.get(writer, _NEVER)
        behind[:-1] = moment
        behind = np.minimum.accumulate(behind[::-1])[::-1]
        self._earliest[writer] = int(behind[0])
        disorder: NDArray[np.bool_] = (behind[1:] < moment) & (delivery > 0)
        return disorder


def settle_repeats(arrivals: Arrivals) -> RepeatedArrivals | None:
    """Let the earliest arrival of each event stand; return all of those that arrived more than once, by event."""
    if not arrivals.repeated:
        return None
    every = _in_order(arrivals)
    begins = np.ones(every.event.size, dtype=np.bool_)
    begins[1:] = every.event[1:] != every.event[:-1]
    first = every.event[begins]
    arrivals.delivery[first] = every.delivery[begins]
    arrivals.batch_index[first] = every.batch_index[begins]
    if every.position.any():
        arrivals.position.put(first, every.position[begins])
    if arrivals.keep_t3:
        arrivals.t3_ns[first] = every.t3_ns[begins]
    return every


def _count_repeats(arrivals: Arrivals, every: RepeatedArrivals | None) -> tuple[Ints, Ints]:
    """Return columns of the grid's events: deliveries after the first, and how many of them are Lambda's retries."""
    events = arrivals.grid.events
    if every is None:
        return np.zeros(events, np.int8), np.zeros(events, np.int8)
    item, items = arrivals.delivery_item()[every.delivery], arrivals.items
    # A position that two watchers saw is one arrival.
    seen_twice = _group_starts(every.event, every.position) != np.arange(item.size)
    overlap = (items.watch[item] != 0) & (every.position != 0) & seen_twice
    return _count(events, every.event[~overlap], item[~overlap], items.request[item[~overlap]])


def _in_order(arrivals: Arrivals) -> RepeatedArrivals:
    """Return all arrivals of events that arrived more than once, by event and time."""
    repeated = RepeatedArrivals(*(np.concatenate(column) for column in zip(*arrivals.repeated, strict=True)))
    event = np.unique(repeated.event)
    standing = RepeatedArrivals(
        event=event,
        delivery=arrivals.delivery[event].astype(np.int64),
        batch_index=arrivals.batch_index[event].astype(np.int64),
        position=arrivals.position.values[event].astype(np.int64),
        t3_ns=arrivals.t3_ns[event] if arrivals.keep_t3 else np.zeros(event.size, np.int64),
    )
    every = RepeatedArrivals(*(np.concatenate(pair) for pair in zip(standing, repeated, strict=True)))
    item, items = arrivals.delivery_item()[every.delivery], arrivals.items
    t4_ns = arrivals.delivery_t4_ns()[every.delivery]
    others = (items.cold[item], items.batch[item], every.t3_ns, every.position, every.batch_index)
    order = np.lexsort((*others, t4_ns, every.event))
    return RepeatedArrivals(*(column[order] for column in every))


def _count(
    grid_events: int, event: NDArray[np.int64], item: NDArray[np.int64], request: NDArray[np.int64]
) -> tuple[Ints, Ints]:
    """Count each event's arrivals after the first, and as retries those of an earlier one's request in another item."""
    repeats, retried = Narrow(grid_events, np.int8), Narrow(grid_events, np.int8)
    events, counts = np.unique(event, return_counts=True)
    repeats.put(events, counts - 1)
    starts = _group_starts(event, request)
    retry = (starts != np.arange(starts.size)) & (item[starts] != item)
    events, counts = np.unique(event[retry], return_counts=True)
    retried.put(events, counts)
    return repeats.values, retried.values


def _group_starts(event: NDArray[np.int64], name: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each place the first place with its event and name."""
    _, where, group = np.unique(np.stack([event, name]), axis=1, return_index=True, return_inverse=True)
    starts: NDArray[np.int64] = where[group.reshape(-1)]
    return starts
