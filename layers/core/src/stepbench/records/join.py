"""
What became of every scheduled event: writers' rows and receivers' arrivals, scattered into one array per column.

The rules, beyond reading what is there:

- A slot (a writer's slice) without a `started` mark, a row and an arrival was never offered: its events are unsent.
- An event without a row in a slot that was begun is unrecorded, unless every attempt at the slot ended in good order
  with all its files: such an attempt has a row for all it sent, so the event was not sent.
- An arrival proves that its event was sent, whatever a missing record suggests.
- Where `until` ended a phase before its schedule's end, what was due from then on was not offered. Events are sent in
  order, so all that stand in their slot before one that was sent nonetheless (its writer saw the stop late) keep the
  outcome that they have by the other rules. A writer that died without having seen the stop may have sent some of
  the others, which neither row nor arrival tells.
- Rows of several attempts at one event: sent before unsent, then the earlier attempt. An arrival counts for the
  attempt whose row stands; another attempt's is unmatched.
- The earliest t4 is an event's arrival. More of the same event are duplicates, except one store position seen by two
  watchers. A duplicate with the request id of an earlier arrival, in another item, is Lambda's own retry.
- In closed loop nothing is scheduled: an event is an operation that an attempt began. One of which there is no row is
  unrecorded, and no attempt has another's events.
- Of operations nothing arrives.
- An arrival after the drain limit (counted from the last acknowledgement, or from the last t0 that may have been
  sent) is late, which is to say: not arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepbench.drivers.protocol import Outcome
from stepbench.errors import AccountingError
from stepbench.records.arrivals import Arrivals, collect, count_repeats
from stepbench.records.columns import UNSENT, ColumnFile
from stepbench.records.sent import (
    NOT_OFFERED,
    UNRECORDED,
    Sent,
    begun_slots,
    drain_end_ns,
    end_phase,
    fill_in,
    read_rows,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.records.grid import Grid
    from stepbench.records.t4 import T4Item


@dataclass(frozen=True)
class Joined:
    """
    One row per event, in the grid's order. Times are ns since the epoch, 0 = none.

    slot: number in the grid. attempt: `NO_ATTEMPT` where neither row nor arrival tells. error: index into `errors`.
    t4_ns, t3_ns, batch, batch_index, cold: of the first arrival. arrivals: how many, the first included.
    retried: how many of them are Lambda's retries. late: the first came after `limit_ns`. disorder: it arrived after
    an event of the same writer that stands later in the schedule.

    extras: what only operations have, columns by name as in `records.columns.Rows`; 0 where there is none.

    Beside the rows: arrivals of canaries, arrivals that name no event, events sent by two attempts.
    """

    grid: Grid
    slot: NDArray[np.int64]
    attempt: NDArray[np.uint8]
    t0_ns: NDArray[np.int64]
    t1_ns: NDArray[np.int64]
    t2_ns: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    error: NDArray[np.uint16]
    t3_ns: NDArray[np.int64]
    t4_ns: NDArray[np.int64]
    batch: NDArray[np.int64]
    batch_index: NDArray[np.uint16]
    cold: NDArray[np.bool_]
    arrivals: NDArray[np.int64]
    retried: NDArray[np.int64]
    late: NDArray[np.bool_]
    disorder: NDArray[np.bool_]
    errors: tuple[str, ...]
    extras: Mapping[str, NDArray[np.int64]]
    canaries: int
    unmatched: int
    sent_twice: int
    limit_ns: int

    @property
    def arrived(self) -> NDArray[np.bool_]:
        """Which events arrived by the drain limit."""
        return (self.t4_ns > 0) & ~self.late

    @property
    def matching(self) -> NDArray[np.bool_]:
        """Which events the trigger's filter is to let pass: all, where it has none."""
        return self.grid.matching

    @property
    def acknowledged(self) -> NDArray[np.bool_]:
        """Which events have latencies: acknowledged, and to pass the filter."""
        acknowledged: NDArray[np.bool_] = (self.outcome == Outcome.OK) & self.matching
        return acknowledged

    @property
    def expected(self) -> NDArray[np.bool_]:
        """Which of them have to arrive: all, but operations."""
        return self.acknowledged if self.grid.arrives else np.zeros(self.outcome.size, dtype=np.bool_)

    @property
    def offered(self) -> NDArray[np.bool_]:
        """Which events were offered: all, but those that were due after `until` had ended their phase."""
        offered: NDArray[np.bool_] = np.not_equal(self.outcome, NOT_OFFERED)
        return offered

    @property
    def phase(self) -> NDArray[np.int64]:
        """Each event's phase."""
        return self.grid.phase[self.slot]

    @cached_property
    def sequence(self) -> NDArray[np.int64]:
        """Each event's sequence number, as its writer counted."""
        return self.grid.sequences()


