"""Dense numbering of a trial's events, so that a join is an array scatter.

A *slot* is one slice of one writer's work in one phase. Events are numbered by phase, writer, slice, sequence, in
that order, without gaps. In open loop they are those of the schedule, the same in every attempt. In closed loop there
is none: its events are the operations that were started, and each attempt has its own, numbered attempt by attempt.

`Timetable` works out from the plan when each event is due, whenever it is asked for: stored, it
would take 8 bytes an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.experiment import measure_of
from stepbench.records.formats.t4 import pack
from stepbench.records.formats.t4_items import unpack
from stepbench.workload.arrivals import phase_offsets_ns, slice_counts, slice_cuts
from stepbench.workload.payloads import matching

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.formats.t4 import Entry

    StartedOperations = Mapping[tuple[int, int, int], Mapping[int, NDArray[np.int64]]]
    """By phase, writer and slice, by attempt: when each of its operations was due, ns, as far as that is known."""

_PHASES = 256


@dataclass(frozen=True)
class Grid:
    """
    The numbering. Phases that were never planned are not in it: nothing of them was offered.

    phase, writer, slice, count, base: shape (slots,), a slot's names, number of events and first event.
    timetable: when each event is due. matching_share: of the trigger's filter.
    first_slot, writers, slices: shape (256,), by phase; -1 and 0 = not planned.
    attempts: of closed loop, by slot and attempt: its operations' places in the slot, [first, end).
    closed: shape (slots,), whether it is closed loop. arrives: whether anything is to arrive.
    """

    phase: NDArray[np.int64]
    writer: NDArray[np.int64]
    slice: NDArray[np.int64]
    count: NDArray[np.int64]
    base: NDArray[np.int64]
    timetable: Timetable
    matching_share: float
    first_slot: NDArray[np.int64]
    writers: NDArray[np.int64]
    slices: NDArray[np.int64]
    closed: NDArray[np.bool_]
    attempts: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    arrives: bool = True

    @property
    def events(self) -> int:
        """Return how many events there are."""
        return int(self.count.sum())

    @property
    def t0_ns(self) -> NDArray[np.int64]:
        """Return the whole schedule, shape (events,): worked out anew, 8 bytes an event."""
        return self.due_ns(0, self.events)

    def due_ns(self, first: int, end: int) -> NDArray[np.int64]:
        """Return when the events [first, end) are due."""
        parts = [self.timetable.due_ns(slot, start, stop) for slot, start, stop in self.pieces(first, end)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def pieces(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the slots that the events [first, end) are of, each with the places in it, [start, stop)."""
        slot = max(int(np.searchsorted(self.base, first, side="right")) - 1, 0)
        while first < end:
            base, count = int(self.base[slot]), int(self.count[slot])
            stop = min(end - base, count)
            if stop > first - base:
                yield slot, first - base, stop
            first, slot = max(first, base + count), slot + 1

    def matching(self, first: int, end: int) -> NDArray[np.bool_]:
        """Return which of the events [first, end) the trigger's filter is to let pass."""
        passes = np.ones(end - first, dtype=np.bool_)
        if self.matching_share < 1:
            for slot, start, stop in self.pieces(first, end):
                at = int(self.base[slot]) - first
                passes[at + start : at + stop] = matching(self.matching_share, np.arange(start, stop))
        return passes

    def span(self, slot: int, attempt: int) -> tuple[int, int]:
        """Return numbers of an attempt's events, [first, end): the slot's own in open loop; none where it has none."""
        base = int(self.base[slot])
        if not self.closed[slot]:
            return base, base + int(self.count[slot])
        first, end = self.attempts.get((slot, attempt), (0, 0))
        return base + first, base + end

    def span_of_phase(self, phase: int) -> tuple[int, int]:
        """Return numbers of a phase's events, [first, end); none where it was not planned."""
        own = np.nonzero(self.phase == phase)[0]
        if own.size == 0:
            return 0, 0
        return int(self.base[own[0]]), int(self.base[own[-1]] + self.count[own[-1]])

    def sequences(self, first: int = 0, end: int | None = None) -> NDArray[np.int64]:
        """Return the events' sequence numbers: in the slice or, in closed loop, in the attempt. `end`: None = all."""
        pieces = list(self.pieces(first, self.events if end is None else end))
        sequences = np.concatenate([np.empty(0, np.int64), *(np.arange(start, stop) for _, start, stop in pieces)])
        at = {slot: sum(stop - start for _, start, stop in pieces[:place]) for place, (slot, _, _) in enumerate(pieces)}
        starts = {slot: start for slot, start, _ in pieces}
        for (slot, _), (begin, done) in self.attempts.items():
            if slot in at and begin:
                begins, ends = (max(place - starts[slot], 0) + at[slot] for place in (begin, done))
                sequences[begins:ends] -= begin
        return sequences

    def slots_of(self, first: int, end: int) -> NDArray[np.int64]:
        """Return the slot of each of the events [first, end)."""
        pieces = list(self.pieces(first, end))
        slots = np.array([slot for slot, _, _ in pieces], dtype=np.int64)
        return np.repeat(slots, [stop - start for _, start, stop in pieces])

    def slot(self, phase: int, writer: int, slice_: int) -> int:
        """Return the slot's number, or -1 where the schedule has none."""
        known = self.first_slot[phase] >= 0 and writer < self.writers[phase] and slice_ < self.slices[phase]
        return int(self.first_slot[phase] + writer * self.slices[phase] + slice_) if known else -1

    def slots(
        self, phase: NDArray[np.int64], writer: NDArray[np.int64], slice_: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return numbers of many slots at once; -1 where the schedule has none."""
        known = (self.first_slot[phase] >= 0) & (writer < self.writers[phase]) & (slice_ < self.slices[phase])
        return np.where(known, self.first_slot[phase] + writer * self.slices[phase] + slice_, -1)

    def locate(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """Return the event numbers of t4 entries; -1 where the schedule has no such event."""
        phase, writer, slice_, sequence = (
            entries[name].astype(np.int64) for name in ("phase", "writer", "slice", "sequence")
        )
        if phase.size and (phase == phase[0]).all():
            phase = phase[:1]  # one look-up for all of them
        slot = self.slots(phase, writer, slice_)
        if not self.count.size:
            return slot
        place, end = sequence, self.count.take(slot)
        if self.attempts:
            place, end = self._of_attempts(slot, entries["attempt"], sequence, end)
        return np.where((slot >= 0) & (place < end), self.base.take(slot) + place, -1)

    def find(self, entries: Iterable[Entry]) -> NDArray[np.int64]:
        """Return the numbers of those entries that are events of the schedule, each once, ascending."""
        numbers = np.unique(self.locate(unpack(pack(entries), "entries")))
        return numbers[numbers >= 0]

    def _of_attempts(
        self, slot: NDArray[np.int64], attempt: NDArray[np.uint8], sequence: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return places in their slots, and what they have to be below: in closed loop each attempt has its own."""
        slot = np.broadcast_to(slot, sequence.shape)
        place, end = sequence.copy(), np.where(self.closed.take(slot), 0, end)
        for (own, number), (first, last) in self.attempts.items():
            chosen = (slot == own) & (attempt == number)
            place[chosen] += first
            end[chosen] = last
        return place, end


def build_grid(plan: TrialPlan, starts_ns: Mapping[int, int], started: StartedOperations | None = None) -> Grid:
    """
    Build the numbering of what was planned, and of what was started in closed loop.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero, for the phases that `PlanPhase` has planned.
        started: the operations of closed loop.
    """
    names: list[tuple[int, int, int]] = []
    counts = [np.empty(0, np.int64)]
    first_slot, writers, slices = (np.full(_PHASES, nothing, np.int64) for nothing in (-1, 0, 0))
    attempts: dict[tuple[int, int], tuple[int, int]] = {}
    closed_due_ns: dict[int, NDArray[np.int64]] = {}
    for phase in sorted(starts_ns):
        first_slot[phase], writers[phase], slices[phase] = len(names), plan.writers, plan.phases[phase].slices
        for writer in range(plan.writers):
            own = [(phase, writer, slice_) for slice_ in range(plan.phases[phase].slices)]
            if plan.phases[phase].is_open:
                counts.append(slice_counts(plan, phase, writer))
            else:
                for slot, name in enumerate(own, len(names)):
                    operations = dict(sorted((started or {}).get(name, {}).items()))
                    closed_due_ns[slot] = np.concatenate([np.empty(0, np.int64), *operations.values()])
                    counts.append(np.array([closed_due_ns[slot].size]))
                    spans = pairwise(accumulate(map(len, operations.values()), initial=0))
                    attempts.update(zip(((slot, attempt) for attempt in operations), spans, strict=True))
            names.extend(own)
    count = np.concatenate(counts)
    columns = np.array(names, dtype=np.int64).reshape(-1, 3).T
    return Grid(
        phase=columns[0],
        writer=columns[1],
        slice=columns[2],
        count=count,
        base=np.cumsum(count) - count,
        timetable=Timetable(plan, starts_ns, names, closed_due_ns),
        matching_share=plan.record.matching_share,
        first_slot=first_slot,
        writers=writers,
        slices=slices,
        closed=np.array([not plan.phases[phase].is_open for phase, _, _ in names], dtype=np.bool_),
        attempts=attempts,
        arrives=measure_of(plan.experiment).arrives,
    )


class Timetable:
    """
    The due times of all slots. Whoever asks for slots in order has each writer's part worked out once.

    Args:
        plan: the trial's.
        starts_ns: phase to its time zero.
        names: of each slot: phase, writer, slice.
        closed_due_ns: of each slot of closed loop, when its operations were due; they are in no plan.
    """

    def __init__(
        self,
        plan: TrialPlan,
        starts_ns: Mapping[int, int],
        names: Sequence[tuple[int, int, int]],
        closed_due_ns: Mapping[int, NDArray[np.int64]],
    ) -> None:
        self._plan = plan
        self._starts_ns = starts_ns
        self._names = names
        self._closed_due_ns = dict(closed_due_ns)
        self._others_ns: dict[int, NDArray[np.int64]] = {}
        self._writer = (-1, -1)
        self._slices_ns: list[NDArray[np.int64]] = []

    def due_ns(self, slot: int, first: int, end: int) -> NDArray[np.int64]:
        """Return when the slot's events [first, end), counted within it, are due; the array is not to be written to."""
        return self._whole_ns(slot)[first:end]

    def first_ns(self) -> int:
        """Return when the first of all events is due, or the first phase begins: nothing is scheduled before it."""
        kept_ns = (each for each in (*self._closed_due_ns.values(), *self._others_ns.values()) if each.size)
        begins_ns = (int(each.min()) for each in kept_ns)
        return min([*begins_ns, *self._starts_ns.values()], default=np.iinfo(np.int64).max)

    def correct(self, slot: int, at: NDArray[np.int64], t0_ns: NDArray[np.int64]) -> None:
        """Correct when some of the slot's events were due: a writer's own times stand, and are kept."""
        if slot not in self._others_ns:
            self._others_ns[slot] = self._whole_ns(slot).copy()
        self._others_ns[slot][at] = t0_ns

    def _whole_ns(self, slot: int) -> NDArray[np.int64]:
        known = self._others_ns.get(slot, self._closed_due_ns.get(slot))
        if known is not None:
            return known
        phase, writer, slice_ = self._names[slot]
        if self._writer != (phase, writer):
            due_ns = phase_offsets_ns(self._plan, phase, writer)
            cuts = slice_cuts(self._plan, phase, due_ns)
            due_ns += self._starts_ns[phase]
            self._slices_ns = np.split(due_ns, cuts[1:-1])
            self._writer = (phase, writer)
        return self._slices_ns[slice_]
