"""What became of every scheduled event, or of a part of them: `records.join.trial` has the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stepbench.model.request import Outcome
from stepbench.records.join.first_arrivals import COLD, DISORDER, LATE, UNPAIRED, WATCH_GAP
from stepbench.records.join.sent import NOT_OFFERED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.records.join.first_arrivals import FirstArrivals
    from stepbench.records.join.grid import Grid
    from stepbench.records.join.processing import Processing
    from stepbench.records.join.sent import Ints

PART = 1 << 16
"""Events that are looked at together: columns of 8 bytes of so many stay in a core's cache."""


@dataclass(frozen=True)
class Joined:
    """
    One row per event, in the grid's order. Times are ns since the epoch, 0 = none.

    slot: number in the grid. attempt: `NO_ATTEMPT` where neither row nor arrival has it. error: index into `errors`.
    t4_ns, t3_ns, batch, batch_index, cold: of the first arrival; batch and batch_index are all 0 unless details were
    asked for, and t3_ns unless event times were. arrivals: how many, the first included. retried: how many duplicates
    are Lambda's retries. late: the first came after `limit_ns`, and somebody watched. disorder: it arrived after an
    event of the same writer that stands later in the schedule. watch_gap: nobody watched when it was acknowledged, so
    its t4 is when the watch was taken up again. unpaired: see `records.join.pairing`.
    item: with which it came first, a row of the trial's `ItemColumns`, where batches were asked for.

    processing: when a measured function was done with each; None of a trial without one.

    lateness_ns, service_ns: t1 - t0 and t2 - t1, 0 where the event was not sent or has no row. first_arrivals: of which
    times are kept as t4 - t0. The times themselves are worked out when they are asked for: of a whole trial they are 8
    bytes an event, so `parts` and `part` are the way to go through them.

    extras: what only operations have, columns by name as in `records.formats.columns.Rows`; 0 where there is none.

    Beside the rows: `first`, the first one's number in the grid; arrivals of canaries, arrivals that name no event,
    events sent by two attempts.
    """

    grid: Grid
    attempt: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    error: NDArray[np.uint16]
    lateness_ns: Ints
    service_ns: Ints
    first_arrivals: FirstArrivals
    errors: tuple[str, ...]
    extras: Mapping[str, Ints]
    canaries: int
    unmatched: int
    sent_twice: int
    limit_ns: int
    first: int = 0
    processing: Processing | None = None

    @property
    def size(self) -> int:
        """Return how many events these are."""
        return self.outcome.size

    def part(self, first: int, end: int) -> Joined:
        """Return the events [first, end), by their numbers in the grid."""
        own = slice(first - self.first, end - self.first)
        return replace(
            self,
            first=first,
            attempt=self.attempt[own],
            outcome=self.outcome[own],
            error=self.error[own],
            lateness_ns=self.lateness_ns[own],
            service_ns=self.service_ns[own],
            first_arrivals=self.first_arrivals.part(own),
            processing=self.processing and self.processing.part(own),
            extras={name: column[own] for name, column in self.extras.items()},
        )

    def parts(self) -> Iterator[Joined]:
        """Yield all events, some of them at a time."""
        end = self.first + self.size
        for first in range(self.first, end, PART):
            yield self.part(first, min(first + PART, end))

    def of_phase(self, phase: int) -> Joined:
        """Return the phase's events."""
        return self.part(*self.grid.span_of_phase(phase))

    def of_slot(self, slot: int) -> Joined:
        """Return the slot's events."""
        base = int(self.grid.base[slot])
        return self.part(base, base + int(self.grid.count[slot]))

    @property
    def t0_ns(self) -> NDArray[np.int64]:
        """Return when each was due."""
        return self.grid.due_ns(self.first, self.first + self.size)

    @property
    def t1_ns(self) -> NDArray[np.int64]:
        """Return when each was handed to the kernel."""
        return np.where(self.outcome <= Outcome.UNKNOWN, self.t0_ns + self.lateness_ns, 0)

    @property
    def t2_ns(self) -> NDArray[np.int64]:
        """Return when each was answered."""
        answered_ns = self.t0_ns + self.lateness_ns + self.service_ns
        return np.where(self.outcome <= Outcome.UNKNOWN, answered_ns, 0)

    @property
    def t4_ns(self) -> NDArray[np.int64]:
        """Return when each arrived first."""
        return np.where(self.first_arrivals.has, self.t0_ns + self.first_arrivals.response_ns, 0)

    @property
    def t3_ns(self) -> NDArray[np.int64]:
        """Return the store's own time of each."""
        return self.first_arrivals.t3_ns

    @property
    def batch(self) -> NDArray[np.int64]:
        """Return how many were delivered together with each."""
        return self.first_arrivals.batch.astype(np.int64)

    @property
    def batch_index(self) -> NDArray[np.uint16]:
        """Return the place among them."""
        return self.first_arrivals.batch_index

    @property
    def item(self) -> NDArray[np.uint32]:
        """Return with which t4 item each arrived first; nothing of what did not arrive."""
        return self.first_arrivals.item

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Return which were received by a sandbox's first invocation."""
        return self.first_arrivals.flagged(COLD)

    @property
    def late(self) -> NDArray[np.bool_]:
        """Return which arrived after the drain limit."""
        return self.first_arrivals.flagged(LATE)

    @property
    def disorder(self) -> NDArray[np.bool_]:
        """Return which arrived after one that stands later in their writer's schedule."""
        return self.first_arrivals.flagged(DISORDER)

    @property
    def watch_gap(self) -> NDArray[np.bool_]:
        """Return which arrived only when a watch was taken up again."""
        return self.first_arrivals.flagged(WATCH_GAP)

    @property
    def unpaired(self) -> NDArray[np.bool_]:
        """Return which were counted together with others, so that none of their times but t0 to t2 is their own."""
        return self.first_arrivals.flagged(UNPAIRED)

    @property
    def arrivals(self) -> NDArray[np.int64]:
        """Return how often each arrived."""
        return self.first_arrivals.repeats.astype(np.int64) + self.first_arrivals.has

    @property
    def duplicates(self) -> NDArray[np.int64]:
        """Return how often each arrived, or was processed by a measured function, after the first time."""
        again = self.first_arrivals.repeats if self.processing is None else self.processing.again
        return again.astype(np.int64)

    @property
    def retried(self) -> NDArray[np.int64]:
        """Return how many of these were Lambda's own retries; of a measured function at most."""
        return np.minimum(self.first_arrivals.retried.astype(np.int64), self.duplicates)

    @property
    def arrived(self) -> NDArray[np.bool_]:
        """Return which events arrived by the drain limit."""
        return self.first_arrivals.has & ~self.late

    @property
    def processed(self) -> NDArray[np.bool_]:
        """Return which events a measured function had processed by the drain limit."""
        if self.processing is None:
            return np.zeros(self.size, dtype=np.bool_)
        in_time = self.processing.processed_ns <= self.limit_ns - self.t0_ns
        return self.processing.ever & in_time & self.arrived

    @property
    def matching(self) -> NDArray[np.bool_]:
        """Return which events the trigger's filter is to let pass: all, where it has none."""
        return self.grid.matching(self.first, self.first + self.size)

    @property
    def acknowledged(self) -> NDArray[np.bool_]:
        """Return which events are acknowledged, and to pass the filter."""
        acknowledged: NDArray[np.bool_] = self.outcome == Outcome.OK
        return acknowledged & self.matching if self.grid.matching_share < 1 else acknowledged

    @property
    def timed(self) -> NDArray[np.bool_]:
        """Return which of them have latencies: all, but those in a watch gap, and those that are not paired."""
        return self.acknowledged & ~self.watch_gap & ~self.unpaired

    @property
    def expected(self) -> NDArray[np.bool_]:
        """Return which of them have to arrive: all, but operations."""
        return self.acknowledged if self.grid.arrives else np.zeros(self.size, dtype=np.bool_)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Return which of those that have to arrive have not by the drain limit."""
        return self.expected & ~self.arrived

    def lost(self, cut_off_ns: int | None = None) -> NDArray[np.bool_]:
        """
        Return which of the missing ones are lost: all, unless the trial was stopped.

        cut_off_ns: of one that was stopped, since when its acknowledged events have not had the time to arrive.
        """
        return self.missing if cut_off_ns is None else self.missing & (self.t2_ns <= cut_off_ns)

    def failed_in_handler(self, cut_off_ns: int | None = None) -> NDArray[np.bool_]:
        """Return which of those that arrived a measured function failed, where it has not processed them: as `lost`."""
        failed = self.arrived & ~self.processed
        return failed if cut_off_ns is None else failed & (np.maximum(self.t0_ns, self.t2_ns) <= cut_off_ns)

    @property
    def offered(self) -> NDArray[np.bool_]:
        """Return which events were offered: all, but those that were due after `until` had ended their phase."""
        offered: NDArray[np.bool_] = np.not_equal(self.outcome, NOT_OFFERED)
        return offered

    @property
    def slot(self) -> NDArray[np.int64]:
        """Return each event's slot."""
        return self.grid.slots_of(self.first, self.first + self.size)

    @property
    def phase(self) -> NDArray[np.int64]:
        """Return each event's phase."""
        return self.grid.phase[self.slot]

    @property
    def sequence(self) -> NDArray[np.int64]:
        """Return each event's sequence number, as its writer counted."""
        return self.grid.sequences(self.first, self.first + self.size)
