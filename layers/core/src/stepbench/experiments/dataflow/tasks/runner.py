"""
One attempt at one task: read the inputs, decode, compute, encode, write the outputs, and tell what took how long.

A retried task overwrites the objects of the attempt before: their keys have no attempt.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from stepbench.contracts.dataflow.rows import MAX_RESULT_CHARS, TaskRow
from stepbench.errors import TargetUnavailableError
from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall, find_task
from stepbench.experiments.dataflow.tasks.codec import NotEncodableError
from stepbench.experiments.dataflow.tasks.objects import ObjectPassages, TaskError
from stepbench.experiments.dataflow.tasks.sandbox import Kept
from stepbench.experiments.transfer.program.surroundings import peak_memory_bytes
from stepbench.model.errors import TIMEOUT
from stepbench.workload.topology import object_key, read_by, written_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.dataflow.rows import TaskItem
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.blobs import BlobStore
    from stepbench.experiments.dataflow.tasks.application import Value
    from stepbench.experiments.dataflow.tasks.sandbox import Invocation

    ReadKept: TypeAlias = Callable[[Kept], bytes]

T = TypeVar("T")
_MAX_ERROR_CHARS = 1_000


async def run_task(
    item: TaskItem, spec: TrialSpec, store: BlobStore, read_kept: ReadKept, invocation: Invocation
) -> TaskRow:
    """
    Run one attempt at a task; what goes wrong is the row's `error`, never an exception.

    Args:
        item: which task.
        spec: its trial.
        store: to read from and to write to; it is opened unless the sandbox has it open, and left open. After a
            task that has failed it is of no more use, and the caller's to close.
        read_kept: reads the DAG's own input, and the stage's files; it is called in a thread.
        invocation: that this is, with the attempt's number.
    """
    attempt = _Attempt(item, spec, store, invocation)
    error = ""
    try:
        async with asyncio.timeout(attempt.left_s()):
            await attempt.run(read_kept)
    except TimeoutError:
        error = f"{TIMEOUT}: the task was given up after {attempt.stage.timeout_s:g} s"
    except (TaskError, NotEncodableError) as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 -- a task's failure is data, whosever it is
        error = f"{type(failure).__name__} in the runner: {failure}"
    row = attempt.row(error)
    if error:
        invocation.sandbox.opened = None
    return row


class _OwnThread(Executor):
    """Runs each function in a thread that nobody has to wait for: the event loop's own would hold up the process."""

    def submit(self, fn: Callable[..., T], /, *args: object, **named: object) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                result = fn(*args, **named)
            except Exception as error:  # noqa: BLE001 -- for who awaits the future
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name="task", daemon=True).start()
        return future


