"""A trial of `dataflow` that is stored in memory, and sandboxes for its tasks and ends, over a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.samples.dags import dataflow_trial
from tests.samples.services import MemoryServices, stored_trial
from tests.support.memory_blobs import MemoryBlobs

from stepbench.clock import SystemClock
from stepbench.contracts.dataflow.rows import TaskItem
from stepbench.contracts.identity import EventId
from stepbench.contracts.plan import TrialPlan
from stepbench.experiments.dataflow.tasks.sandbox import Sandbox, TaskPlace
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.stages import receive_events
from stepbench.stages.end_dataflow import EndSandbox
from stepbench.stages.run_task import TaskSandbox

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialRef

ENVIRON = {"RESULTS_TABLE": "table", "RESULTS_BUCKET": "bucket"}


class Execution:
    """One execution of the trial's DAG, whose tasks a test runs one by one. exits: what processes ended with."""

    def __init__(self, *, blobs: MemoryBlobs | None = None, **trial: Any) -> None:  # noqa: ANN401 -- a trial's fields
        self.memory = MemoryServices()
        self.services = self.memory.services
        self.ref: TrialRef = stored_trial(self.services, TrialPlan.model_validate(dataflow_trial(**trial)))
        self.event = EventId(self.ref.tag, 0, 0, 0, 0, 0).text()
        self.blobs = blobs or MemoryBlobs(SystemClock())
        self.exits: list[int] = []
        self._place = TaskPlace(ENVIRON, self.services.table, self.services.runs, lambda *_: self.blobs)
        self.tasks = TaskSandbox(Sandbox(ENVIRON, 0), self._place, self.services.table, self.exits.append)
        store, log = T4Store(self.services.table, self.services.runs), T4Log(lambda _tag: None)
        receiver = receive_events.Receiver(store, log, receive_events.Sandbox("s", 0, 0))
        self.ends = EndSandbox(receiver, self._place)

    def item(self, stage: str, index: int = 0) -> TaskItem:
        """Return a task."""
        dag = self.services.trial(self.ref).offered.dags[0].name
        return TaskItem(ref=self.ref, event=self.event, dag=dag, stage=stage, index=index)
