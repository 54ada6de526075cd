"""
What is known of a trial's rows once they were read, and the rows as its store writes them. Pure, and without NumPy.

`ValidatePlan` asks here, which has no NumPy; writers go on from here in `workload.values`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.target import PostgresqlTarget
from stepbench.contracts.values import RowFacts
from stepbench.workload.row_encoding import encode_rows, identity_bytes
from stepbench.workload.rows import RowFault, RowsError, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.values import Row
    from stepbench.workload.row_encoding import Encoded

_KIB = 1_024
_MOST_WEIGHT = 1e100
_FEWEST_SHOWN = 5
_KEY_NAME_BYTES = len("pk")
"""DynamoDB bills the key's attribute, too."""


class LoadedRows(NamedTuple):
    """
    The rows of a trial, their weights where they have any, and what is known of them.

    named: whether the event's identity stands beside a row, so that a value begins with it.
    """

    rows: Sequence[Encoded]
    weights: list[float] | None
    facts: RowFacts
    named: bool


def load_rows(plan: TrialPlan, body: bytes, form: str) -> LoadedRows:
    """
    Return the rows of a trial with values.

    Args:
        plan: of the trial.
        body: of the file that its key names.
        form: the file's format, see `read_rows`.

    Raises:
        RowsError: the file is none, or the store does not take a row.
    """
    values = plan.record.values
    if values is None:
        message = "a trial without values has no rows"
        raise TypeError(message)
    rows: Sequence[Row] = read_rows(body, form)
    weights = None
    if values.weight is not None:
        weights = _weights(rows, values.weight)
        rows = [{name: value for name, value in row.items() if name != values.weight} for row in rows]
    target = plan.target
    in_trigger = isinstance(target, PostgresqlTarget) and target.invocation == "event"
    encoded = encode_rows(rows, target.store, plan.record, event_invocation=in_trigger)
    named = target.rows_are != "bodies" and bool(plan.record.identity_attribute)
    own_bytes = identity_bytes(plan.record) if named else 0
    sizes = [one.size_bytes + own_bytes for one in encoded.rows]
    kib = [-(-(size + _KEY_NAME_BYTES + plan.record.key_bytes) // _KIB) for size in sizes]
    facts = RowFacts(
        rows=len(sizes),
        mean_bytes=_mean(sizes, weights),
        largest_bytes=max(sizes),
        mean_kib=_mean(kib, weights),
        columns=encoded.columns,
    )
    return LoadedRows(encoded.rows, weights, facts, named)


def _mean(numbers: Sequence[int], weights: Sequence[float] | None) -> float:
    if weights is None:
        return sum(numbers) / len(numbers)
    return math.fsum(number * weight for number, weight in zip(numbers, weights, strict=True)) / math.fsum(weights)


def _weights(rows: Sequence[Row], column: str) -> list[float]:
    faults, weights = [], []
    for number, row in enumerate(rows):
        weight: Any = row.get(column)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < _MOST_WEIGHT:
            faults.append(RowFault(number, column, "is no weight", "Give each row a number of 0 or more there."))
        else:
            weights.append(float(weight))
    if not faults and not any(weights):
        faults.append(RowFault(None, column, "has no weight above 0", "Give one row a weight above 0 at least."))
    if faults:
        raise RowsError(faults[:_FEWEST_SHOWN])
    return weights
