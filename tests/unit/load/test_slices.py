from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.services import small_plan
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.plan import TrialPlan, TrialRef
from stepbench.contracts.tasks import RunWriterInput, WriterItem
from stepbench.contracts.workload import Workload
from stepbench.load.recorder import OperationRecorder
from stepbench.load.slices import ClientConnections, Ends, Instruments, build_slice, most_alarms_per_s
from stepbench.load.timer import LoopTimer, spin_ns
from stepbench.model.request import Outcome, Request, Result
from stepbench.workload.choices import ClientStream
from stepbench.workload.operations import ClientOperations, Contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.model.request import PendingRequest
    from stepbench.records.formats.columns import Rows

OK = Result(1, 2, Outcome.OK)


class Step:
    """`PendingRequest` that is answered when the test says so, and may break when it is sent."""

    def __init__(self, operation: Request, *, breaks: bool = False) -> None:
        self.operation = operation
        self._breaks = breaks

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        if self._breaks:
            raise KeyError
        self.answer = done

    def abandon(self) -> None:
        """See `PendingRequest`."""


def keep(steps: list[Step], operation: Request) -> Step:
    """Keep each operation that is made."""
    steps.append(Step(operation))
    return steps[-1]


def connections(
    make: Callable[[Request], PendingRequest], clients: range = range(2)
) -> tuple[ClientConnections, OperationRecorder]:
    """Make connections for operations on ten records."""
    workload = Workload.model_validate({"mix": {"read": 1}, "records": 10})
    recorder = OperationRecorder(np.arange(20, dtype=np.int64))
    operations = ClientOperations(workload, Contents(workload, "tag"), ClientStream(0, 0, 0))
    return ClientConnections(operations, make, recorder, clients), recorder


def plan(phase: dict[str, Any], writers: int) -> TrialPlan:
    """Return a plan of one phase."""
    fields = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "writers": writers}
    return small_plan("redis", phases=[{"name": "p", **phase}], **fields)


def test_a_connection_is_free_again_once_its_operation_was_answered() -> None:
    """Those used last are used first, so that few are open."""
    steps: list[Step] = []
    made, _ = connections(partial(keep, steps))
    first = made.make(0)
    first.send(lambda _: None)
    second = made.make(1)
    second.send(lambda _: None)
    steps[1].answer(OK)
    made.make(2)
    assert [step.operation.client for step in steps] == [0, 1, 1]


@pytest.mark.parametrize("breaks", ["made", "sent"])
def test_a_driver_that_breaks_keeps_no_connection(breaks: str) -> None:
    """Against its contract; after as many of these as there are clients, all later operations would fail."""

    def make(operation: Request) -> Step:
        if breaks == "made":
            raise KeyError
        return Step(operation, breaks=True)

    made, recorder = connections(make)
    for sequence in range(6):
        with pytest.raises(KeyError):
            made.make(sequence).send(lambda _: None)
        recorder.record(sequence, Result(1, 2, Outcome.UNKNOWN, error="KeyError in the driver"))
    assert recorder.take().extras["client"].tolist() == [0] * 6


def test_what_was_answered_twice_frees_its_connection_once() -> None:
    """Against the contract, too: two operations would share it."""
    steps: list[Step] = []
    made, _ = connections(partial(keep, steps), range(1))
    told: list[Result] = []
    made.make(0).send(told.append)
    steps[0].answer(OK)
    steps[0].answer(OK)
    assert told == [OK]
    made.make(1)
    with pytest.raises(IndexError):
        made.make(2)


def test_alarms_are_counted_by_the_writer_s_part_of_the_highest_rate() -> None:
    """How long each may be waited for without sleeping depends on it."""
    load = [{"rate_per_s": 400, "duration_s": 1}, {"rate_per_s": 1_000, "duration_s": 1}]
    assert most_alarms_per_s(plan({"load": load}, writers=4), 0) == 250


def test_clients_that_pause_are_never_waited_for_without_sleeping() -> None:
    """200 with pauses of 10 ms kept the writer's thread busy, which looked like a generator at its limit."""
    closed = plan({"closed": {"clients": 200, "think_ms": 10, "duration_s": 1}}, writers=1)
    assert (most_alarms_per_s(closed, 0), spin_ns(most_alarms_per_s(closed, 0), cores=1)) == (math.inf, 0)


def test_clients_that_start_executions_record_the_numbers_of_their_identities() -> None:
    """Arrivals are found by identity, so a row under another number would be another event's."""
    clock, written = FakeClock(), list[Request]()

    class Store(MemoryDriver):
        def prepare_request(self, request: Request) -> PendingRequest:
            written.append(request)
            return super().prepare_request(request)

    phases = [{"name": "burst", "closed": {"clients": 5, "operations": 11, "duration_s": 60}}]
    plan = TrialPlan.model_validate(dataflow_trial(phases=phases, writers=2))
    ref = TrialRef(run_id="run-1", trial=0, tag="abcdefghij-0000")
    item = WriterItem(ref=ref, phase=0, writer=1, slice=0, start_at_ns=START_NS, wait_until="")

    async def run() -> Rows:
        with_ = Instruments(clock, LoopTimer(clock), Ends(5, 1), lambda: None)
        made = build_slice(RunWriterInput(item=item, attempt=2), plan, Store(clock, service_ns=[1_000_000]), with_)
        await made.engine.run()
        return made.recorder.take()

    rows = clock.run(run())
    events = [parse_event_id(write.key) for write in written]
    assert rows.sequence.tolist() == [0, 1, 2, 3]  # clients 1 and 3 of five, two each of eleven
    assert sorted(event.sequence for event in events if event) == [0, 1, 2, 3]
    assert {(event.writer, event.attempt) for event in events if event} == {(1, 2)}
