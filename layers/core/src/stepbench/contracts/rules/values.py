"""What rows of the user's own demand of a trial's store and of its other fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule
from stepbench.contracts.target import DynamoDbTarget, stores_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.trial import TrialFields

RESERVED = {"dynamodb": "pk", "postgresql": "key"}
"""The attribute or column of the key, by store."""
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Of each table of PostgreSQL's (its documentation, "System Columns"): no other column may have such a name."""


def values_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The store has to write rows, and the identity of an event has to have a place beside them."""
    record, target = trial.record, trial.target
    if record.values is None:
        return
    named = target.rows_are in {"attributes", "columns"}
    if not target.rows_are:
        able = ", ".join(stores_with(lambda model: model.rows_are))
        message = f"are not written to {target.store}"
        yield BrokenRule("record.values", message, f"Remove them, or use one of {able}.")
    if isinstance(target, DynamoDbTarget) and target.same_sandbox:
        message = "are not written by CheckClock, which compares clocks and nothing else"
        yield BrokenRule("record.values", message, "Remove them, or same_sandbox.")
    if record.values.types and target.rows_are != "columns":
        message = f"have no effect: {target.store} has no columns with types"
        yield BrokenRule("record.values.types", message, "Remove them.")
    if record.identity is not None and not named:
        message = f"names nothing: a row of {target.store} has no attributes or columns"
        yield BrokenRule("record.identity", message, "Remove it.")
    if record.identity is not None and record.identity == RESERVED.get(target.store):
        yield BrokenRule("record.identity", "is the name of the key", "Give another name.")
    if record.identity in SYSTEM_COLUMNS and target.rows_are == "columns":
        yield BrokenRule("record.identity", "is the name of a system column of PostgreSQL", "Give another name.")
    if target.store == "etcd" and record.operation == "update":
        message = "have no place for an event's identity: the key of an update is one of several events', and a value "
        message += "is the row's alone"
        remedy = 'Use "put" as record.operation, or remove the values.'
        yield BrokenRule("record.values", message, remedy)
