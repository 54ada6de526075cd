"""
Rows of the user's own, chosen for events and ready to be written. Pure.

Which row an event writes follows from the seed and the event's phase, writer, slice and sequence number, never from the
attempt: so every attempt at an event writes the same.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.contracts.target import PostgresqlTarget
from stepbench.contracts.values import RowFacts
from stepbench.contracts.workload import Kind
from stepbench.model.request import Request
from stepbench.workload.row_encoding import encode_rows, identity_bytes
from stepbench.workload.rows import RowFault, RowsError, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.identity import EventId
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.values import Row
    from stepbench.workload.row_encoding import Encoded

_STREAM = 0x76616C
"""Keeps the draws of rows apart from those of keys, which have the same seed."""
_KIB = 1_024


@dataclass(frozen=True)
class PreparedValues:
    """
    The rows of a trial as its store writes them.

    named: whether a value begins with the event's identity, which its store then puts beside the row. weights: of the
    rows; None where each is chosen alike. in_order: whether they are written one after the other.
    """

    rows: Sequence[Encoded]
    facts: RowFacts
    named: bool
    weights: NDArray[np.float64] | None = None
    in_order: bool = True

    def request(self, key: str, identity: str, number: int) -> Request:
        """Return the write of the row with this number, from the first again after the last."""
        row = self.rows[number % len(self.rows)]
        body = identity.encode() + row.body if self.named else row.body
        return Request(Kind.INSERT, key + row.suffix, body, row=row.columns)

    def key(self, key: str) -> str:
        """Return the key of an update or a deletion: all rows have one suffix then."""
        return key + self.rows[0].suffix

    def choose(self, first: EventId, events: int, seed: int, writers: int) -> array[int]:
        """Return the number of the row that each event of a slice writes, whose first event is `first`."""
        count = len(self.rows)
        if self.in_order:
            numbers = (first.writer + writers * np.arange(events, dtype=np.int64)) % count
        else:
            rng = np.random.default_rng([seed, _STREAM, first.phase, first.writer, first.slice])
            if self.weights is None:
                numbers = rng.integers(0, count, events)
            else:
                ends = np.cumsum(self.weights / self.weights.sum())
                ends[-1] = 1.0  # what rounding has left below it belongs to the last row
                numbers = np.searchsorted(ends, rng.random(events), side="right")
        chosen = array("I")
        chosen.frombytes(numbers.astype(np.uint32).tobytes())
        return chosen


def prepare_values(plan: TrialPlan, body: bytes, form: str) -> PreparedValues:
    """
    Return the rows of a trial with values.

    Args:
        plan: of the trial.
        body: of the file that its key names.
        form: the file's format, see `read_rows`.

    Raises:
        RowsError: the file is none, or the store takes a row not.
    """
    values = plan.record.values
    if values is None:
        message = "a trial without values has no rows"
        raise TypeError(message)
    rows = read_rows(body, form)
    weights = _weights(rows, values.weight) if values.weight is not None else None
    if values.weight is not None:
        rows = [{name: value for name, value in row.items() if name != values.weight} for row in rows]
    target = plan.target
    in_trigger = isinstance(target, PostgresqlTarget) and target.invocation == "event"
    encoded = encode_rows(rows, target.store, plan.record, event_invocation=in_trigger)
    named = target.rows_are != "bodies" and bool(plan.record.identity_attribute)
    own_bytes = identity_bytes(plan.record) if named else 0
    sizes = np.array([one.size_bytes + own_bytes for one in encoded.rows])
    # DynamoDB bills the key's attribute, too.
    kib = np.ceil((sizes + len("pk") + plan.record.key_bytes) / _KIB)
    facts = RowFacts(
        rows=len(encoded.rows),
        mean_bytes=float(np.average(sizes, weights=weights)),
        largest_bytes=int(sizes.max()),
        mean_kib=float(np.average(kib, weights=weights)),
        columns=encoded.columns,
    )
    return PreparedValues(encoded.rows, facts, named, weights, in_order=values.choose == "in_order")


def _weights(rows: Sequence[Row], column: str) -> NDArray[np.float64]:
    faults = []
    for number, row in enumerate(rows):
        weight: Any = row.get(column)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 1e100:  # noqa: PLR2004
            remedy = "Give each row a number of 0 or more there."
            faults.append(RowFault(number, column, "is no weight", remedy))
    weights = np.array([0.0 if faults else row[column] for row in rows], dtype=np.float64)
    if not faults and not weights.sum():
        faults.append(RowFault(None, column, "has no weight above 0", "Give one row a weight above 0 at least."))
    if faults:
        raise RowsError(faults[:5])
    return weights
