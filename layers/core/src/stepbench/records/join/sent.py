"""
The writers' side of the join, one row per event: what their files say, and what follows where they say nothing.

`records.join.trial` has the rules. Files are taken in one after the other, and none is kept. Columns are as narrow as
what they hold: of ten million events, one of 8 bytes is 80 MB; times since the event before them, or since the
schedule's, fit into 4 bytes as long as they are below two seconds. Where one does not, the whole column is made wider.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.errors import AccountingError
from stepbench.model.errors import OTHER_ERRORS
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, ColumnFile
from stepbench.records.storage.layout import attempt_id, attempt_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from stepbench.records.formats.columns import ColumnHeader, Rows
    from stepbench.records.join.grid import Grid

    Place = slice | NDArray[np.int64]
    from numpy.typing import NDArray


Ints = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
_KINDS = (np.int8, np.int16, np.int32, np.int64)


class Narrow:
    """
    A column of so many integers, 0 to begin with.

    Pages that nobody has written to take no memory: a column of rare things costs what is rare.
    """

    def __init__(self, size: int, kind: type[np.signedinteger[Any]] = np.int32) -> None:
        self.values: Ints = np.zeros(size, kind)

    def put(self, at: slice | NDArray[np.integer[Any]], values: NDArray[np.integer[Any]]) -> None:
        """Set some of them, in the wider column that they need if there is none yet."""
        self.values = hold(self.values, values)
        self.values[at] = values


def hold(column: Ints, values: NDArray[np.integer[Any]]) -> Ints:
    """Return the column, or its values in a wider one if it cannot hold these."""
    if values.size == 0 or values.dtype == column.dtype:
        return column
    low, high = int(values.min()), int(values.max())
    limits = np.iinfo(column.dtype)
    if limits.min <= low and high <= limits.max:
        return column
    kinds = (kind for kind in _KINDS if np.dtype(kind).itemsize >= column.dtype.itemsize)
    return column.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


class NarrowTimes:
    """
    A column of times, the largest number of its type = none; to begin with, of 4 bytes.

    Args:
        size: how many; or a column of 4 bytes that is to become one of times in the same memory, from anywhere.
    """

    def __init__(self, size: int | NDArray[np.int32]) -> None:
        self.values: Ints = np.empty(size, np.int32) if isinstance(size, int) else size

    def put(self, at: slice, times_ns: NDArray[np.int64], has: NDArray[np.bool_] | None = None) -> None:
        """Set some of them; `has` says which there are, None = all."""
        every = has is None or bool(has.all())
        known_ns = times_ns if every else times_ns[has]
        limits = np.iinfo(self.values.dtype)
        if known_ns.size and (int(known_ns.min()) < limits.min or int(known_ns.max()) >= limits.max):
            self._widen()
        self.values[at] = times_ns if every or has is None else np.where(has, times_ns, none_of(self.values))

    def _widen(self) -> None:
        if self.values.dtype == np.int64:
            return
        wider = self.values.astype(np.int64)
        wider[self.values == none_of(self.values)] = none_of(wider)
        self.values = wider


def none_of(column: Ints) -> int:
    """Return what stands in a column of times for none."""
    return int(np.iinfo(column.dtype).max)


_MOST_ERRORS = 5_000
UNRECORDED = 4
"""Outcome of an event that may have been sent, and of which there is no row. (0-2 are `Outcome`, 3 is `UNSENT`.)"""
NOT_OFFERED = 5
"""Outcome of an event that was due after its phase had ended: it is in no accounting."""
NO_ATTEMPT = 0xFF


@dataclass
class Attempts:
    """The numbers of each attempt's files, and that of the file with which it ended in good order."""

    flushes: dict[str, set[int]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def add(self, head: ColumnHeader) -> None:
        """Add one more file."""
        name = attempt_of(head)
        self.flushes.setdefault(name, set()).add(head.flush)
        if head.last:
            self.last[name] = head.flush

    def whole(self) -> set[str]:
        """Return the attempts that ended in good order and of which every file is here."""
        return {attempt for attempt, flush in self.last.items() if self.flushes[attempt] == set(range(flush + 1))}


def attempt_of(head: ColumnHeader) -> str:
    """Return the id of the attempt whose file this is."""
    return attempt_id(head.phase, head.writer, head.slice, head.attempt)


@dataclass
class Sent:
    """The writers' side while it is being put together; columns as in `Joined`."""

    grid: Grid
    attempt: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    error: NDArray[np.uint16]
    lateness_ns: Narrow
    service_ns: Narrow
    errors: dict[str, int] = field(default_factory=lambda: {"": 0})
    extras: dict[str, Narrow] = field(default_factory=dict)
    sent_twice: int = 0
    attempts: Attempts = field(default_factory=Attempts)
    _last_t2_ns: int = 0

    @classmethod
    def of(cls, grid: Grid, started: Collection[str], files: Iterable[ColumnFile]) -> Sent:
        """Return what these attempts sent, by their files. Raises AccountingError as `add` does."""
        n = grid.events
        attempt, outcome = np.full(n, NO_ATTEMPT, np.uint8), np.full(n, UNRECORDED, np.uint8)
        sent = cls(grid, attempt, outcome, np.zeros(n, np.uint16), Narrow(n), Narrow(n))
        for file in files:
            sent.add(file)
        sent.fill_in(started)
        return sent

    def add(self, file: ColumnFile) -> None:
        """
        Let the rows of a file stand where nothing better does.

        Raises:
            AccountingError: they contradict those that stand, or name events that were never scheduled.
        """
        head, rows = file
        self.attempts.add(head)
        if rows.sequence.size == 0:
            return
        at = self._place(head, rows)
        standing = self.attempt[at]
        if (standing == NO_ATTEMPT).all():
            self._set(at, head, rows)
            return
        if (standing == head.attempt).any():
            raise _twice(head)
        old, new = self.outcome[at] <= Outcome.UNKNOWN, rows.outcome <= Outcome.UNKNOWN
        self.sent_twice += int(np.count_nonzero(old & new))
        better = (standing == NO_ATTEMPT) | (new & (~old | (head.attempt < standing)))
        replaced = _numbers(at)[better]
        self.error[replaced] = 0
        self._set(replaced, head, rows.some(better))

    def _place(self, head: ColumnHeader, rows: Rows) -> Place:
        """Return where the rows belong: a slice where they have no gaps, as mostly."""
        slot = self.grid.slot(head.phase, head.writer, head.slice)
        first, end = self.grid.span(slot, head.attempt) if slot >= 0 else (0, 0)
        low, high = int(rows.sequence.min()), int(rows.sequence.max())
        if high >= end - first or low < 0:
            message = f"attempt {attempt_of(head)} recorded events that its schedule does not have"
            raise AccountingError(message)
        if high - low + 1 == rows.sequence.size and (np.diff(rows.sequence) == 1).all():
            return slice(first + low, first + high + 1)
        if np.unique(rows.sequence).size < rows.sequence.size:
            raise _twice(head)
        return first + rows.sequence

    def _code_of(self, error: str) -> int:
        """Return an error's place in the list of all slices' errors, which is bounded, as a slice's own is."""
        known = error in self.errors or len(self.errors) < _MOST_ERRORS
        return self.errors.setdefault(error if known else OTHER_ERRORS, len(self.errors))

    def _set(self, at: Place, head: ColumnHeader, rows: Rows) -> None:
        if rows.error.any():
            codes = np.array([self._code_of(name) for name in head.errors], dtype=np.uint16)
            self.error[at] = codes[rows.error]
        sent = rows.outcome != UNSENT
        lateness_ns, service_ns = rows.t1_ns - rows.t0_ns, rows.t2_ns - rows.t1_ns
        if not sent.all():
            lateness_ns, service_ns = np.where(sent, lateness_ns, 0), np.where(sent, service_ns, 0)
        self.attempt[at] = head.attempt
        self.outcome[at] = rows.outcome
        self.lateness_ns.put(at, lateness_ns)
        self.service_ns.put(at, service_ns)
        self._last_t2_ns = max(self._last_t2_ns, rows.last_t2_ns)
        self._check_t0(at, head, rows.t0_ns)
        for name, column in rows.extras.items():
            self.extras.setdefault(name, Narrow(self.grid.events, np.int8)).put(at, column)

    def _check_t0(self, at: Place, head: ColumnHeader, t0_ns: NDArray[np.int64]) -> None:
        """Compare the rows with the schedule; a writer that says otherwise than the schedule is believed."""
        slot = self.grid.slot(head.phase, head.writer, head.slice)
        base = int(self.grid.base[slot])
        if isinstance(at, slice):
            due_ns = self.grid.timetable.due_ns(slot, at.start - base, at.stop - base)
        else:
            due_ns = self._t0_ns(slot)[at - base]
        if not np.array_equal(due_ns, t0_ns):
            self.grid.timetable.correct(slot, _numbers(at) - base, t0_ns)

    def fill_in(self, started: Collection[str]) -> None:
        """Mark what attempts that were never started did not send, and whose each of a closed loop's events is."""
        # These may have sent more than they recorded.
        open_ended = {*started, *self.attempts.flushes} - self.attempts.whole()
        open_slots = {self.grid.slot(*attempt_names(attempt)[:3]) for attempt in open_ended}
        for slot in set(range(self.grid.count.size)) - open_slots:
            own = self._of_slot(slot)
            self.outcome[own][self.attempt[own] == NO_ATTEMPT] = UNSENT
        for slot, attempt in self.grid.attempts:
            first, end = self.grid.span(slot, attempt)
            self.attempt[first:end] = attempt

    def end_phase(self, phase: int, stop_at_ns: int) -> None:
        """
        Mark which of a phase's events were not offered.

        Only once arrivals are matched, since these have an attempt.
        """
        for slot in np.nonzero(self.grid.phase == phase)[0].tolist():
            own, t0_ns = self._of_slot(slot), self._t0_ns(slot)
            known = np.nonzero((self.attempt[own] != NO_ATTEMPT) & (self.outcome[own] != UNSENT))[0]
            after = t0_ns >= stop_at_ns
            after[: known[-1] + 1 if known.size else 0] = False
            self.outcome[own][after] = NOT_OFFERED

    def drain_end_ns(self, drain_limit_ns: int) -> int:
        """
        Return until when arrivals count.

        So long after the last acknowledgement, or the last t0 that may have been sent.
        """
        open_t0_ns = t2_ns = 0
        for slot in range(self.grid.count.size):
            own = self._of_slot(slot)
            unrecorded = self.outcome[own] == UNRECORDED
            if unrecorded.any():
                open_t0_ns = max(open_t0_ns, int(self._t0_ns(slot)[unrecorded].max()))
            if self.sent_twice:  # the row that came last may be one that does not stand
                sent = self.outcome[own] <= Outcome.UNKNOWN
                ended_ns = self._t0_ns(slot) + self.lateness_ns.values[own] + self.service_ns.values[own]
                t2_ns = max(t2_ns, int(ended_ns[sent].max(initial=0)))
        return max(t2_ns if self.sent_twice else self._last_t2_ns, open_t0_ns) + drain_limit_ns

    def _t0_ns(self, slot: int) -> NDArray[np.int64]:
        return self.grid.timetable.due_ns(slot, 0, int(self.grid.count[slot]))

    def _of_slot(self, slot: int) -> slice:
        base = int(self.grid.base[slot])
        return slice(base, base + int(self.grid.count[slot]))


def _numbers(at: Place) -> NDArray[np.int64]:
    return np.arange(at.start, at.stop) if isinstance(at, slice) else at


def _twice(head: ColumnHeader) -> AccountingError:
    return AccountingError(f"attempt {attempt_of(head)} recorded an event twice")
