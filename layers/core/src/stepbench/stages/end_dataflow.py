"""
Task `EndDataflow`: an execution of a DAG has ended, which is what its start's event arrives by.

The handler (`functions/end_dataflow.py`) stamps t4 as its first statement. What has completed arrives, as a t4 item of
its own; what has failed does not. Then its objects are removed from the store, and the end is recorded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.dataflow.rows import DagEnd, EndDataflowOutput
from stepbench.contracts.identity import CANARY_PHASE, parse_event_id
from stepbench.errors import TargetUnavailableError
from stepbench.experiments.dataflow.tasks.sandbox import open_task_place
from stepbench.records.formats.t4 import Entry, pack
from stepbench.stages.receive_events import item_fields, open_receiver, read_clock
from stepbench.workload.topology import all_objects, object_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.dataflow.rows import EndDataflowInput
    from stepbench.contracts.identity import EventId
    from stepbench.contracts.plan import TrialSpec
    from stepbench.experiments.dataflow.tasks.sandbox import TaskPlace
    from stepbench.stages.receive_events import Receiver

_CAUSE_CHARS = 2_000


class EndSandbox(NamedTuple):
    """All that a sandbox needs to end executions."""

    receiver: Receiver
    place: TaskPlace


def open_end_sandbox(environ: Mapping[str, str], imported_ns: int) -> EndSandbox:
    """Open a sandbox whose handler was loaded at `imported_ns`; it connects when there is something to store."""
    place = open_task_place(environ)  # first: the receiver's opening ends the init phase
    return EndSandbox(open_receiver(environ, imported_ns), place)


def end_dataflow(task: EndDataflowInput, sandbox: EndSandbox, t4_ns: int, request_id: str) -> EndDataflowOutput:
    """
    Record the arrival, remove the objects, tell the end.

    A store that does not answer keeps its objects until the trial is torn down: the end says how many.

    Args:
        task: whose end, and how.
        sandbox: in which.
        t4_ns: the handler's first statement.
        request_id: of this invocation.

    Raises:
        RecordsUnavailableError: arrival or end could not be stored.
    """
    receiver, event = sandbox.receiver, parse_event_id(task.event)
    cold, failure = receiver.sandbox.begin(t4_ns), task.failure.failure()
    if failure is None and event is not None:
        _record_arrival(event, receiver, t4_ns, request_id, cold=cold)
    is_canary = event is not None and event.phase == CANARY_PHASE
    deleted, left, delete_ns = (0, 0, 0) if is_canary else _remove_objects(task, sandbox)
    if not is_canary:
        end = DagEnd(
            event=task.event,
            dag=task.dag,
            ended_ns=t4_ns,
            completed=failure is None,
            error="" if failure is None else failure.error,
            cause="" if failure is None else failure.cause[:_CAUSE_CHARS],
            deleted=deleted,
            left=left,
            delete_ns=delete_ns,
        )
        sandbox.place.rows.put_end(task.ref.tag, end)
    read_clock([task.ref.tag], t4_ns, receiver)
    return EndDataflowOutput(completed=failure is None, deleted=deleted, left=left)


def _record_arrival(event: EventId, receiver: Receiver, t4_ns: int, request_id: str, *, cold: bool) -> None:
    entry = Entry(event.phase, event.attempt, event.writer, event.slice, 0, event.sequence, t4_ns, 0)
    fields = item_fields(receiver.sandbox, 1, 0, cold=cold)
    item = {"n": 1, "entries": pack([entry]), **fields, "ignored": 0}
    receiver.store.put(event.tag, request_id, t4_ns, item)


def _remove_objects(task: EndDataflowInput, sandbox: EndSandbox) -> tuple[int, int, int]:
    """Return how many objects were removed, how many may be left, and how long that took, ns."""
    place, began_ns = sandbox.place, time.monotonic_ns()
    spec = place.trial(task.ref)
    dag = next(each for each in spec.offered.dags if each.name == task.dag)
    keys = [object_key(task.ref.tag, task.event, each.name) for each in all_objects(dag)]
    deleted, left = 0, 0
    if keys:
        try:
            deleted = place.run(_delete(spec, place, keys))
        except TargetUnavailableError:
            place.run(place.close_store())
            left = len(keys)
    return deleted, left, time.monotonic_ns() - began_ns


async def _delete(spec: TrialSpec, place: TaskPlace, keys: list[str]) -> int:
    return await (await place.open_store(spec)).delete(keys)
