"""
What a writer offers in one slice, put together: writes or operations, at a schedule's times or by waiting clients.

The engines know neither stores nor plans; here is where the two meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.identity import EventId
from stepbench.contracts.tasks import RunWriterOutput
from stepbench.load.closed_loop import Client, ClosedLoop, LoopBounds, Offer
from stepbench.load.open_loop import OpenLoop, SliceLimits
from stepbench.load.recorder import GrowingRecorder, OperationRecorder, Recorder
from stepbench.workload.arrivals import SLICE_NS, most_rows, slice_end_ns, slice_offsets_ns, think_times_ns
from stepbench.workload.choices import ClientStream
from stepbench.workload.operations import ClientOperations, Contents
from stepbench.workload.payloads import Payloads, ValuePayloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.tasks import RunWriterInput
    from stepbench.contracts.workload import ClosedLoad, Workload
    from stepbench.drivers.protocol import Driver
    from stepbench.load.timer import Timer
    from stepbench.model.request import PendingRequest, Request, Result
    from stepbench.workload.values import PreparedValues

PREPARED = 1_000_000
"""Choices made before the clock starts, in some 0.3 s and 20 MB; what comes after them is made as it is reached."""
FASTEST_S = 20e-6
"""No client has an answer sooner, which bounds how many choices a slice needs."""
_SECOND_NS = 1_000_000_000


class Ends(NamedTuple):
    """How long answers are awaited, and how long after the slice's end a queued event may still be started."""

    drain_s: float
    grace_s: float


class Instruments(NamedTuple):
    """
    What a slice is offered with.

    full: called when so many rows wait that they should be flushed now. values: the rows that events write, if any.
    """

    clock: Clock
    timer: Timer
    ends: Ends
    full: Callable[[], None]
    values: PreparedValues | None = None


@dataclass(frozen=True)
class Slice:
    """An engine that is ready to run, and where it writes down what came of it."""

    engine: OpenLoop | ClosedLoop
    recorder: Recorder | GrowingRecorder

    def stop(self, *, fenced: bool = False) -> None:
        """Offer nothing more. fenced: a newer attempt offers what the schedule still has, so that it gets no rows."""
        if isinstance(self.engine, OpenLoop):
            self.engine.stop(leave_rest_open=fenced)
        else:
            self.engine.stop()

    def end_at(self, due_ns: int, grace_ns: int) -> None:
        """End a phase with `until`, which is open loop."""
        if isinstance(self.engine, OpenLoop):
            self.engine.end_at(due_ns, grace_ns)

    def output(self) -> RunWriterOutput:
        """Return how many requests there were, by how they ended."""
        ok, failed, unknown, unsent = self.recorder.counts
        return RunWriterOutput(sent=ok + failed + unknown, ok=ok, failed=failed, unknown=unknown, unsent=unsent)


def build_slice(task: RunWriterInput, plan: TrialPlan, driver: Driver, with_: Instruments) -> Slice:
    """
    Build the slice of a task, with all worked out that can be beforehand.

    A first attempt at open loop accounts for what it came too late for; of a later one's, an earlier attempt may have
    sent some. A later attempt at closed loop begins now, with operations of its own.
    """
    loop = plan.loop_of(plan.phases[task.item.phase])
    if loop is not None:
        return _closed(task, plan, loop, driver, with_)
    due_ns = slice_offsets_ns(plan, task.item.phase, task.item.writer, task.item.slice) + _phase_start_ns(task)
    late = int(np.searchsorted(due_ns, with_.clock.now_ns()))
    skipped = late if task.attempt else 0
    recorder: Recorder
    if plan.workload is None:
        recorder = Recorder(due_ns[skipped:], skipped)
        make = _writes(task, plan, driver, due_ns.size, with_.values)
    else:
        recorder = OperationRecorder(due_ns[skipped:], skipped)
        # A writer has as many clients as may be in flight, numbered as in closed loop.
        clients = [task.item.writer + place * plan.writers for place in range(plan.max_in_flight)]
        stream = ClientStream(task.item.phase, task.item.slice, task.item.writer)
        contents = Contents(plan.workload, task.item.ref.tag)
        operations = ClientOperations(plan.workload, contents, stream, skipped)
        operations.prepare(min(due_ns.size, skipped + PREPARED))
        make = ClientConnections(operations, driver.prepare_request, recorder, clients).make
    limits = SliceLimits(
        max_in_flight=plan.max_in_flight,
        send_until_ns=_end_ns(task, plan) + round(with_.ends.grace_s * _SECOND_NS),
        drain_s=with_.ends.drain_s,
    )
    engine = OpenLoop(make, with_.clock, with_.timer, recorder, limits=limits, first_row=late - skipped)
    return Slice(engine, recorder)


def most_alarms_per_s(plan: TrialPlan, phase: int) -> float:
    """Return how often a writer's timer may go off in open loop; infinite with clients, which pause to any time."""
    return max((step.rate_per_s / plan.writers for step in plan.phases[phase].steps), default=math.inf)


def _writes(
    task: RunWriterInput, plan: TrialPlan, driver: Driver, events: int, values: PreparedValues | None
) -> Callable[[int], PendingRequest]:
    make, payload = driver.prepare_request, _payloads(task, plan, events, values).write
    return lambda sequence: make(payload(sequence))


