"""
What a writer offers in one slice, put together: writes or operations, at a schedule's times or by waiting clients.

The engines know neither stores nor plans; here is where the two meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from stepbench.contracts.identity import EventId
from stepbench.load.arrivals import SLICE_NS, slice_end_ns, slice_offsets_ns
from stepbench.load.closed_loop import Bounds, Client, ClosedLoop, Offer
from stepbench.load.growing_recorder import GrowingRecorder
from stepbench.load.making import operation_maker, write_maker
from stepbench.load.open_loop import Limits, OpenLoop
from stepbench.load.operations import ClientOperations, Contents
from stepbench.load.payloads import Payloads
from stepbench.load.recorder import OperationRecorder, Recorder
from stepbench.load.thinking import think_times_ns
from stepbench.load.workload import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.closed_load import ClosedLoad
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.tasks import RunWriterInput
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.protocol import Answer, Driver, Made, Operable, Operated, Operation
    from stepbench.load.timer import Timer

PREPARED = 1_000_000
"""Choices made before the clock starts, in some 0.3 s and 20 MB; what comes after them is made as it is reached."""
FASTEST_S = 20e-6
"""No client has an answer sooner, so that so many choices are enough."""
_SECOND_NS = 1_000_000_000


class Ends(NamedTuple):
    """How long answers are awaited, and how long after the slice's end a queued event may still be started."""

    drain_s: float
    grace_s: float


class Instruments(NamedTuple):
    """What a slice is offered with. full: called when so many rows wait that they should be flushed now."""

    clock: Clock
    timer: Timer
    ends: Ends
    full: Callable[[], None]


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


def build_slice(task: RunWriterInput, plan: TrialPlan, driver: Driver | Operable, with_: Instruments) -> Slice:
    """
    The slice of a task; all that can be worked out beforehand has been.

    A first attempt at open loop accounts for what it came too late for; of a later one's, an earlier attempt may have
    sent some. A later attempt at closed loop begins now, with operations of its own.
    """
    closed = plan.phases[task.item.phase].closed
    if closed is not None:
        return _closed(task, plan, closed, cast("Operable", driver), with_)
    due_ns = slice_offsets_ns(plan, task.item.phase, task.item.writer, task.item.slice) + _phase_start_ns(task)
    late = int(np.searchsorted(due_ns, with_.clock.now_ns()))
    skipped = late if task.attempt else 0
    recorder: Recorder
    if plan.workload is None:
        recorder = Recorder(due_ns[skipped:], skipped)
        make = _writes(task, plan, cast("Driver", driver), due_ns.size, with_.clock)
    else:
        recorder = OperationRecorder(due_ns[skipped:], skipped)
        operations = _operations(task, plan.workload, task.item.writer, due_ns.size, first=skipped)
        make_operation = operation_maker(cast("Operable", driver), with_.clock)
        make = Connections(operations, make_operation, recorder, _client_numbers(task, plan)).make
    limits = Limits(
        max_in_flight=plan.max_in_flight,
        send_until_ns=_end_ns(task, plan) + round(with_.ends.grace_s * _SECOND_NS),
        drain_s=with_.ends.drain_s,
    )
    engine = OpenLoop(make, with_.clock, with_.timer, recorder, limits=limits, first_row=late - skipped)
    return Slice(engine, recorder)


