"""
When a measured function was done with each event: its deliveries, with what became of the invocations they were.

A delivery *processed* an event if its invocation ended, and the event stands in the batch before the first record that
was not processed; otherwise it *failed* it. Of several that processed an event, the one that ended first counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepbench.records.join.sent import Narrow, NarrowTimes, none_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.records.join.arrivals import Arrivals, RepeatedArrivals
    from stepbench.records.join.sent import Ints

_AT_ONCE = 1 << 16


class Processing(NamedTuple):
    """
    Columns of the events, in the grid's order; times are none (the type's largest number) where there are none.

    handler_ns: from the handler's call to t5, of the invocation with which each came first. processed_ns: t5 - t0 of
    the first that processed it, at whatever time. again: how many more processed it. failed: how many failed it.
    tries_before: deliveries before the one that processed it first.

    Beside them: repeated_event, repeated_item: all deliveries of events that came more than once, by event and time.
    """

    handler_ns: Ints
    processed_ns: Ints
    again: Ints
    failed: Ints
    tries_before: Ints
    repeated_event: NDArray[np.int64]
    repeated_item: NDArray[np.int64]

    @property
    def ever(self) -> NDArray[np.bool_]:
        """Return which events were processed at any time."""
        ever: NDArray[np.bool_] = np.not_equal(self.processed_ns, none_of(self.processed_ns))
        return ever

    def part(self, own: slice) -> Processing:
        """Return what there is of some of the events; what is beside the columns stays whole."""
        return Processing._make([*(column[own] for column in self[:-2]), *self[-2:]])


class _Invocations:
    """It looks up what became of the invocations that deliveries were; times are 0 where one never ended."""

    def __init__(self, arrivals: Arrivals) -> None:
        item, runs = arrivals.delivery_item(), arrivals.items.runs
        none = np.zeros(item.size, np.int64)
        self._called_ns = none if runs is None else runs.called_ns[item]
        self._t5_ns = none if runs is None else runs.t5_ns[item]
        self._failed_from = np.zeros(item.size, np.uint32) if runs is None else runs.failed_from[item]
        self._t5_ns[0] = 0  # number 0 is none

    def handler_ns(self, delivery: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how long each delivery's handler took, of those that ended."""
        return self._t5_ns.take(delivery) - self._called_ns.take(delivery)

    def ended_ns(self, delivery: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return t5 of each delivery."""
        return self._t5_ns.take(delivery)

    def processed_ns(self, delivery: NDArray[np.int64], batch_index: NDArray[Any]) -> NDArray[np.int64]:
        """Return t5 of the deliveries that processed the event at this place in the batch; 0 of the others."""
        return np.where(batch_index < self._failed_from.take(delivery), self.ended_ns(delivery), 0)


def find_processing(arrivals: Arrivals, every: RepeatedArrivals | None) -> Processing:
    """
    Find when the events were processed, and how often.

    Args:
        arrivals: all of them, matched; `delivery` is the earliest of each event.
        every: all arrivals of events that came more than once, by event and time; None of none.
    """
    grid, n, invocations = arrivals.grid, arrivals.grid.events, _Invocations(arrivals)
    handler, processed = NarrowTimes(n), NarrowTimes(n)
    again, failed, before = (Narrow(n, np.int8) for _ in range(3))
    repeated = None if every is None else _find_repeated(every, invocations)
    for first in range(0, n, _AT_ONCE):
        own = slice(first, min(first + _AT_ONCE, n))
        delivery = arrivals.delivery[own].astype(np.int64)
        ended_ns = invocations.ended_ns(delivery)
        handler.put(own, invocations.handler_ns(delivery), ended_ns > 0)
        t5_ns = invocations.processed_ns(delivery, arrivals.batch_index[own])
        failures = ((delivery > 0) & (t5_ns == 0)).astype(np.int8)
        if repeated is not None:
            among = slice(*np.searchsorted(repeated.event, (own.start, own.stop)).tolist())
            places = repeated.event[among] - first
            t5_ns[places] = repeated.t5_ns[among]
            failures[places] = 0
        if failures.any():
            failed.put(own, failures)
        processed.put(own, t5_ns - grid.due_ns(own.start, own.stop), t5_ns > 0)
    if repeated is not None:
        for column, counts in ((again, repeated.again), (failed, repeated.failed), (before, repeated.before)):
            column.put(repeated.event, counts)
    none = np.empty(0, np.int64)
    return Processing(
        handler_ns=handler.values,
        processed_ns=processed.values,
        again=again.values,
        failed=failed.values,
        tries_before=before.values,
        repeated_event=none if every is None else every.event,
        repeated_item=none if every is None else arrivals.delivery_item()[every.delivery],
    )


class _Repeated(NamedTuple):
    """It holds, by event that came more than once, t5 of what processed it first (0 = none), and counts."""

    event: NDArray[np.int64]
    t5_ns: NDArray[np.int64]
    again: NDArray[np.int64]
    failed: NDArray[np.int64]
    before: NDArray[np.int64]


def _find_repeated(every: RepeatedArrivals, invocations: _Invocations) -> _Repeated:
    event, begins, deliveries = np.unique(every.event, return_index=True, return_counts=True)
    place = np.arange(every.event.size) - np.repeat(begins, deliveries)
    t5_ns = invocations.processed_ns(every.delivery, every.batch_index)
    done = t5_ns > 0
    processings = np.add.reduceat(done.astype(np.int64), begins)
    # By event, those that processed it before the others, the one that ended first before all.
    order = np.lexsort((t5_ns, ~done, every.event))[begins]
    return _Repeated(
        event=event,
        t5_ns=t5_ns[order],
        again=np.maximum(processings - 1, 0),
        failed=deliveries - processings,
        before=np.where(processings > 0, place[order], 0),
    )
