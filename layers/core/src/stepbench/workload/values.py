"""
Rows of the user's own, chosen for events and ready to be written. Pure.

Which row an event writes follows from the seed and the event's phase, writer, slice and sequence number, never from the
attempt: so every attempt at an event writes the same.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.workload import Kind
from stepbench.model.request import Request
from stepbench.workload.row_facts import load_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.identity import EventId
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.values import RowFacts
    from stepbench.workload.row_encoding import Encoded

_STREAM = 0x76616C
"""Keeps the draws of rows apart from those of keys, which have the same seed."""


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
    """Return the rows of a trial, to be chosen from; arguments and errors are those of `load_rows`."""
    loaded = load_rows(plan, body, form)
    weights = None if loaded.weights is None else np.array(loaded.weights)
    in_order = plan.record.values is not None and plan.record.values.choose == "in_order"
    return PreparedValues(loaded.rows, loaded.facts, loaded.named, weights, in_order=in_order)
