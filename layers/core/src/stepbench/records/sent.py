"""
The writers' side of `records.join`, one row per event: what their files say, and what follows where they say nothing.

The rules are told there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stepbench.drivers.protocol import Outcome
from stepbench.errors import AccountingError
from stepbench.records.columns import UNSENT, ColumnFile
from stepbench.records.layout import attempt_id, attempt_names

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from stepbench.records.grid import Grid

UNRECORDED = 4
"""Outcome of an event that may have been sent, and of which no row tells. (0-2 are `Outcome`, 3 is `UNSENT`.)"""
NOT_OFFERED = 5
"""Outcome of an event that was due after its phase had ended: it is in no books."""
NO_ATTEMPT = 0xFF


@dataclass
class Sent:
    """The writers' side while it is being put together; columns as in `Joined`."""

    attempt: NDArray[np.uint8]
    t0_ns: NDArray[np.int64]
    t1_ns: NDArray[np.int64]
    t2_ns: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    error: NDArray[np.uint16]
    errors: dict[str, int]
    extras: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    sent_twice: int = 0

    def add(self, grid: Grid, file: ColumnFile) -> None:
        """Let the rows of a file stand where nothing better does."""
        head, rows = file
        slot = grid.slot(head.phase, head.writer, head.slice)
        first, end = grid.span(slot, head.attempt) if slot >= 0 else (0, 0)
        if rows.sequence.size and (rows.sequence.max() >= end - first or rows.sequence.min() < 0):
            message = f"attempt {_attempt(file)} recorded events that its schedule does not have"
            raise AccountingError(message)
        ids = first + rows.sequence
        if np.unique(ids).size < ids.size or (self.attempt[ids] == head.attempt).any():
            message = f"attempt {_attempt(file)} recorded an event twice"
            raise AccountingError(message)
        old, new = self.outcome[ids] <= Outcome.UNKNOWN, rows.outcome <= Outcome.UNKNOWN
        self.sent_twice += int(np.count_nonzero(old & new))
        nothing = self.attempt[ids] == NO_ATTEMPT
        better = nothing | (new & (~old | (head.attempt < self.attempt[ids])))
        codes = np.array([self.errors.setdefault(name, len(self.errors)) for name in head.errors], dtype=np.uint16)
        self.error[ids[better]] = codes[rows.error[better]]
        self.attempt[ids[better]] = head.attempt
        self.t0_ns[ids[better]] = rows.t0_ns[better]
        self.t1_ns[ids[better]] = rows.t1_ns[better]
        self.t2_ns[ids[better]] = rows.t2_ns[better]
        self.outcome[ids[better]] = rows.outcome[better]
        for name, column in rows.extras.items():
            self.extras.setdefault(name, np.zeros(grid.events, np.int64))[ids[better]] = column[better]


def read_rows(grid: Grid, files: Sequence[ColumnFile]) -> Sent:
    """
    What all files say together; an event in none of them is unrecorded.

    Raises:
        AccountingError: records contradict each other, or name events that were never scheduled.
    """
    n = grid.events
    sent = Sent(
        attempt=np.full(n, NO_ATTEMPT, np.uint8),
        t0_ns=grid.t0_ns.copy(),
        t1_ns=np.zeros(n, np.int64),
        t2_ns=np.zeros(n, np.int64),
        outcome=np.full(n, UNRECORDED, np.uint8),
        error=np.zeros(n, np.uint16),
        errors={"": 0},
    )
    for file in sorted(files, key=lambda file: (_attempt(file), file.header.flush)):
        sent.add(grid, file)
    return sent


def begun_slots(grid: Grid, started: Collection[str], files: Sequence[ColumnFile]) -> NDArray[np.bool_]:
    """Per slot: whether an attempt was begun that may have sent more than it recorded."""
    open_ended = np.zeros(grid.count.size, dtype=np.bool_)
    for attempt in {*started, *(_attempt(file) for file in files)} - whole_attempts(files):
        phase, writer, slice_, _ = attempt_names(attempt)
        slot = grid.slot(phase, writer, slice_)
        if slot >= 0:
            open_ended[slot] = True
    return open_ended


def whole_attempts(files: Sequence[ColumnFile]) -> set[str]:
    """Attempts that ended in good order and of which every file is here."""
    flushes: dict[str, set[int]] = {}
    last: dict[str, int] = {}
    for file in files:
        flushes.setdefault(_attempt(file), set()).add(file.header.flush)
        if file.header.last:
            last[_attempt(file)] = file.header.flush
    return {attempt for attempt, flush in last.items() if flushes[attempt] == set(range(flush + 1))}


def _attempt(file: ColumnFile) -> str:
    head = file.header
    return attempt_id(head.phase, head.writer, head.slice, head.attempt)


def fill_in(grid: Grid, slot: NDArray[np.int64], sent: Sent, begun: NDArray[np.bool_]) -> None:
    """What slots that were never begun did not send; and which attempt each of a closed loop's events belongs to."""
    if grid.events:
        sent.outcome[(sent.attempt == NO_ATTEMPT) & ~begun[slot]] = UNSENT
    for closed_slot, attempt in grid.attempts:
        first, end = grid.span(closed_slot, attempt)
        sent.attempt[first:end] = attempt


def end_phase(grid: Grid, slot: NDArray[np.int64], sent: Sent, inside: NDArray[np.bool_], stop_at_ns: int) -> None:
    """Which of a phase's events were not offered. Only once arrivals are matched: what arrived has an attempt."""
    last_sent = np.full(grid.count.size, -1, np.int64)
    known = np.nonzero(inside & (sent.attempt != NO_ATTEMPT) & (sent.outcome != UNSENT))[0]
    np.maximum.at(last_sent, slot[known], known)
    after = inside & (grid.t0_ns >= stop_at_ns) & (np.arange(grid.events) > last_sent[slot])
    sent.outcome[after] = NOT_OFFERED


def drain_end_ns(sent: Sent, drain_limit_ns: int) -> int:
    """Until when arrivals count: so long after the last acknowledgement, or the last t0 that may have been sent."""
    open_t0_ns = sent.t0_ns[sent.outcome == UNRECORDED].max(initial=0)
    return int(max(sent.t2_ns.max(initial=0), open_t0_ns)) + drain_limit_ns
