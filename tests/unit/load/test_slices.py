from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.services import small_plan

from stepbench.contracts.workload import Workload
from stepbench.load.recorder import OperationRecorder
from stepbench.load.slices import ClientConnections, most_alarms_per_s
from stepbench.load.timer import spin_ns
from stepbench.model.request import Request
from stepbench.model.result import Outcome, Result
from stepbench.workload.choices import ClientStream
from stepbench.workload.operations import ClientOperations, Contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialPlan
    from stepbench.model.pending import PendingRequest

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
