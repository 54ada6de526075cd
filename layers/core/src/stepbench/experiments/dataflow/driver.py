"""
Executions of DAGs: an event's write is `StartExecution`, and its token the execution's ARN.

The trial's store is what their tasks pass data through; it is prepared and cleared by its `BlobStore`. In closed loop a
start counts as answered only once its execution has ended, while t2 stays the acknowledgement: `EndDataflow` says so in
the results table, where it is looked for several times a second, up to the drain limit. Nothing is retried: throttling
is FAILED, with the service's code.
"""

from __future__ import annotations

import asyncio
import json
import re
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from stepbench.contracts.dataflow.dag import MAX_TASKS
from stepbench.contracts.dataflow.rows import RunDataflowInput
from stepbench.contracts.identity import (
    CANARY_PHASE,
    EVENT_ID_CHARS,
    EventId,
    execution_name,
    executions_prefix,
    parse_event_id,
)
from stepbench.drivers.aws import ANSWER_LIMIT_S, AwsAccess, error_code, limits_of
from stepbench.drivers.dynamodb.items import action_form
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome, Result
from stepbench.records.storage import layout
from stepbench.wire.http1.aws import SignedRequest, json_error_code, write_result
from stepbench.wire.http1.pool import PoolLimits
from stepbench.wire.http1.sigv4 import Form
from stepbench.workload.topology import levels_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.blobs import BlobStore
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.connection import HttpRequest

START = Form(
    "POST", (("content-type", "application/x-amz-json-1.0"), ("x-amz-target", "AWSStepFunctions.StartExecution"))
)
_GET = action_form("GetItem")
_ARN = re.compile(rb'"executionArn"\s*:\s*"([^"]+)"')
END_POLL_S = 0.2
"""What a client of a closed loop may learn later of an execution's end; no latency has it in it."""
EMULATED_AT_ONCE = 16
"""Tasks of a level where all their sandboxes, of some 60 MB each, share a machine with the emulator."""
_STOP_FOR_NS = 20_000_000_000
_GONE = "ExecutionDoesNotExist"


class DataflowDriver:
    """`Driver` for DAGs over any store of blobs."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock, blobs: BlobStore) -> None:
        """`blobs`: the trial's store."""
        self._spec, self._settings, self._clock = spec, settings, clock
        self._blobs, self._has_store = blobs, False
        limits = limits_of(spec.offered, ANSWER_LIMIT_S)
        self._aws = AwsAccess("stepfunctions", spec, settings, clock, limits=limits, is_store=False)
        self._table = AwsAccess("dynamodb", spec, settings, clock, limits=_POLLING, is_store=False)
        self._starts: dict[int, tuple[str, str, str]] = {}

    async def open(self) -> None:
        """Connect to Step Functions, and to the table of ends; to the store once it is needed."""
        await self._aws.open()
        if self._closed_phases:
            await self._table.open()

    async def prepare(self) -> None:
        """Make what holds the trial's blobs. Raises TargetUnavailableError: or the stack has no machine for DAGs."""
        if not self._settings.dataflow_arn:
            message = "this stack has no state machine that runs DAGs: deploy the current template"
            raise TargetUnavailableError(message)
        await (await self._store()).prepare()

    async def ready(self) -> bool:
        """Return whether the store has what holds the blobs."""
        return await (await self._store()).ready()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return the start, signed, of the execution that the request's key begins with the event of."""
        event = request.key[:EVENT_ID_CHARS]
        start = SignedRequest(self._aws.wire, START, "/", self.start_body(event), _execution_started)
        if _phase_of(event) not in self._closed_phases:
            return start
        return AwaitedExecution(start, lambda: self._has_ended(event), self._spec.offered.drain_limit_s)

    def start_body(self, event: str) -> bytes:
        """Return what starts the execution of an event."""
        phase = _phase_of(event)
        if phase not in self._starts:
            self._starts[phase] = self._start_parts(phase)
        head, middle, tail = self._starts[phase]
        return f"{head}{execution_name(event)}{middle}{event}{tail}".encode()

    async def tear_down(self) -> bool:
        """
        Stop what still runs, then remove every object, and see that none is left.

        What was stopped may have a task in the middle of writing, which looks for the trial's flag each second: the
        objects are for the next call.
        """
        if not await self._stop_executions():
            return False
        store = await self._store()
        left = await store.keys()
        if left:
            await store.delete(left)
            left = await store.keys()
        return await store.tear_down() and not left

    async def remaining(self) -> int:
        """See `Accountable`."""
        return len(await (await self._store()).keys())

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        machine = self._settings.dataflow_arn.rpartition(":")[2]
        return (*self._blobs.resource_names(), f"executions {machine}:{executions_prefix(self._spec.tag)}*")

    async def step_functions(self) -> Any:  # noqa: ANN401 -- boto3's
        """Return the client that executions are listed and stopped with."""
        return await self._aws.client()

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()
        await self._table.close()
        await self._blobs.close()
        self._has_store = False

    async def provider(self) -> str:
        """Return what serves the store."""
        return await (await self._store()).provider()

    @cached_property
    def _closed_phases(self) -> frozenset[int]:
        phases = enumerate(self._spec.offered.phases)
        return frozenset(index for index, phase in phases if phase.closed is not None)

    async def _store(self) -> BlobStore:
        if not self._has_store:
            await self._blobs.open()
            self._has_store = True
        return self._blobs

    def _start_parts(self, phase: int) -> tuple[str, str, str]:
        """
        Return what stands before the name of an execution, between it and its event, and after that.

        Executions of a phase are given the same, all but for the event; a canary has nothing to do but end.
        """
        plan, ref = self._spec.offered, self._spec.ref
        dag = plan.dag_of(plan.phases[phase]) if phase != CANARY_PHASE else plan.dags[0]
        most = EMULATED_AT_ONCE if self._settings.emulator else MAX_TASKS
        key_of = partial(layout.dag_level_key, ref, dag.name)
        levels = () if phase == CANARY_PHASE else levels_of(dag, self._settings.results_bucket, key_of, most)
        event = EventId(ref.tag, phase, 0, 0, 0, 0).text()
        given = RunDataflowInput(ref=ref, event=event, dag=dag.name, levels=levels)
        rest = given.model_dump_json(exclude_defaults=True, exclude={"event"})[1:]
        before, after = json.dumps('{"event":"'), json.dumps(f'",{rest}')
        head = f'{{"stateMachineArn":{json.dumps(self._settings.dataflow_arn)},"name":"'
        return head, f'","input":{before[:-1]}', f"{after[1:]}}}"

    async def _has_ended(self, event: str) -> bool:
        """Return whether an execution has ended by the table; while the table does not answer, it has not."""
        partition = layout.dag_ends_pk(self._spec.tag, layout.t4_shard(event))
        key = {"pk": {"S": partition}, "sk": {"S": event}}
        body = json.dumps({"TableName": self._settings.results_table, "Key": key, "ConsistentRead": True})
        exchange = await self._table.wire.exchange(_GET, "/", body.encode())
        return exchange.answer is not None and b'"Item"' in exchange.answer.body

    async def _stop_executions(self) -> bool:
        """Stop the trial's executions; return whether there were none."""
        client, until_ns = await self.step_functions(), self._clock.now_ns() + _STOP_FOR_NS
        running = await self._aws.call(lambda: list(_running(client, self._settings.dataflow_arn, self._spec.tag)))
        for arn in running:
            if self._clock.now_ns() >= until_ns:
                break
            try:
                cause = "its trial has ended"
                await self._aws.call(client.stop_execution, executionArn=arn, error="Swept", cause=cause)
            except TargetUnavailableError as error:
                if error_code(error) != _GONE:
                    raise
        return not running


