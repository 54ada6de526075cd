"""When each event arrived first, after its t0, and in which order: the last step of the join."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.records.narrow import NarrowTimes, none_of
from stepbench.records.repeats import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.records.arrivals import Arrivals
    from stepbench.records.grid import Grid
    from stepbench.records.narrow import Ints

_AT_ONCE = 1 << 16
_NEVER = np.iinfo(np.int64).max
_LATE, _DISORDER, _COLD = np.uint8(1), np.uint8(2), np.uint8(4)


class Arrived(NamedTuple):
    """
    Of the events' first arrivals, in the grid's order.

    response_ns: t4 - t0, the largest number of its type = none. flags: late, disorder and cold, a bit each. repeats:
    how many arrivals came after it. The other columns are those of `records.joined.Joined`.
    """

    response_ns: Ints
    flags: NDArray[np.uint8]
    repeats: Ints
    retried: Ints
    batch: NDArray[np.uint32]
    batch_index: NDArray[np.uint16]
    t3_ns: NDArray[np.int64]

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which events arrived at all."""
        has: NDArray[np.bool_] = np.not_equal(self.response_ns, none_of(self.response_ns))
        return has

    @property
    def late(self) -> NDArray[np.bool_]:
        """Which came after the drain limit."""
        return self._flagged(_LATE)

    @property
    def disorder(self) -> NDArray[np.bool_]:
        """Which came after one that stands later in their writer's schedule."""
        return self._flagged(_DISORDER)

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Which a sandbox's first invocation received."""
        return self._flagged(_COLD)

    def _flagged(self, flag: np.uint8) -> NDArray[np.bool_]:
        flagged: NDArray[np.bool_] = np.not_equal(self.flags & flag, 0)
        return flagged

    def part(self, own: slice) -> Arrived:
        """Of some of the events."""
        return Arrived._make(column[own] for column in self)


def nothing_arrived(events: int) -> Arrived:
    """As of operations. Pages that nobody writes to take no memory, and neither does a value that is repeated."""
    response_ns = np.broadcast_to(np.int32(np.iinfo(np.int32).max), events)
    kinds = (np.uint8, np.int8, np.int8, np.uint32, np.uint16, np.int64)
    return Arrived._make([response_ns, *(np.zeros(events, kind) for kind in kinds)])


def settle_times(arrivals: Arrivals, limit_ns: int, *, details: bool) -> Arrived:
    """
    Turn deliveries into times; `arrivals` is used up, since its columns become these.

    Args:
        arrivals: all of them, matched.
        limit_ns: what arrives after it is late.
        details: whether to keep batch and batch_index; t3 is kept where `arrivals` has it.
    """
    grid = arrivals.grid
    came = nothing_arrived(grid.events)
    repeats = settle(arrivals)
    t4_ns = arrivals.delivery_t4_ns()
    if t4_ns.size == 1:
        return came
    any_late = bool((t4_ns > limit_ns).any())
    order = _Order(grid, t4_ns, arrivals.batch_index)
    item, items = arrivals.delivery_item(), arrivals.items
    cold = items.cold[item] if items.cold.any() else None
    response = NarrowTimes(arrivals.delivery.view(np.int32))  # from its end on, deliveries become times
    batch = items.batch[item] if details else None
    for slot, first, end in _backwards(grid):
        delivery = response.values[first:end].astype(np.int64)
        has, came_ns = delivery > 0, t4_ns.take(delivery)
        response.put(slice(first, end), came_ns - grid.due_ns(first, end), has)
        late = has & (came_ns > limit_ns) if any_late else np.zeros_like(has)
        disorder = order.disorder(slot, first, end, np.where(has & ~late, delivery, 0))
        flags = late * _LATE | disorder * _DISORDER
        if cold is not None:
            flags |= (has & cold[delivery]) * _COLD
        if flags.any():
            came.flags[first:end] = flags
        if batch is not None:
            came.batch[first:end] = np.where(has, batch[delivery], 0)
    return came._replace(
        response_ns=response.values,
        repeats=repeats.repeats,
        retried=repeats.retried,
        batch_index=arrivals.batch_index if details else came.batch_index,
        t3_ns=arrivals.t3_ns if arrivals.keep_t3 else came.t3_ns,
    )


def _backwards(grid: Grid) -> Iterator[tuple[int, int, int]]:
    """Some events of one slot after the others, the last ones first."""
    for slot in range(grid.count.size - 1, -1, -1):
        base = int(grid.base[slot])
        for first in range(int(grid.count[slot]) // _AT_ONCE * _AT_ONCE, -1, -_AT_ONCE):
            end = min(first + _AT_ONCE, int(grid.count[slot]))
            if end > first:
                yield slot, base + first, base + end


class _Order:
    """
    Which events arrived after one that stands later in their writer's schedule.

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
        """Of these events; to be called for the last ones first."""
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
