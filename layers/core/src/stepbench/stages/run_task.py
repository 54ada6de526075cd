"""
Task `RunTask`, and its variants with other libraries: one attempt at one task of an execution of a DAG.

Whatever becomes of it is a row in the results table; only then the stage raises what the state machine retries. It has
neither boto3 nor services, so that what is measured is the task: its sandbox stands in their place.

On the side, a thread looks at its beginning and once a second whether the trial is cancelled, and gives signs of life
of a task that takes longer than that: whoever clears up waits for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.clock import SystemClock
from stepbench.contracts.dataflow.rows import RunTaskOutput
from stepbench.errors import RecordsUnavailableError, TaskFailedError, TrialCancelledError
from stepbench.experiments.dataflow.tasks import runner
from stepbench.experiments.dataflow.tasks.application import preload
from stepbench.experiments.dataflow.tasks.sandbox import Sandbox, open_task_place
from stepbench.records.storage import layout
from stepbench.records.storage.receiver_paths import open_table
from stepbench.wire.http1.blocking import RetryLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.dataflow.rows import RunTaskInput, TaskItem, TaskRow
    from stepbench.contracts.plan import TrialSpec
    from stepbench.experiments.dataflow.tasks.sandbox import Invocation, Table, TaskPlace

CANCEL_POLL_S = 1.0
CANCEL_RETRY = RetryLimits(attempts=1, connect_s=1, answer_s=1, whole_s=2)
_SPOILED = 1
"""The exit code of a process in which the computing of a task that was given up goes on."""


class TaskSandbox(NamedTuple):
    """
    All that a sandbox needs to run tasks.

    flags: a table of its own for the thread on the side. end: ends the process.
    """

    memory: Sandbox
    place: TaskPlace
    flags: Table
    end: Callable[[int], Any] = os._exit


def open_task_sandbox(environ: Mapping[str, str], imported_ns: int) -> TaskSandbox:
    """Open a sandbox whose handler was loaded at `imported_ns`, and import the libraries of its application, if any."""
    if application := environ.get("APPLICATION"):
        preload(application)
    place, flags = open_task_place(environ), open_table(environ, CANCEL_RETRY)
    return TaskSandbox(Sandbox(environ, imported_ns), place, flags)


def run_task(task: RunTaskInput, sandbox: TaskSandbox, began_ns: int, request_id: str) -> RunTaskOutput:
    """
    Run one attempt, and store its row.

    Args:
        task: which.
        sandbox: in which.
        began_ns: the handler's first statement.
        request_id: of this invocation.

    Raises:
        TaskFailedError: the row says why.
        TrialCancelledError: the trial is to stop; there is no row.
        RecordsUnavailableError: the trial could not be read, or the row not be stored.
    """
    invocation = sandbox.memory.begin(SystemClock(), began_ns, request_id, task.attempt)
    cancellation = CancellationWatcher(sandbox.flags, task.item)
    cancellation.start()
    try:
        row = sandbox.place.run(_run_unless_cancelled(task.item, sandbox, invocation, cancellation))
    finally:
        cancellation.end()
    is_cancelled = row is None or cancellation.is_cancelled
    if row is not None and not is_cancelled:
        sandbox.place.rows.put_task(task.item.ref.tag, row)
    if sandbox.memory.is_spoiled:
        sandbox.end(_SPOILED)
    if row is None or is_cancelled:
        message = f"trial {task.item.ref.tag} is cancelled"
        raise TrialCancelledError(message)
    if row.outcome == "failed":
        message = f"{row.name}: {row.error}"
        raise TaskFailedError(message)
    return _output(row)


async def _run_unless_cancelled(
    item: TaskItem, sandbox: TaskSandbox, invocation: Invocation, cancellation: CancellationWatcher
) -> TaskRow | None:
    work = asyncio.ensure_future(_run(item, sandbox, invocation))
    cancellation.notify(asyncio.get_running_loop(), work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        sandbox.memory.opened = None
        await sandbox.place.close_store()
        return None


async def _run(item: TaskItem, sandbox: TaskSandbox, invocation: Invocation) -> TaskRow:
    place = sandbox.place
    spec: TrialSpec = place.trial(item.ref)
    store = await place.store(spec)
    row = await runner.run_task(item, spec, store, partial(place.read_kept, item.ref), invocation)
    if row.outcome == "failed":
        await place.close_store()
    return row


def _output(row: TaskRow) -> RunTaskOutput:
    moved = {"get": 0, "put": 0}
    for blob in row.blobs:
        moved[blob.operation] += blob.blob_bytes
    return RunTaskOutput(read_bytes=moved["get"], written_bytes=moved["put"], cold=row.cold)


def _nothing() -> None:
    """Do nothing."""


class CancellationWatcher:
    """
    The thread on the side of one task.

    A table that does not answer is no reason to stop: the row has its own way out.
    """

    def __init__(self, table: Table, item: TaskItem, *, poll_s: float = CANCEL_POLL_S) -> None:
        self._table = table
        self._tag = item.ref.tag
        self._who = f"task#{item.event}#{item.stage}#{item.index}"
        self._poll_s = poll_s
        self._ended = threading.Event()
        self._changed = threading.Lock()
        self._cancel: Callable[[], object] = _nothing
        self._thread = threading.Thread(target=self._watch, name="cancellation", daemon=True)
        self.is_cancelled = False

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def notify(self, loop: asyncio.AbstractEventLoop, cancel: Callable[[], object]) -> None:
        """Have `cancel` called on the loop when the trial is cancelled, or now if it was."""
        with self._changed:
            self._cancel = partial(loop.call_soon_threadsafe, cancel)
            if self.is_cancelled:
                self._cancel()

    def end(self) -> None:
        """Look no more; say so, if there were signs of life."""
        with self._changed:
            self._cancel = _nothing
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        beats = 0
        while not self._check_cancelled() and not self._ended.wait(self._poll_s):
            self._beat()
            beats += 1
        if beats:
            self._ended.wait()
            self._beat(ended=True)

    def _check_cancelled(self) -> bool:
        try:
            is_cancelled = self._table.flag(self._tag, layout.CANCELLED) is not None
        except RecordsUnavailableError:
            return False
        if is_cancelled:
            with self._changed:
                self.is_cancelled = True
                self._cancel()
        return is_cancelled

    def _beat(self, *, ended: bool = False) -> None:
        try:
            self._table.beat(self._tag, self._who, {}, ended=ended)
        except RecordsUnavailableError:
            return  # no sign of life for a second