_POLLING = PoolLimits(connections=16, warm=1)


def _phase_of(event: str) -> int:
    found = parse_event_id(event)
    return CANARY_PHASE if found is None else found.phase


def _running(client: Any, machine: str, tag: str) -> Iterator[str]:  # noqa: ANN401 -- boto3's
    """Yield the ARNs of a trial's executions that run."""
    pages = client.get_paginator("list_executions").paginate(stateMachineArn=machine, statusFilter="RUNNING")
    prefix = executions_prefix(tag)
    for page in pages:
        yield from (each["executionArn"] for each in page["executions"] if each["name"].startswith(prefix))


def _execution_started(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    result = write_result(sending.exchange(t2_ns, answer, error), json_error_code)
    if result.outcome is not Outcome.OK or answer is None:
        return result
    found = _ARN.search(answer.body)
    return result._replace(token=found[1].decode() if found else "")


class AwaitedExecution:
    """`PendingRequest` whose `done` is called when its execution has ended, with the result of its start."""

    def __init__(self, start: PendingRequest, has_ended: Callable[[], Awaitable[bool]], limit_s: float) -> None:
        self._start, self._has_ended, self._limit_s = start, has_ended, limit_s
        self._done: Callable[[Result], None] | None = None
        self._result: Result | None = None
        self._waiting: asyncio.Task[None] | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        self._done = done
        self._start.send(self._acknowledged)

    def abandon(self) -> None:
        """See `PendingRequest`; what is known of a start that was acknowledged is that it was."""
        if self._waiting is None:
            self._start.abandon()
        else:
            self._waiting.cancel()
            self._finish()

    def _acknowledged(self, result: Result) -> None:
        self._result = result
        if result.outcome is Outcome.OK:
            self._waiting = asyncio.get_running_loop().create_task(self._await_end())
        else:
            self._finish()

    async def _await_end(self) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._limit_s
        try:
            while loop.time() < until_s:
                await asyncio.sleep(END_POLL_S)
                if await self._has_ended():
                    break
        finally:
            self._finish()

    def _finish(self) -> None:
        done, self._done = self._done, None
        if done is not None and self._result is not None:
            done(self._result)