def most_rows(plan: TrialPlan, phase: int, slice_: int) -> int:
    """How many operations one attempt of a writer may offer in a slice of closed loop."""
    begin_s = slice_ * SLICE_NS / _SECOND_NS
    return max(1, plan.kept_operations(slice_end_ns(plan, phase, slice_) / _SECOND_NS - begin_s) // plan.writers)


def most_alarms_per_s(plan: TrialPlan, phase: int) -> float:
    """How often a writer's timer may go off: in open loop; clients that pause have theirs at any time, so infinite."""
    return max((step.rate_per_s / plan.writers for step in plan.phases[phase].steps), default=math.inf)


def _writes(
    task: RunWriterInput, plan: TrialPlan, driver: Driver, events: int, clock: Clock
) -> Callable[[int], Made[Answer]]:
    item = task.item
    event = EventId(item.ref.tag, item.phase, item.writer, item.slice, task.attempt, 0)
    make, payload = write_maker(driver, clock), Payloads(plan.record, event, events, plan.seed).write
    return lambda sequence: make(payload(sequence))


def _closed(task: RunWriterInput, plan: TrialPlan, load: ClosedLoad, driver: Operable, with_: Instruments) -> Slice:
    item, workload = task.item, cast("Workload", plan.workload)
    contents = Contents(workload, item.ref.tag)
    numbers = range(item.writer, load.clients, plan.writers)
    slice_s = (_end_ns(task, plan) - item.start_at_ns) / _SECOND_NS
    possible = int(slice_s / (load.think_ms / 1e3 + FASTEST_S)) + 1
    make_operation = operation_maker(driver, with_.clock)

    def client(number: int) -> Client:
        own = load.operations_of(number)
        stream = Stream(item.phase, item.slice, number, task.attempt)
        operations = ClientOperations(workload, contents, stream)
        operations.prepare(min(possible, PREPARED // len(numbers), possible if own is None else own))
        seed = (plan.seed, item.phase, item.slice, task.attempt, number)
        pauses_ns = think_times_ns(load.think_ms / 1e3, load.think, seed)

        def make(sequence: int) -> Offer:
            operation = operations.at(sequence)
            return Offer(operation.kind, make_operation(operation))

        return Client(number, make, pauses_ns, own)

    recorder = GrowingRecorder(full=with_.full)
    most = most_rows(plan, item.phase, item.slice)
    bounds = Bounds(item.start_at_ns, _end_ns(task, plan), with_.ends.drain_s, most)
    clients = [client(number) for number in numbers]
    return Slice(ClosedLoop(clients, with_.clock, with_.timer, recorder, bounds), recorder)


def _operations(
    task: RunWriterInput, workload: Workload, client: int, operations: int, first: int = 0
) -> ClientOperations:
    stream = Stream(task.item.phase, task.item.slice, client)
    made = ClientOperations(workload, Contents(workload, task.item.ref.tag), stream, first)
    made.prepare(min(operations, first + PREPARED))
    return made


def _client_numbers(task: RunWriterInput, plan: TrialPlan) -> list[int]:
    """A writer has as many clients as may be in flight, numbered as in closed loop."""
    return [task.item.writer + place * plan.writers for place in range(plan.max_in_flight)]


class Connections:
    """
    Operations in open loop, each on the connection of a client that has none under way; those used last are used first.

    make_operation: how the driver's are made. clients: whose connections there are, as many as may be in flight.
    """

    def __init__(
        self,
        operations: ClientOperations,
        make_operation: Callable[[Operation], Made[Operated]],
        recorder: OperationRecorder,
        clients: Sequence[int],
    ) -> None:
        self._operations = operations
        self._make = make_operation
        self._recorder = recorder
        self._free = list(reversed(clients))

    def make(self, sequence: int) -> Made[Operated]:
        """The operation with this number."""
        client = self._free.pop()
        operation = self._operations.at(sequence, client)
        begin = partial(self._recorder.begin, sequence, operation.kind, client)
        try:
            made = self._make(operation)
        except Exception:
            begin()
            self._free.append(client)
            raise
        return _Lent(made, begin, partial(self._free.append, client))


class _Lent:
    """`Made`, on a connection that is given back with the answer."""

    __slots__ = ("_begin", "_done", "_give_back", "_made")

    def __init__(self, made: Made[Operated], begin: Callable[[], None], give_back: Callable[[], None]) -> None:
        self._made = made
        self._begin = begin
        self._give_back = give_back

    def send(self, done: Callable[[Operated], None]) -> None:
        self._begin()
        self._done: Callable[[Operated], None] | None = done
        try:
            self._made.send(self._ended)
        except Exception:
            if self._done is not None:
                self._done = None
                self._give_back()
            raise

    def abandon(self) -> None:
        self._made.abandon()

    def _ended(self, operated: Operated) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._give_back()
            done(operated)


def _phase_start_ns(task: RunWriterInput) -> int:
    return task.item.start_at_ns - task.item.slice * SLICE_NS


def _end_ns(task: RunWriterInput, plan: TrialPlan) -> int:
    """Where the slice ends."""
    return _phase_start_ns(task) + slice_end_ns(plan, task.item.phase, task.item.slice)
