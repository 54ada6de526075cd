"""What became of each request of a slice: in columns made ahead in open loop, in rows that grow in closed loop."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from array import array
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from stepbench.errors import LONGEST_ERROR
from stepbench.model.errors import OTHER_ERRORS
from stepbench.model.request import ConnectionParts, Result
from stepbench.records.formats.columns import UNSENT, PendingRows, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_AT_ONCE = 1_000
MOST_ERRORS = 200
"""The most errors of a slice that are counted by name."""


class RecorderBase(ABC):
    """
    Counts and error codes of recorded rows.

    Rows are recorded one by one on the measured path and handed over in bulk to flushes. `_recorded` counts rows,
    `_not_ok` those of other outcomes than OK, by outcome.
    """

    def __init__(self) -> None:
        self._errors = {"": 0}
        self._recorded = 0
        self._not_ok = [0, 0, 0, 0]

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the error codes so far; rows hold indices into this, which stay valid as it grows."""
        return tuple(self._errors)

    @property
    def counts(self) -> list[int]:
        """Return how many rows by outcome: ok, failed, unknown, unsent."""
        return [self._recorded - sum(self._not_ok), *self._not_ok[1:]]

    @property
    @abstractmethod
    def planned(self) -> int:
        """Return how many requests there are to be, as far as that is known."""

    def progress(self) -> dict[str, int]:
        """Return counters for a heartbeat."""
        ok, failed, unknown, _ = self.counts
        return {"sent": ok + failed + unknown, "ok": ok, "failed": failed, "unknown": unknown, "planned": self.planned}

    @abstractmethod
    def hand_over(self) -> PendingRows:
        """Give away all rows recorded since the last call, each once; on the measuring thread, at no cost a row."""

    def take(self) -> Rows:
        """Give away what `hand_over` does, put together at once: where nothing is being measured."""
        return self.hand_over().rows()

    def _error_index(self, error: str) -> int:
        error = error[:LONGEST_ERROR]
        if (index := self._errors.get(error)) is not None:
            return index
        return self._errors.setdefault(error if len(self._errors) < MOST_ERRORS else OTHER_ERRORS, len(self._errors))


def integers(column: NDArray[np.int64]) -> Iterator[int]:
    """
    Yield a column as Python's integers.

    `tolist` would keep the interpreter for milliseconds; other threads get their turn between steps of this.
    """
    for at in range(0, column.size, _AT_ONCE):
        yield from column[at : at + _AT_ONCE].tolist()