def _payloads(task: RunWriterInput, plan: TrialPlan, events: int, values: PreparedValues | None = None) -> Payloads:
    item = task.item
    event = EventId(item.ref.tag, item.phase, item.writer, item.slice, task.attempt, 0)
    if values is not None:
        return ValuePayloads(plan.record, event, events, plan.seed, values, plan.writers)
    return Payloads(plan.record, event, events, plan.seed)


def _closed(task: RunWriterInput, plan: TrialPlan, load: ClosedLoad, driver: Driver, with_: Instruments) -> Slice:
    item = task.item
    numbers = range(item.writer, load.clients, plan.writers)
    build = _writing_clients if plan.workload is None else partial(_operating_clients, workload=plan.workload)
    recorder = GrowingRecorder(full=with_.full)
    most = most_rows(plan, item.phase, item.slice)
    bounds = LoopBounds(item.start_at_ns, _end_ns(task, plan), with_.ends.drain_s, most)
    clients = list(build(task, plan, load, driver, numbers))
    return Slice(ClosedLoop(clients, with_.clock, with_.timer, recorder, bounds), recorder)


def _operating_clients(  # noqa: PLR0913 -- what a slice is made of
    task: RunWriterInput, plan: TrialPlan, load: ClosedLoad, driver: Driver, numbers: range, *, workload: Workload
) -> Iterator[Client]:
    item = task.item
    contents = Contents(workload, item.ref.tag)
    slice_s = (_end_ns(task, plan) - item.start_at_ns) / _SECOND_NS
    possible = int(slice_s / (load.think_ms / 1e3 + FASTEST_S)) + 1
    for number in numbers:
        own = load.operations_of(number)
        stream = ClientStream(item.phase, item.slice, number, task.attempt)
        operations = ClientOperations(workload, contents, stream)
        operations.prepare(min(possible, PREPARED // len(numbers), possible if own is None else own))
        make = partial(_offer, driver.prepare_request, operations.at)
        yield Client(number, make, _pauses_ns(task, plan, load, number), own)


def _writing_clients(
    task: RunWriterInput, plan: TrialPlan, load: ClosedLoad, driver: Driver, numbers: range
) -> Iterator[Client]:
    """
    Yield clients whose operations are events, so that each has its identity before it begins.

    Client p of n of the writer's has the numbers p, p + n, p + 2n and so on: those of its rows, too. Where clients end
    before all is offered, the numbers that some of them lack are those of events that were not sent.
    """
    most = max(load.operations_of(number) or 0 for number in numbers) * len(numbers)
    payload = _payloads(task, plan, most).write
    for place, number in enumerate(numbers):
        numbering = partial(_numbered, place, len(numbers))
        make = partial(_offer, driver.prepare_request, partial(_numbered_write, payload, numbering))
        pauses_ns = _pauses_ns(task, plan, load, number)
        yield Client(number, make, pauses_ns, load.operations_of(number), numbering, waits=True)


def _offer(
    make_request: Callable[[Request], PendingRequest], request_at: Callable[[int], Request], sequence: int
) -> Offer:
    request = request_at(sequence)
    return Offer(request.kind, make_request(request))


def _numbered_write(write: Callable[[int], Request], numbering: Callable[[int], int], own: int) -> Request:
    return write(numbering(own))


def _numbered(place: int, clients: int, own: int) -> int:
    return place + clients * own


def _pauses_ns(task: RunWriterInput, plan: TrialPlan, load: ClosedLoad, client: int) -> Iterator[int]:
    seed = (plan.seed, task.item.phase, task.item.slice, task.attempt, client)
    return think_times_ns(load.think_ms / 1e3, load.think, seed)


class ClientConnections:
    """
    Operations in open loop, each on the connection of a client that has none under way; those used last are used first.

    make_operation: how the driver's are made. clients: whose connections there are, as many as may be in flight.
    """

    def __init__(
        self,
        operations: ClientOperations,
        make_operation: Callable[[Request], PendingRequest],
        recorder: OperationRecorder,
        clients: Sequence[int],
    ) -> None:
        self._operations = operations
        self._make = make_operation
        self._recorder = recorder
        self._free = list(reversed(clients))

    def make(self, sequence: int) -> PendingRequest:
        """Return the operation with this number, and lend it a connection."""
        client = self._free.pop()
        operation = self._operations.at(sequence, client)
        start = partial(self._recorder.start, sequence, operation.kind, client)
        try:
            pending = self._make(operation)
        except Exception:
            start()
            self._free.append(client)
            raise
        return _LentConnection(pending, start, partial(self._free.append, client))


class _LentConnection:
    """`PendingRequest`, on a connection that is given back with the answer."""

    __slots__ = ("_done", "_give_back", "_pending", "_start")

    def __init__(self, pending: PendingRequest, start: Callable[[], None], give_back: Callable[[], None]) -> None:
        self._pending = pending
        self._start = start
        self._give_back = give_back

    def send(self, done: Callable[[Result], None]) -> None:
        self._start()
        self._done: Callable[[Result], None] | None = done
        try:
            self._pending.send(self._ended)
        except Exception:
            if self._done is not None:
                self._done = None
                self._give_back()
            raise

    def abandon(self) -> None:
        self._pending.abandon()

    def _ended(self, operated: Result) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._give_back()
            done(operated)


def _phase_start_ns(task: RunWriterInput) -> int:
    return task.item.start_at_ns - task.item.slice * SLICE_NS


def _end_ns(task: RunWriterInput, plan: TrialPlan) -> int:
    """Return where the slice ends."""
    return _phase_start_ns(task) + slice_end_ns(plan, task.item.phase, task.item.slice)
