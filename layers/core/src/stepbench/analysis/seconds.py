"""A phase's events by the second in which they were due, some seconds of all writers at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.records.joined import Joined

_AT_ONCE = 1 << 18
_SECOND_NS = 1_000_000_000


class Seconds(NamedTuple):
    """Events of one slot; second: of each, from the first of `whole` seconds on; each: how many there are in each."""

    events: Joined
    second: NDArray[np.int64]
    each: NDArray[np.int64]

    @property
    def whole(self) -> int:
        """How many seconds."""
        return self.each.size

    def chosen(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of the chosen events are in each second."""
        if which.all():
            return self.each
        counts: NDArray[np.int64] = np.bincount(self.second[which], minlength=self.whole)
        return counts


def by_seconds(joined: Joined, phase: int, start_ns: int, seconds: int) -> Iterator[tuple[int, list[Seconds]]]:
    """
    For some of the phase's seconds after the others: the first of them, and their events, slot by slot.

    Within a slot events are due one after the other, so those of some seconds stand together. (In closed loop they
    may not; then all seconds come at once.)
    """
    events = joined.of_phase(phase)
    slots = np.nonzero(joined.grid.phase == phase)[0].tolist()
    edges = [_edges(joined.of_slot(slot), start_ns, seconds) for slot in slots]
    in_order = [
        (int(joined.grid.base[slot]), found) for slot, found in zip(slots, edges, strict=True) if found is not None
    ]
    if len(in_order) < len(slots):
        whole = [joined.of_slot(slot) for slot in slots]
        yield 0, [_anyhow(part, start_ns, seconds) for part in whole if part.size]
        return
    step = max(1, _AT_ONCE * seconds // max(events.size, 1))
    for first in range(0, seconds, step):
        last = min(first + step, seconds)
        parts = [_between(joined, base, found[first : last + 1]) for base, found in in_order]
        yield first, [part for part in parts if part.events.size]


def _edges(events: Joined, start_ns: int, seconds: int) -> NDArray[np.int64] | None:
    """Where each second's events begin in the slot, and where the last ones end; None where they are in no order."""
    t0_ns = events.t0_ns
    if (t0_ns[1:] < t0_ns[:-1]).any():
        return None
    edges = np.searchsorted(t0_ns, start_ns + np.arange(seconds + 1) * _SECOND_NS)
    edges[-1] = t0_ns.size
    return edges


def _between(joined: Joined, base: int, edges: NDArray[np.int64]) -> Seconds:
    each = np.diff(edges)
    events = joined.part(base + int(edges[0]), base + int(edges[-1]))
    return Seconds(events, np.repeat(np.arange(each.size), each), each)


def _anyhow(events: Joined, start_ns: int, seconds: int) -> Seconds:
    second = (events.t0_ns - start_ns) // _SECOND_NS
    return Seconds(events, second, np.bincount(second, minlength=seconds))
