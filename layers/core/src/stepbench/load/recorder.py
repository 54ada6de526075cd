"""What became of each event of a slice, in columns that are there before the clock starts."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from stepbench.drivers.protocol import Written
from stepbench.records.columns import UNSENT, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OPEN, _CLOSED, _TAKEN = 0, 1, 2
_MAX_ERRORS = 0xFFFF
_OTHER_ERRORS = "other"


class Recorder:
    """
    One row an event, numbered from 0; row 0 is the event with sequence `first_sequence`.

    Rows are closed one by one on the measured path (`record`, `unsent`) and taken in bulk by flushes (`take`).
    `array` takes an integer in a third of the time that a numpy element does.
    """

    def __init__(self, t0_ns: NDArray[np.int64], first_sequence: int = 0) -> None:
        rows = t0_ns.size
        self.t0_ns = array("q", t0_ns.astype(np.int64).tobytes())
        self.first_sequence = first_sequence
        self._t1_ns = array("q", bytes(8 * rows))
        self._t2_ns = array("q", bytes(8 * rows))
        self._outcome = bytearray(rows)
        self._error = array("H", bytes(2 * rows))
        self._state = bytearray(rows)
        self._tokens: dict[int, str] = {}
        self._errors = {"": 0}
        self._taken_below = 0
        self.counts = [0, 0, 0, 0]
        """Closed rows by outcome: ok, failed, unknown, unsent."""

    @property
    def rows(self) -> int:
        """How many events there are."""
        return len(self.t0_ns)

    @property
    def errors(self) -> tuple[str, ...]:
        """Error codes so far; rows hold indices into this, which stay valid as it grows."""
        return tuple(self._errors)

    def progress(self) -> dict[str, int]:
        """Counters for a heartbeat."""
        ok, failed, unknown, _ = self.counts
        return {"sent": ok + failed + unknown, "ok": ok, "failed": failed, "unknown": unknown, "planned": self.rows}

    def record(self, row: int, written: Written) -> None:
        """Close a row with what the driver says."""
        self._t1_ns[row] = written.t1_ns
        self._t2_ns[row] = written.t2_ns
        self._outcome[row] = written.outcome
        if written.error:
            self._error[row] = self._error_index(written.error)
        if written.token:
            self._tokens[row] = written.token
        self._state[row] = _CLOSED
        self.counts[written.outcome] += 1

    def unsent(self, first: int, last: int) -> None:
        """Close all rows in [first, last) that are open: their events were never handed to the driver."""
        for row in range(first, last):
            if self._state[row] == _OPEN:
                self._outcome[row] = UNSENT
                self._state[row] = _CLOSED
                self.counts[UNSENT] += 1

    def take(self) -> Rows:
        """A copy of all rows that were closed since the last call; each comes once. Call it on the writing thread."""
        state = np.frombuffer(self._state, dtype=np.uint8)
        rows = self._taken_below + np.flatnonzero(state[self._taken_below :] == _CLOSED)
        taken = Rows(
            sequence=rows.astype(np.int64) + self.first_sequence,
            t0_ns=np.frombuffer(self.t0_ns, dtype=np.int64)[rows],
            t1_ns=np.frombuffer(self._t1_ns, dtype=np.int64)[rows],
            t2_ns=np.frombuffer(self._t2_ns, dtype=np.int64)[rows],
            outcome=np.frombuffer(self._outcome, dtype=np.uint8)[rows],
            error=np.frombuffer(self._error, dtype=np.uint16)[rows],
            tokens=self._take_tokens(rows),
        )
        state[rows] = _TAKEN
        still_open = np.flatnonzero(state[self._taken_below :] != _TAKEN)
        self._taken_below += int(still_open[0]) if still_open.size else state.size - self._taken_below
        return taken

    def _take_tokens(self, rows: NDArray[np.int64]) -> tuple[str, ...]:
        if not self._tokens:
            return ()
        tokens = tuple(self._tokens.pop(row, "") for row in rows.tolist())
        return tokens if any(tokens) else ()

    def _error_index(self, error: str) -> int:
        if len(self._errors) > _MAX_ERRORS - 1:
            error = _OTHER_ERRORS if error not in self._errors else error
        return self._errors.setdefault(error, len(self._errors))