def join(  # noqa: PLR0913 -- all that a trial leaves
    grid: Grid,
    started: Collection[str],
    files: Sequence[ColumnFile],
    items: Iterable[T4Item],
    drain_limit_ns: int,
    *,
    stops_ns: Mapping[int, int] | None = None,
) -> Joined:
    """
    Everything that is known of every scheduled event.

    Args:
        grid: the schedule.
        started: ids of the attempts that were about to offer load.
        files: all column files, in any order.
        items: all t4 items, in any order.
        drain_limit_ns: how long after the last acknowledgement an arrival counts.
        stops_ns: phase to where it ended, for those that ended before their schedule's end.

    Raises:
        AccountingError: records contradict each other, or name events that were never scheduled.
    """
    sent = read_rows(grid, files)
    slot = grid.slot_of_event()
    fill_in(grid, slot, sent, begun_slots(grid, started, files))
    arrivals = collect(grid, items, files)
    arrivals, unmatched = _match(sent, arrivals)
    for phase, stop_at_ns in (stops_ns or {}).items():
        end_phase(grid, slot, sent, grid.phase[slot] == phase, stop_at_ns)
    first = _first_of_each(grid.events, arrivals)
    limit_ns = drain_end_ns(sent, drain_limit_ns)
    has = first >= 0
    t4_ns = _take(arrivals.t4_ns, first)
    late = has & (t4_ns > limit_ns)
    counts, retried = count_repeats(grid.events, arrivals, first)
    batch_index = _take(arrivals.batch_index, first)
    return Joined(
        grid=grid,
        slot=slot,
        attempt=sent.attempt,
        t0_ns=sent.t0_ns,
        t1_ns=sent.t1_ns,
        t2_ns=sent.t2_ns,
        outcome=sent.outcome,
        error=sent.error,
        t3_ns=_take(arrivals.t3_ns, first),
        t4_ns=t4_ns,
        batch=_take(arrivals.batch, first),
        batch_index=batch_index.astype(np.uint16),
        cold=_take(arrivals.cold, first).astype(np.bool_),
        arrivals=counts,
        retried=retried,
        late=late,
        disorder=_disorder(grid.writer[slot], t4_ns, batch_index, has & ~late),
        errors=tuple(sent.errors),
        extras=sent.extras,
        canaries=arrivals.canaries,
        unmatched=unmatched,
        sent_twice=sent.sent_twice,
        limit_ns=limit_ns,
    )


def _match(sent: Sent, arrivals: Arrivals) -> tuple[Arrivals, int]:
    """The arrivals of known events, and how many others; what arrived was sent."""
    known = arrivals.event >= 0
    event = arrivals.event[known]
    attempt = arrivals.attempt[known]
    by_row = sent.outcome[event] <= Outcome.UNKNOWN
    same = (attempt == sent.attempt[event]) | arrivals.by_token[known]
    contradicted = (sent.outcome[event] == UNSENT) & same
    if contradicted.any():
        message = f"{np.unique(event[contradicted]).size} events arrived that their writer says it did not send"
        raise AccountingError(message)
    sure = ~by_row | same
    proven = np.unique(event[~by_row])
    sent.outcome[proven] = UNRECORDED
    # Backwards, so that the smallest attempt stays where several arrived.
    order = np.argsort(-attempt[~by_row].astype(np.int64), kind="stable")
    sent.attempt[event[~by_row][order]] = attempt[~by_row][order]
    keep = np.nonzero(known)[0][sure]
    return arrivals.select(keep), arrivals.event.size - keep.size


def _first_of_each(events: int, arrivals: Arrivals) -> NDArray[np.int64]:
    """Per event: the index of its earliest arrival, -1 without one."""
    first = np.full(events, -1, np.int64)
    order = np.argsort(arrivals.t4_ns, kind="stable")[::-1]
    # Of repeated indices numpy keeps the last assignment: latest first means that the earliest stays.
    first[arrivals.event[order]] = order
    return first


def _take(column: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    taken = np.zeros(first.size, np.int64)
    taken[first >= 0] = column[first[first >= 0]]
    return taken


def _disorder(
    writer: NDArray[np.int64], t4_ns: NDArray[np.int64], batch_index: NDArray[np.int64], arrived: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which arrivals came after one that stands later in the same writer's schedule."""
    disorder = np.zeros(arrived.size, np.bool_)
    event = np.nonzero(arrived)[0]
    order = event[np.lexsort((batch_index[event], t4_ns[event], writer[event]))]
    # Events ascend with the schedule within a writer; writers are kept apart by more than there are events.
    place = order + writer[order] * arrived.size
    disorder[order] = place < np.maximum.accumulate(place)
    return disorder
