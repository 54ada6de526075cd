"""The rules of a trial of `dataflow`: its DAGs, its store, and which fields have a meaning for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule, repeated_names
from stepbench.contracts.target import CassandraTarget, stores_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.trial import TrialFields

_OTHERS_FIELDS = ("record", "workload", "find_rate", "log_t4")
"""Fields of a trial about writes, operations and logs of receivers, of which executions have none."""


def no_dag_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Other experiments have no DAGs, and configure no store for one."""
    if trial.dags:
        yield BrokenRule("dags", "have no meaning", 'Remove them, or set experiment to "dataflow".')
    for index, phase in enumerate(trial.phases):
        if phase.dag is not None:
            yield BrokenRule(f"phases[{index}].dag", "has no meaning", 'Remove it, or set experiment to "dataflow".')
    if isinstance(trial.target, CassandraTarget) and trial.target.tuning.tunes:
        remedy = 'Remove it, or set experiment to "dataflow".'
        yield BrokenRule("target.tuning", "has no meaning: only DAGs say what is to come", remedy)


def dag_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Executions are of DAGs, and each phase knows of which."""
    names = [dag.name for dag in trial.dags]
    if not names:
        yield BrokenRule("dags", "are missing, and dataflow needs one", "Give a DAG, such as a preset's.")
        return
    yield from repeated_names("dags", names)
    for index, phase in enumerate(trial.phases):
        if phase.dag is None and len(names) > 1:
            message = "is missing, and the trial has several DAGs"
            yield BrokenRule(f"phases[{index}].dag", message, f"Name one of {', '.join(names)}.")
        elif phase.dag is not None and phase.dag not in names:
            yield BrokenRule(f"phases[{index}].dag", "names no DAG", f"Name one of {', '.join(names)}.")
    for place, dag in enumerate(trial.dags):
        if dag.longest_s > trial.drain_limit_s:
            message = f"is below what the tasks of dags[{place}] may take, {dag.longest_s:g} s"
            yield BrokenRule("drain_limit_s", message, "Raise it, or lower timeout_s of its stages.")


def medium_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The store has to hold blobs, and is configured for nothing else."""
    if not trial.target.holds_blobs:
        able = stores_with(lambda model: model.holds_blobs)
        yield BrokenRule("target.store", "holds no blobs", f"Use one of {', '.join(able)}.")
    if isinstance(trial.target, CassandraTarget) and trial.target.tuning.tunes and trial.target.endpoint is not None:
        message = "is for the stack's own node, and target.endpoint names another server"
        yield BrokenRule("target.tuning", message, "Remove one of the two.")


def field_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """What belongs to other experiments is refused, and a closed loop has to say how many executions it starts."""
    for field in _OTHERS_FIELDS:
        if getattr(trial, field) != type(trial).model_fields[field].get_default():
            yield BrokenRule(field, "has no meaning for dataflow", "Remove it.")
    for index, phase in enumerate(trial.phases):
        if phase.closed is not None and phase.closed.operations is None:
            message = "is missing: how many executions the clients start, one after the other"
            yield BrokenRule(f"phases[{index}].closed.operations", message, "Give it.")
        if phase.scale is not None:
            yield BrokenRule(f"phases[{index}].scale", "has no meaning for dataflow", "Remove it.")