class _Attempt:
    def __init__(self, item: TaskItem, spec: TrialSpec, store: BlobStore, invocation: Invocation) -> None:
        self._item, self._spec, self._store, self._invocation = item, spec, store, invocation
        self._clock = invocation.clock
        self._dag = next(dag for dag in spec.offered.dags if dag.name == item.dag)
        self.stage = self._dag.by_name[item.stage]
        self._objects = ObjectPassages(store, self._clock, lambda name: object_key(item.ref.tag, item.event, name))
        self._open_ns = self._input_ns = self._input_bytes = self._compute_ns = 0
        self._result = ""

    def left_s(self) -> float:
        return max(self.stage.timeout_s - (self._clock.now_ns() - self._invocation.began_ns) / 1e9, 0.0)

    async def run(self, read_kept: ReadKept) -> None:
        self._check_memory()
        await self._open()
        names, values = self._outputs_of(await self._compute(await self._call(read_kept)))
        await self._objects.write(names, values)

    def row(self, error: str) -> TaskRow:
        item, invocation, ended_ns = self._item, self._invocation, self._clock.now_ns()
        return TaskRow(
            event=item.event,
            dag=item.dag,
            stage=item.stage,
            index=item.index,
            attempt=invocation.attempt,
            began_ns=invocation.began_ns,
            ended_ns=ended_ns,
            open_ns=self._open_ns,
            input_ns=self._input_ns,
            input_bytes=self._input_bytes,
            compute_ns=self._compute_ns,
            cpu_ns=time.process_time_ns() - invocation.cpu_ns,
            blobs=self._objects.rows(),
            sandbox=invocation.sandbox.id,
            cold=invocation.cold,
            init_ns=invocation.sandbox.init_ns if invocation.cold else 0,
            request_id=invocation.request_id,
            memory_bytes=peak_memory_bytes(),
            outcome="failed" if error else "ok",
            error=error[:_MAX_ERROR_CHARS],
            result="" if error else self._result,
        )

    def _check_memory(self) -> None:
        has, wanted = self._invocation.sandbox.memory_mib, self.stage.memory_mib
        if has is not None and wanted is not None and has < wanted:
            message = f"memory: the function has {has} MiB, and the stage wants {wanted}"
            raise TaskError(message)

    async def _open(self) -> None:
        sandbox, began_ns = self._invocation.sandbox, self._clock.now_ns()
        if sandbox.opened is self._store:
            return
        try:
            await self._store.open()
        except TargetUnavailableError as error:
            message = f"open: {error}"
            raise TaskError(message) from error
        finally:
            self._open_ns = self._clock.now_ns() - began_ns
        sandbox.opened = self._store

    async def _call(self, read_kept: ReadKept) -> TaskCall:
        """Gather what the application is given."""
        dag, stage, began_ns = self._dag, self.stage, self._clock.now_ns()

        def read(kept: Kept) -> bytes:
            body = read_kept(kept)
            self._input_bytes += len(body)
            return body

        def read_files() -> dict[str, bytes]:
            sandbox, tag = self._invocation.sandbox, self._item.ref.tag
            return {name: sandbox.file(tag, Kept(dag.name, stage.name, name), read) for name in stage.files}

        dag_input = None
        if stage.takes_input and dag.input is not None:
            dag_input = await self._in_thread("the DAG's input", lambda: read(Kept(dag.name)))
        files = await self._in_thread("the stage's files", read_files) if stage.files else {}
        if dag_input is not None or files:
            self._input_ns = self._clock.now_ns() - began_ns
        objects = read_by(dag, stage, self._item.index)
        values = await self._objects.read([each.name for each in objects])
        inputs: dict[str, list[Value]] = {each.stage: [] for each in stage.inputs}
        for each, value in zip(objects, values, strict=True):
            inputs[each.producer].append(value)
        return TaskCall(
            inputs=inputs,
            dag_input=dag_input,
            files=files,
            parameters=stage.parameters,
            stage=stage.name,
            task=self._item.index,
            tasks=stage.tasks,
            parts=self._parts(),
            seed=dag.input.seed if dag.input is not None else self._spec.offered.seed,
        )

    def _parts(self) -> dict[str, int]:
        return dict(Counter(each.consumer for each in written_by(self._dag, self.stage, self._item.index)))

    async def _compute(self, call: TaskCall) -> TaskAnswer:
        name, began_ns = self.stage.task, self._clock.now_ns()
        try:
            return await self._in_thread(name, lambda: find_task(name)(call))
        finally:
            self._compute_ns = self._clock.now_ns() - began_ns

    async def _in_thread(self, what: str, function: Callable[[], T]) -> T:
        """
        Return what a function returns, which runs in a thread of its own, so that a time-out can give it up.

        Raises:
            TaskError: it has raised something, which the message names.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(_OwnThread(), function)
        except asyncio.CancelledError:
            self._invocation.sandbox.is_spoiled = True
            raise
        except Exception as error:
            text = str(error)
            if not isinstance(error, ApplicationError):
                text = f"{type(error).__name__} in {what}: {text}"
            raise TaskError(text) from error

    def _outputs_of(self, answer: TaskAnswer) -> tuple[list[str], list[Value]]:
        """Return the names and the values of the objects to write, and keep the result."""
        self._result = _as_text(answer.result)
        given = {consumer: len(values) for consumer, values in answer.outputs.items()}
        if given != (wanted := self._parts()):
            message = f"{self.stage.task} has given outputs {given}, and the DAG's edges want {wanted}"
            raise TaskError(message)
        objects = written_by(self._dag, self.stage, self._item.index)
        return [each.name for each in objects], [answer.outputs[each.consumer][each.part] for each in objects]


def _as_text(result: Value) -> str:
    """
    Return a result as JSON.

    Raises:
        TaskError: it has none, or is too long.
    """
    if result is None:
        return ""
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"the task's result cannot be written as JSON: {error}"
        raise TaskError(message) from error
    if len(text) > MAX_RESULT_CHARS:
        message = f"the task's result has {len(text):,} characters, more than {MAX_RESULT_CHARS:,}"
        raise TaskError(message)
    return text
