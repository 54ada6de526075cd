"""
Events that arrived more than once: which arrival counts, and what the others are.

The earliest counts. Of two at the same time, what else is known of them decides, so that it does not matter in which
order they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.records.arrivals import Again
from stepbench.records.narrow import Narrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.records.arrivals import Arrivals
    from stepbench.records.narrow import Ints


class Repeats(NamedTuple):
    """Columns of the grid's events: deliveries after the first, and how many of them are Lambda's retries."""

    repeats: Ints
    retried: Ints


class _All(NamedTuple):
    """All arrivals of events that arrived more than once, by event and time."""

    event: NDArray[np.int64]
    item: NDArray[np.int64]
    request: NDArray[np.int64]
    position: NDArray[np.int64]
    watched: NDArray[np.bool_]

    def some(self, which: NDArray[np.bool_]) -> _All:
        return _All._make(column[which] for column in self)


def settle(arrivals: Arrivals) -> Repeats:
    """Let the earliest arrival of each event stand, and count the others."""
    if not arrivals.again:
        return Repeats(np.zeros(arrivals.grid.events, np.int8), np.zeros(arrivals.grid.events, np.int8))
    every = _in_order(arrivals, Again(*(np.concatenate(column) for column in zip(*arrivals.again, strict=True))))
    begins = np.ones(every.event.size, dtype=np.bool_)
    begins[1:] = every.event[1:] != every.event[:-1]
    first = every.event[begins]
    arrivals.delivery[first] = every.delivery[begins]
    arrivals.batch_index[first] = every.batch_index[begins]
    if every.position.any():
        arrivals.position.put(first, every.position[begins])
    if arrivals.keep_t3:
        arrivals.t3_ns[first] = every.t3_ns[begins]
    item = arrivals.delivery_item()[every.delivery]
    items = arrivals.items
    named = _All(every.event, item, items.request[item], every.position, items.watched[item])
    return _count(arrivals.grid.events, named)


def _in_order(arrivals: Arrivals, again: Again) -> Again:
    event = np.unique(again.event)
    standing = Again(
        event=event,
        delivery=arrivals.delivery[event].astype(np.int64),
        batch_index=arrivals.batch_index[event].astype(np.int64),
        position=arrivals.position.values[event].astype(np.int64),
        t3_ns=arrivals.t3_ns[event] if arrivals.keep_t3 else np.zeros(event.size, np.int64),
    )
    every = Again(*(np.concatenate(pair) for pair in zip(standing, again, strict=True)))
    item, items = arrivals.delivery_item()[every.delivery], arrivals.items
    t4_ns = arrivals.delivery_t4_ns()[every.delivery]
    others = (items.cold[item], items.batch[item], every.t3_ns, every.position, every.batch_index)
    order = np.lexsort((*others, t4_ns, every.event))
    return Again(*(column[order] for column in every))


def _count(grid_events: int, every: _All) -> Repeats:
    """One store position that two watchers saw is one arrival; the same request in another item is a retry."""
    overlap = every.watched & (every.position != 0) & _repeated(every.event, every.position)
    left = every.some(~overlap)
    repeats, retried = Narrow(grid_events, np.int8), Narrow(grid_events, np.int8)
    events, counts = np.unique(left.event, return_counts=True)
    repeats.put(events, counts - 1)
    starts = _group_starts(left.event, left.request)
    retry = (starts != np.arange(starts.size)) & (left.item[starts] != left.item)
    events, counts = np.unique(left.event[retry], return_counts=True)
    retried.put(events, counts)
    return Repeats(repeats.values, retried.values)


def _repeated(event: NDArray[np.int64], name: NDArray[np.int64]) -> NDArray[np.bool_]:
    repeated: NDArray[np.bool_] = np.not_equal(_group_starts(event, name), np.arange(event.size))
    return repeated


def _group_starts(event: NDArray[np.int64], name: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each place, the first with its event and name."""
    _, where, group = np.unique(np.stack([event, name]), axis=1, return_index=True, return_inverse=True)
    starts: NDArray[np.int64] = where[group.reshape(-1)]
    return starts
