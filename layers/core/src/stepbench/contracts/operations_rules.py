"""The rules of an `operations` trial, and what sets it apart from a `trigger` trial. Each yields what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.rule import Broken
from stepbench.contracts.target import OPERATION_STORES, TRIGGER_STORES, PostgresqlTarget
from stepbench.contracts.workload import store_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialPlan

_TRIGGER_FIELDS = ("record", "find_rate", "log_t4")
"""What a trial says of events and arrivals, and operations have none."""
_TRIGGER_TARGET_FIELDS = (
    "batch_size",
    "batching_window_s",
    "parallelization_factor",
    "filter",
    "same_sandbox",
    "invocation",
)
"""The same of a target."""
MAX_CONNECTED_CLIENTS = 900
"""Of a writer: each has a connection, and its function uses some files for itself."""


def store_offers_rules(trial: TrialPlan) -> Iterator[Broken]:
    """Whether the store can do what is asked of it."""
    able = OPERATION_STORES if trial.experiment == "operations" else TRIGGER_STORES
    if trial.target.store not in able:
        what = "operations" if trial.experiment == "operations" else "triggers"
        yield Broken("target.store", f"offers no {what}", f"Use one of {', '.join(sorted(able))}.")


def workload_rules(trial: TrialPlan) -> Iterator[Broken]:
    """A workload for operations, a record for triggers."""
    yield from _of_triggers(trial) if trial.experiment == "trigger" else _of_operations(trial)


def _of_triggers(trial: TrialPlan) -> Iterator[Broken]:
    if trial.workload is not None:
        yield Broken("workload", "has no meaning for triggers", 'Remove it, or set experiment to "operations".')
    if isinstance(trial.target, PostgresqlTarget) and trial.target.tls:
        message = "is for operations only: a trigger's trial would verify nothing, whatever it says"
        yield Broken("target.tls", message, 'Remove it, or set experiment to "operations".')
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None:
            message = "waits for answers, and triggers are offered at a rate"
            yield Broken(f"phases[{index}].closed", message, 'Give load, or set experiment to "operations".')


def _of_operations(trial: TrialPlan) -> Iterator[Broken]:
    if trial.workload is None:
        yield Broken("workload", "is missing, and operations need it", 'Give one, such as {"mix": {"read": 1}}.')
    else:
        for rule in store_rules(trial.workload, trial.target.store):
            yield rule._replace(at=f"workload.{rule.at}")
    yield from _trigger_field_rules(trial)


def _trigger_field_rules(trial: TrialPlan) -> Iterator[Broken]:
    for field in _TRIGGER_FIELDS:
        if getattr(trial, field) != type(trial).model_fields[field].get_default():
            yield Broken(field, "has no meaning for operations", "Remove it.")
    for index, phase in enumerate(trial.phases):
        if phase.until is not None:
            yield Broken(f"phases[{index}].until", "is about trigger latency, and operations have none", "Remove it.")
    known = type(trial.target).model_fields
    for field in _TRIGGER_TARGET_FIELDS:
        if field in known and getattr(trial.target, field) != known[field].get_default():
            yield Broken(f"target.{field}", "is about triggers, and operations have none", "Remove it.")
    if trial.arrivals != "constant" and not any(phase.load for phase in trial.phases):
        message = "has no effect: clients of closed loops offer no arrivals"
        yield Broken("arrivals", message, "Remove it, or give load instead of closed; pauses have closed.think.")


def client_rules(trial: TrialPlan) -> Iterator[Broken]:
    """Each writer has a client at least; and each client's writer has to run at once with the others."""
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None and phase.closed.clients < trial.writers:
            message = f"is below writers ({trial.writers}), so that some writers would do nothing"
            yield Broken(f"phases[{index}].closed.clients", message, "Raise it, or lower writers.")
        elif phase.closed is not None and phase.closed.clients > MAX_CONNECTED_CLIENTS * trial.writers:
            message = f"is more than {MAX_CONNECTED_CLIENTS} a writer, and a function may have 1,024 files open"
            least = -(-phase.closed.clients // MAX_CONNECTED_CLIENTS)
            yield Broken(f"phases[{index}].closed.clients", message, f"Lower it, or raise writers to {least} or more.")