class OperationExtras:
    """Retries and the parts of connections, by sequence number: most operations have neither."""

    def __init__(self) -> None:
        self._retries: dict[int, int] = {}
        self._connecting: dict[int, ConnectionParts] = {}

    def add(self, sequence: int, result: Result) -> None:
        """Note what an operation has."""
        if result.retries:
            self._retries[sequence] = result.retries
        if result.connecting is not None:
            self._connecting[sequence] = result.connecting

    def take(self, sequence: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return columns of these operations, as in `Rows.extras`, and forget them; others may be noted meanwhile."""
        columns: dict[str, NDArray[np.int64]] = {}
        if self._retries:
            retries = (self._retries.pop(each, 0) for each in integers(sequence))
            columns["retries"] = np.fromiter(retries, np.int64, sequence.size)
        if self._connecting:
            none = ConnectionParts(0, 0, 0, 0)
            parts = (part for each in integers(sequence) for part in self._connecting.pop(each, none))
            table = np.fromiter(parts, np.int64, sequence.size * len(none)).reshape(-1, len(none))
            columns.update(zip(ConnectionParts._fields, table.T.copy(), strict=True))
        return {name: column for name, column in columns.items() if column.any()}


_OPEN, _CLOSED, _TAKEN = 0, 1, 2
MAX_WAITING_ROWS = 500_000
"""Rows that wait between two flushes take some 22 MB at 50,000/s."""
_FIELDS = ("sequence", "t0_ns", "t1_ns", "t2_ns", "client", "error", "kind", "outcome")
_FORMAT = "qqqqHHBB"
_ROW = struct.Struct(f"={_FORMAT}")
_OWN = ("sequence", "t0_ns", "t1_ns", "t2_ns", "outcome", "error")
_COLUMNS = np.dtype(list(zip(_FIELDS, _FORMAT, strict=True)))
"""The columns of a packed row: to pack it takes a third of the time of appending to each column."""


class Recorder(RecorderBase):
    """
    One row an event, numbered from 0; row 0 is the event with sequence `first_sequence`.

    A closed row never changes, so that another thread may copy it. `array` takes an integer in a third of the time that
    a numpy element does.
    """

    def __init__(self, t0_ns: NDArray[np.int64], first_sequence: int = 0) -> None:
        super().__init__()
        rows = t0_ns.size
        self.t0_ns = array("q", t0_ns.astype(np.int64).tobytes())
        self.first_sequence = first_sequence
        self._t1_ns = array("q", bytes(8 * rows))
        self._t2_ns = array("q", bytes(8 * rows))
        self._outcome = bytearray(rows)
        self._error = array("H", bytes(2 * rows))
        self._state = bytearray(rows)
        self._tokens: dict[int, str] = {}
        self._taken_below = 0

    @property
    def rows(self) -> int:
        """Return how many events there are."""
        return len(self.t0_ns)

    @property
    def planned(self) -> int:
        """Return the number of the slice's events."""
        return self.rows

    def record(self, row: int, result: Result) -> None:
        """Close a row with what the driver says."""
        # By place, and the outcome only where it is not OK, which is 0: half the time, on each event of the load.
        self._t1_ns[row] = result[0]
        self._t2_ns[row] = result[1]
        if result[2] or result[3] or result[4]:
            self._record_rest(row, result)
        self._state[row] = _CLOSED
        self._recorded += 1

    def unsent(self, first: int, last: int) -> None:
        """Close all rows in [first, last) that are open: their events were never handed to the driver."""
        for row in range(first, last):
            if self._state[row] == _OPEN:
                self._outcome[row] = UNSENT
                self._not_ok[UNSENT] += 1
                self._state[row] = _CLOSED
                self._recorded += 1

    def hand_over(self) -> PendingRows:
        """Give away all rows closed since the last call, each once; on the writing thread, copied by another."""
        below = self._state.rfind(_CLOSED, self._taken_below) + 1
        state = np.frombuffer(self._state, dtype=np.uint8)[self._taken_below : max(below, self._taken_below)]
        closed = np.flatnonzero(state == _CLOSED)
        state[closed] = _TAKEN
        rows = closed + self._taken_below
        first_open = self._state.find(_OPEN, self._taken_below)
        self._taken_below = self.rows if first_open < 0 else first_open
        tokens, self._tokens = self._tokens, {}
        return PendingRows(rows.size, partial(self._build, rows, tokens))

    def _build(self, rows: NDArray[np.int64], tokens: dict[int, str]) -> Rows:
        """Put these rows together, with their tokens."""
        return Rows(
            sequence=rows + self.first_sequence,
            t0_ns=np.frombuffer(self.t0_ns, dtype=np.int64)[rows],
            t1_ns=np.frombuffer(self._t1_ns, dtype=np.int64)[rows],
            t2_ns=np.frombuffer(self._t2_ns, dtype=np.int64)[rows],
            outcome=np.frombuffer(self._outcome, dtype=np.uint8)[rows],
            error=np.frombuffer(self._error, dtype=np.uint16)[rows],
            tokens=tuple(tokens.pop(row, "") for row in integers(rows)) if tokens else (),
        )

    def _record_rest(self, row: int, result: Result) -> None:
        if result.outcome:
            self._outcome[row] = result.outcome
            self._not_ok[result.outcome] += 1
        if result.error:
            self._error[row] = self._error_index(result.error)
        if result.token:
            self._tokens[row] = result.token


class OperationRecorder(Recorder):
    """Records operations, of which more is kept: client, kind and extras; what was not sent has 0 there."""

    def __init__(self, t0_ns: NDArray[np.int64], first_sequence: int = 0) -> None:
        super().__init__(t0_ns, first_sequence)
        self._client = array("I", bytes(4 * self.rows))
        self._kind = bytearray(self.rows)
        self._extras = OperationExtras()

    def start(self, sequence: int, kind: int, client: int) -> None:
        """Note what is offered, and on whose connection."""
        row = sequence - self.first_sequence
        self._kind[row] = kind
        self._client[row] = client

    def record(self, row: int, result: Result) -> None:
        """Close a row, with what only operations have."""
        if result.retries or result.connecting is not None:
            self._extras.add(row + self.first_sequence, result)
        super().record(row, result)

    def _build(self, rows: NDArray[np.int64], tokens: dict[int, str]) -> Rows:
        built = super()._build(rows, tokens)
        own = {
            "client": np.frombuffer(self._client, dtype=np.uint32)[rows].astype(np.int64),
            "kind": np.frombuffer(self._kind, dtype=np.uint8)[rows].astype(np.int64),
        }
        return built._replace(extras=own | self._extras.take(built.sequence))


class GrowingRecorder(RecorderBase):
    """
    A row an operation, written when it has been answered; a flush takes all there are and leaves nothing behind.

    Operations are numbered in the order in which they begin, unless they have numbers by then: a client's k-th row is
    its k-th operation.
    """

    def __init__(self, max_waiting_rows: int = MAX_WAITING_ROWS, full: Callable[[], None] | None = None) -> None:
        """`full` is called, once before each `hand_over`, when so many rows wait: flush sooner, or stop."""
        super().__init__()
        self._full_bytes = max_waiting_rows * _ROW.size
        self._full = full
        self.started = 0
        """How many operations have got a number, or would have, where the largest number so far is another's."""
        self._clear()

    def _clear(self) -> None:
        self._rows = bytearray()
        self._tokens: dict[int, str] = {}
        self._extras = OperationExtras()

    @property
    def waiting(self) -> int:
        """Return how many rows no flush has taken."""
        return len(self._rows) // _ROW.size

    @property
    def planned(self) -> int:
        """Return how many were started: nothing is planned in closed loop."""
        return self.started

    def start(self, own: int | None = None) -> int:
        """Return the sequence number of the next operation: its own, if it has one."""
        sequence = self.started if own is None else own
        self.started = max(self.started, sequence + 1)
        return sequence

    def record(self, sequence: int, client: int, kind: int, t0_ns: int, result: Result) -> None:
        """Write down an operation with what the driver says."""
        t1_ns, t2_ns, outcome, token, error, retries, connecting = result
        code = self._error_index(error) if error else 0
        self._rows += _ROW.pack(sequence, t0_ns, t1_ns, t2_ns, client, code, kind, outcome)
        if token:
            self._tokens[sequence] = token
        if retries or connecting is not None:
            self._extras.add(sequence, result)
        if outcome:
            self._not_ok[outcome] += 1
        self._recorded += 1
        if len(self._rows) == self._full_bytes and self._full is not None:
            self._full()

    def hand_over(self) -> PendingRows:
        """Give away all rows since the last call, each once; on the writing thread, at no cost a row."""
        taken = PendingRows(self.waiting, partial(_build, self._rows, self._tokens, self._extras))
        self._clear()
        return taken


def _build(packed: bytearray, tokens: dict[int, str], extras_of: OperationExtras) -> Rows:
    """Put rows together, by ascending sequence."""
    rows = np.frombuffer(packed, dtype=_COLUMNS)
    rows = rows[np.argsort(rows["sequence"], kind="stable")]
    own = {name: np.ascontiguousarray(rows[name]) for name in _OWN}
    extras = {name: rows[name].astype(np.int64) for name in ("client", "kind")} | extras_of.take(own["sequence"])
    named = tuple(tokens.pop(each, "") for each in integers(own["sequence"])) if tokens else ()
    return Rows(**own, tokens=named, extras=extras)
