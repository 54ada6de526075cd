"""
Dense numbering of a trial's events, so that a join is an array scatter.

A *slot* is one slice of one writer's work in one phase. Events are numbered by phase, writer, slice, sequence, in
that order, without gaps. In open loop they are those of the schedule, the same in every attempt. In closed loop there
is none: its events are the operations that were begun, and each attempt has its own, numbered attempt by attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measure import measure_of
from stepbench.load.arrivals import phase_offsets_ns, slice_counts
from stepbench.load.matching import matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan

    Begun = Mapping[tuple[int, int, int], Mapping[int, NDArray[np.int64]]]
    """By phase, writer and slice, by attempt: when each of its operations was due, ns, as far as that is known."""

_PHASES = 256


@dataclass(frozen=True)
class Grid:
    """
    The numbering. Phases that were never planned are not in it: nothing of them was offered.

    phase, writer, slice, count, base: shape (slots,), a slot's names, number of events and first event.
    t0_ns, matching: shape (events,), the schedule, and which events the trigger's filter is to let pass.
    first_slot, writers, slices: shape (256,), by phase; -1 and 0 = not planned.
    attempts: of closed loop, by slot and attempt: its operations' places in the slot, [first, end).
    closed: shape (slots,), whether it is closed loop. arrives: whether anything is to arrive.
    """

    phase: NDArray[np.int64]
    writer: NDArray[np.int64]
    slice: NDArray[np.int64]
    count: NDArray[np.int64]
    base: NDArray[np.int64]
    t0_ns: NDArray[np.int64]
    matching: NDArray[np.bool_]
    first_slot: NDArray[np.int64]
    writers: NDArray[np.int64]
    slices: NDArray[np.int64]
    closed: NDArray[np.bool_]
    attempts: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    arrives: bool = True

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.t0_ns.size

    def span(self, slot: int, attempt: int) -> tuple[int, int]:
        """Numbers of an attempt's events, [first, end): the slot's own in open loop; none where it has none."""
        base = int(self.base[slot])
        if not self.closed[slot]:
            return base, base + int(self.count[slot])
        first, end = self.attempts.get((slot, attempt), (0, 0))
        return base + first, base + end

    def sequences(self) -> NDArray[np.int64]:
        """Each event's sequence number, in its slice or, in closed loop, in its attempt; shape (events,)."""
        sequences = np.arange(self.events) - np.repeat(self.base, self.count)
        for (slot, _), (first, end) in self.attempts.items():
            sequences[self.base[slot] + first : self.base[slot] + end] -= first
        return sequences

    def slot_of_event(self) -> NDArray[np.int64]:
        """Each event's slot; shape (events,)."""
        return np.repeat(np.arange(self.count.size), self.count)

    def slot(self, phase: int, writer: int, slice_: int) -> int:
        """The slot's number, or -1 where the schedule has none."""
        names = (np.array([value], dtype=np.int64) for value in (phase, writer, slice_))
        return int(self.slots(*names)[0])

    def slots(
        self, phase: NDArray[np.int64], writer: NDArray[np.int64], slice_: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Numbers of many slots at once; -1 where the schedule has none."""
        known = (self.first_slot[phase] >= 0) & (writer < self.writers[phase]) & (slice_ < self.slices[phase])
        return np.where(known, self.first_slot[phase] + writer * self.slices[phase] + slice_, -1)

    def locate(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """Event numbers of t4 entries (see `records.t4`); -1 where the schedule has no such event."""
        phase, writer, slice_, sequence = (
            entries[name].astype(np.int64) for name in ("phase", "writer", "slice", "sequence")
        )
        slot = self.slots(phase, writer, slice_)
        known = (slot >= 0) & (sequence < self.count[slot]) if self.count.size else np.zeros(slot.size, dtype=bool)
        return np.where(known, self.base[slot] + sequence, -1) if self.count.size else slot


def build_grid(plan: TrialPlan, starts_ns: Mapping[int, int], begun: Begun | None = None) -> Grid:
    """
    The numbering of what was planned, and of what was begun in closed loop.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero, for the phases that `PlanPhase` has planned.
        begun: the operations of closed loop.
    """
    names: list[tuple[int, int, int]] = []
    counts, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first_slot, writers, slices = (
        np.full(_PHASES, -1, np.int64),
        np.zeros(_PHASES, np.int64),
        np.zeros(_PHASES, np.int64),
    )
    attempts: dict[tuple[int, int], tuple[int, int]] = {}
    for phase in sorted(starts_ns):
        first_slot[phase], writers[phase], slices[phase] = len(names), plan.writers, plan.phases[phase].slices
        for writer in range(plan.writers):
            own = [(phase, writer, slice_) for slice_ in range(plan.phases[phase].slices)]
            if plan.phases[phase].closed is None:
                counts.append(slice_counts(plan, phase, writer))
                times.append(phase_offsets_ns(plan, phase, writer) + starts_ns[phase])
            else:
                by_attempt = [dict(sorted((begun or {}).get(name, {}).items())) for name in own]
                counts.append(np.array([sum(map(len, each.values())) for each in by_attempt], dtype=np.int64))
                times.extend(due_ns for each in by_attempt for due_ns in each.values())
                attempts.update(_places(len(names), by_attempt))
            names.extend(own)
    count = np.concatenate(counts)
    base = np.cumsum(count) - count
    t0_ns = np.concatenate(times)
    columns = np.array(names, dtype=np.int64).reshape(-1, 3).T
    return Grid(
        phase=columns[0],
        writer=columns[1],
        slice=columns[2],
        count=count,
        base=base,
        t0_ns=t0_ns,
        matching=matching(plan.record.matching_share, np.arange(t0_ns.size) - np.repeat(base, count)),
        first_slot=first_slot,
        writers=writers,
        slices=slices,
        closed=np.array([plan.phases[phase].closed is not None for phase, _, _ in names], dtype=np.bool_),
        attempts=attempts,
        arrives=measure_of(plan.experiment).arrives,
    )


def _places(
    first_slot: int, by_attempt: list[dict[int, NDArray[np.int64]]]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for slot, of_slot in enumerate(by_attempt, first_slot):
        ends = [0, *accumulate(map(len, of_slot.values()))]
        for place, attempt in enumerate(of_slot):
            yield (slot, attempt), (ends[place], ends[place + 1])
