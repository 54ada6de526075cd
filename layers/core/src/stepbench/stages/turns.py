"""Two lanes take turns at holding a watch, each beginning some seconds before the other ends. Pure."""

from __future__ import annotations

from typing import NamedTuple

LANES = 2


class Turns(NamedTuple):
    """
    The timetable, fixed by the time when the trial took its target.

    Turn n is lane n mod 2's; it begins at base + n * length and ends `overlap` after its successor has begun.
    """

    base_ns: int
    length_ns: int
    overlap_ns: int

    def ends_ns(self, lane: int, now_ns: int) -> int | None:
        """When the lane's turn ends, or None while it is the other's."""
        turn = self._turn(now_ns)
        return self.base_ns + (turn + 1) * self.length_ns + self.overlap_ns if turn % LANES == lane else None

    def next_start_ns(self, lane: int, now_ns: int) -> int:
        """When the lane's next turn begins."""
        turn = self._turn(now_ns)
        ahead = 1 if (turn + 1) % LANES == lane else LANES
        return self.base_ns + (turn + ahead) * self.length_ns

    def _turn(self, now_ns: int) -> int:
        return max(0, now_ns - self.base_ns) // self.length_ns
