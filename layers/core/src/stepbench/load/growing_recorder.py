"""What became of each operation of closed-loop clients, of whom nobody knows beforehand how many they will offer."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stepbench.load.notes import Notes, integers
from stepbench.records.columns import Rows
from stepbench.records.taken import Taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.drivers.protocol import Operated

MAX_WAITING_ROWS = 500_000
"""Some 22 MB: what 10 s at 50,000/s leave between two flushes."""
_MAX_ERRORS = 0xFFFF
_ROW = struct.Struct("=qqqqHHBB")
_COLUMNS = np.dtype(
    [
        ("sequence", np.int64),
        ("t0_ns", np.int64),
        ("t1_ns", np.int64),
        ("t2_ns", np.int64),
        ("client", np.uint16),
        ("error", np.uint16),
        ("kind", np.uint8),
        ("outcome", np.uint8),
    ]
)
"""The same row: packing one takes a third of the time that appending to a column each would."""
_OWN = ("sequence", "t0_ns", "t1_ns", "t2_ns", "outcome", "error")
_OTHER_ERRORS = "other"


class GrowingRecorder:
    """
    A row an operation, written when it has been answered; a flush takes all there are and leaves nothing behind.

    Operations are numbered in the order in which they were begun. A client's numbers ascend, so its k-th row is its
    k-th operation.
    """

    def __init__(self, max_waiting_rows: int = MAX_WAITING_ROWS, full: Callable[[], None] | None = None) -> None:
        """`full` is called, once before each `hand_over`, when so many rows wait: flush sooner, or stop."""
        self._full_bytes = max_waiting_rows * _ROW.size
        self._full = full
        self.begun = 0
        """How many operations have got a number."""
        self._errors = {"": 0}
        self._recorded = 0
        self._not_ok = [0, 0, 0, 0]
        self._clear()

    def _clear(self) -> None:
        self._rows = bytearray()
        self._tokens: dict[int, str] = {}
        self._notes = Notes()

    @property
    def waiting(self) -> int:
        """Rows that no flush has taken."""
        return len(self._rows) // _ROW.size

    @property
    def errors(self) -> tuple[str, ...]:
        """Error codes so far; rows hold indices into this, which stay valid as it grows."""
        return tuple(self._errors)

    @property
    def counts(self) -> list[int]:
        """Rows by outcome: ok, failed, unknown; and unsent, of which closed loop has none."""
        return [self._recorded - sum(self._not_ok), *self._not_ok[1:]]

    def progress(self) -> dict[str, int]:
        """Counters for a heartbeat; nothing is planned in closed loop, so `planned` is what was begun."""
        ok, failed, unknown, _ = self.counts
        return {"sent": ok + failed + unknown, "ok": ok, "failed": failed, "unknown": unknown, "planned": self.begun}

    def begin(self) -> int:
        """The sequence number of the next operation."""
        sequence, self.begun = self.begun, self.begun + 1
        return sequence

    def record(self, sequence: int, client: int, kind: int, t0_ns: int, operated: Operated) -> None:
        """Write down an operation with what the driver says."""
        t1_ns, t2_ns, outcome, token, error, retries, connecting = operated
        code = self._error_index(error) if error else 0
        self._rows += _ROW.pack(sequence, t0_ns, t1_ns, t2_ns, client, code, kind, outcome)
        if token:
            self._tokens[sequence] = token
        if retries or connecting is not None:
            self._notes.add(sequence, operated)
        if outcome:
            self._not_ok[outcome] += 1
        self._recorded += 1
        if len(self._rows) == self._full_bytes and self._full is not None:
            self._full()

    def hand_over(self) -> Taken:
        """All rows since the last call; each comes once. On the writing thread, which it costs nothing by the row."""
        taken = Taken(self.waiting, partial(_build, self._rows, self._tokens, self._notes))
        self._clear()
        return taken

    def take(self) -> Rows:
        """As `hand_over`, put together at once: where nothing is being measured."""
        return self.hand_over().rows()

    def _error_index(self, error: str) -> int:
        if len(self._errors) > _MAX_ERRORS - 1:
            error = _OTHER_ERRORS if error not in self._errors else error
        return self._errors.setdefault(error, len(self._errors))


def _build(packed: bytearray, tokens: dict[int, str], notes: Notes) -> Rows:
    """By ascending sequence."""
    rows = np.frombuffer(packed, dtype=_COLUMNS)
    rows = rows[np.argsort(rows["sequence"], kind="stable")]
    own = {name: np.ascontiguousarray(rows[name]) for name in _OWN}
    extras = {name: rows[name].astype(np.int64) for name in ("client", "kind")} | notes.take(own["sequence"])
    named = tuple(tokens.pop(each, "") for each in integers(own["sequence"])) if tokens else ()
    return Rows(**own, tokens=named, extras=extras)
