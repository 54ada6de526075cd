"""What became of each event of a slice, in columns that are there before the clock starts."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stepbench.drivers.protocol import Operated
from stepbench.load.notes import Notes, integers
from stepbench.records.columns import UNSENT, Rows
from stepbench.records.taken import Taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.drivers.protocol import Answer

_OPEN, _CLOSED, _TAKEN = 0, 1, 2
_MAX_ERRORS = 0xFFFF
_OTHER_ERRORS = "other"


class Recorder:
    """
    One row an event, numbered from 0; row 0 is the event with sequence `first_sequence`.

    Rows are closed one by one on the measured path (`record`, `unsent`) and handed over in bulk to flushes. A closed
    row never changes, so that another thread may copy it. `array` takes an integer in a third of the time that a numpy
    element does.
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
        self._closed = 0
        self._not_ok = [0, 0, 0, 0]

    @property
    def rows(self) -> int:
        """How many events there are."""
        return len(self.t0_ns)

    @property
    def errors(self) -> tuple[str, ...]:
        """Error codes so far; rows hold indices into this, which stay valid as it grows."""
        return tuple(self._errors)

    @property
    def counts(self) -> list[int]:
        """Closed rows by outcome: ok, failed, unknown, unsent."""
        return [self._closed - sum(self._not_ok), *self._not_ok[1:]]

    def progress(self) -> dict[str, int]:
        """Counters for a heartbeat."""
        ok, failed, unknown, _ = self.counts
        return {"sent": ok + failed + unknown, "ok": ok, "failed": failed, "unknown": unknown, "planned": self.rows}

    def record(self, row: int, written: Answer) -> None:
        """Close a row with what the driver says."""
        # By place, and the outcome only where it is not OK, which is 0: half the time, on each event of the load.
        self._t1_ns[row] = written[0]
        self._t2_ns[row] = written[1]
        if written[2] or written[3] or written[4]:
            self._record_rest(row, written)
        self._state[row] = _CLOSED
        self._closed += 1

    def unsent(self, first: int, last: int) -> None:
        """Close all rows in [first, last) that are open: their events were never handed to the driver."""
        for row in range(first, last):
            if self._state[row] == _OPEN:
                self._outcome[row] = UNSENT
                self._not_ok[UNSENT] += 1
                self._state[row] = _CLOSED
                self._closed += 1

    def hand_over(self) -> Taken:
        """All rows that were closed since the last call; each comes once. On the writing thread, copied by another."""
        below = self._state.rfind(_CLOSED, self._taken_below) + 1
        state = np.frombuffer(self._state, dtype=np.uint8)[self._taken_below : max(below, self._taken_below)]
        closed = np.flatnonzero(state == _CLOSED)
        state[closed] = _TAKEN
        rows = closed + self._taken_below
        first_open = self._state.find(_OPEN, self._taken_below)
        self._taken_below = self.rows if first_open < 0 else first_open
        tokens, self._tokens = self._tokens, {}
        return Taken(rows.size, partial(self._build, rows, tokens))

    def take(self) -> Rows:
        """As `hand_over`, copied at once: where nothing is being measured."""
        return self.hand_over().rows()

    def _build(self, rows: NDArray[np.int64], tokens: dict[int, str]) -> Rows:
        """`tokens`: of these rows."""
        return Rows(
            sequence=rows + self.first_sequence,
            t0_ns=np.frombuffer(self.t0_ns, dtype=np.int64)[rows],
            t1_ns=np.frombuffer(self._t1_ns, dtype=np.int64)[rows],
            t2_ns=np.frombuffer(self._t2_ns, dtype=np.int64)[rows],
            outcome=np.frombuffer(self._outcome, dtype=np.uint8)[rows],
            error=np.frombuffer(self._error, dtype=np.uint16)[rows],
            tokens=tuple(tokens.pop(row, "") for row in integers(rows)) if tokens else (),
        )

    def _record_rest(self, row: int, written: Answer) -> None:
        if written.outcome:
            self._outcome[row] = written.outcome
            self._not_ok[written.outcome] += 1
        if written.error:
            self._error[row] = self._error_index(written.error)
        if written.token:
            self._tokens[row] = written.token

    def _error_index(self, error: str) -> int:
        if len(self._errors) > _MAX_ERRORS - 1:
            error = _OTHER_ERRORS if error not in self._errors else error
        return self._errors.setdefault(error, len(self._errors))


class OperationRecorder(Recorder):
    """The same for operations, of which more is kept; what was not sent has 0 there."""

    def __init__(self, t0_ns: NDArray[np.int64], first_sequence: int = 0) -> None:
        super().__init__(t0_ns, first_sequence)
        self._client = array("I", bytes(4 * self.rows))
        self._kind = bytearray(self.rows)
        self._notes = Notes()

    def begin(self, sequence: int, kind: int, client: int) -> None:
        """Note what is offered, and on whose connection."""
        row = sequence - self.first_sequence
        self._kind[row] = kind
        self._client[row] = client

    def record(self, row: int, written: Answer) -> None:
        """Close a row, with what only operations have."""
        if isinstance(written, Operated) and (written.retries or written.connecting is not None):
            self._notes.add(row + self.first_sequence, written)
        super().record(row, written)

    def _build(self, rows: NDArray[np.int64], tokens: dict[int, str]) -> Rows:
        built = super()._build(rows, tokens)
        own = {
            "client": np.frombuffer(self._client, dtype=np.uint32)[rows].astype(np.int64),
            "kind": np.frombuffer(self._kind, dtype=np.uint8)[rows].astype(np.int64),
        }
        return built._replace(extras=own | self._notes.take(built.sequence))
