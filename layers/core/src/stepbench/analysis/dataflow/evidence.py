"""What a trial of DAGs left beside its writers' records and arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.tuned import TuningStep
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks, read_dag_ends

if TYPE_CHECKING:
    from stepbench.contracts.dataflow_rows import DagEnd
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable


class DagRecords(NamedTuple):
    """Rows of tasks, ends of executions, decisions to tune the store; and messages about ends that are garbled."""

    tasks: StoredTasks
    ends: tuple[DagEnd, ...]
    tuning: tuple[TuningStep, ...]
    damaged: tuple[str, ...]


def read_dag_records(spec: TrialSpec, runs: RunStore, table: TrialTable) -> DagRecords | None:
    """
    Return them, or None of another experiment.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    if spec.offered.experiment != "dataflow":
        return None
    ends, damaged = read_dag_ends(spec.tag, table)
    steps = (
        runs.find_model(layout.phase_key(spec.ref, number, layout.TUNING), TuningStep)
        for number, _ in enumerate(spec.offered.phases)
    )
    return DagRecords(
        StoredTasks.read(spec.tag, table), ends, tuple(step for step in steps if step is not None), damaged
    )
