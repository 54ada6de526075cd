"""What a trial of DAGs left beside its writers' records and arrivals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.tuning import TuningStep
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks, read_dag_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.rows import DagEnd
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable


class DagRecords(NamedTuple):
    """Rows of tasks, ends of executions, decisions to tune the store; and messages about ends that are garbled."""

    tasks: StoredTasks
    ends: tuple[DagEnd, ...]
    tuning: tuple[TuningStep, ...]
    damaged: tuple[str, ...]

    @property
    def write_units(self) -> int:
        """Return how many units of the results table rows and ends took."""
        return self.tasks.write_units + len(self.ends)

    def invocations(self, dags: Sequence[Dag]) -> Counter[str]:
        """Return how often each function was invoked at least to run tasks: the rows of executions with an end."""
        functions = {(dag.name, stage.name): stage.function for dag in dags for stage in dag.stages}
        found = Counter[str]()
        for end in self.ends:
            for stage, count in self.tasks.by_stage(end.event).items():
                found[functions.get((end.dag, stage), "RunTask")] += count
        return found


def read_dag_records(spec: TrialSpec, runs: RunStore, table: TrialTable) -> DagRecords:
    """
    Read them.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    ends, damaged = read_dag_ends(spec.tag, table)
    steps = (
        runs.find_model(layout.phase_key(spec.ref, number, layout.TUNING), TuningStep)
        for number, _ in enumerate(spec.offered.phases)
    )
    return DagRecords(
        StoredTasks.read(spec.tag, table), ends, tuple(step for step in steps if step is not None), damaged
    )
