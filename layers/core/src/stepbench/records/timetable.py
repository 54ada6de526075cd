"""When each event is due, worked out from the plan whenever it is asked for: kept, it would be 8 bytes an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.load.arrivals import phase_offsets_ns, slice_cuts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan


class Timetable:
    """
    Of all slots. Those who go through them in order have each writer's part worked out once.

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
        """Of the slot's events [first, end), counted within it. Not to be written to."""
        return self._whole_ns(slot)[first:end]

    def first_ns(self) -> int:
        """When the first of all events is due, or the first phase begins: nothing is scheduled before it."""
        kept_ns = (each for each in (*self._closed_due_ns.values(), *self._others_ns.values()) if each.size)
        begins_ns = (int(each.min()) for each in kept_ns)
        return min([*begins_ns, *self._starts_ns.values()], default=np.iinfo(np.int64).max)

    def correct(self, slot: int, at: NDArray[np.int64], t0_ns: NDArray[np.int64]) -> None:
        """A writer's word on when some of the slot's events were due: where it is another, it stands, and is kept."""
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
