"""Closing runs, with a register in memory."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from tests.samples.comparisons import run
from tests.samples.services import MemoryServices, fail
from tests.unit.stages.test_await_turn import Aws, arrive, queue, state_of

from stepbench.contracts.cost import RunCost
from stepbench.contracts.run_tasks import ConcludeRunInput, RenderReportOutput
from stepbench.contracts.runs import RunRequest
from stepbench.records.storage import layout
from stepbench.stages.conclude_run import MAX_HEADLINE_LINES, conclude_run


def report(run_id: str, **fields: Any) -> RenderReportOutput:  # noqa: ANN401 -- the output's fields
    """Return what RenderReport says of a run that went well."""
    known = {
        "status": "succeeded",
        "verdict": "passed",
        "failed_trials": (),
        "cause": "",
        "headline": ("s3: p50 4 ms",),
    }
    return RenderReportOutput.model_validate(
        {"run_id": run_id, "report": "s3://r", "summary": "s3://s", **known, **fields}
    )


def test_a_run_that_is_over_is_entered_announced_and_makes_room() -> None:
    """The next in the queue begins with its end, and not at somebody's next look."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    arrive(memory, "second", 2)
    output = conclude_run(ConcludeRunInput(run_id="first", report=report("first")), memory.services)
    assert (output.state, output.admitted, aws.told) == ("succeeded", ("second",), ["first's", "second's"])
    assert aws.events == ["RunStarted", "RunSucceeded", "RunStarted"]
    closed = memory.register.find("first")
    assert closed is not None
    assert (closed.state, closed.headline, closed.verdict, closed.finished_at is None) == (
        "succeeded",
        ("s3: p50 4 ms",),
        "passed",
        False,
    )


def test_what_was_counted_is_shown_and_what_may_have_been_spent_is_charged() -> None:
    """A cost that is known in part would give the rest back to the month's budget."""
    memory, _ = queue()
    arrive(memory, "first", 1)
    cost = RunCost(estimate=9, actual=1, charged=3)
    memory.services.runs.put_model(layout.run_key("first", "summary.json"), run().model_copy(update={"cost_usd": cost}))
    conclude_run(ConcludeRunInput(run_id="first", report=report("first")), memory.services)
    closed = memory.register.find("first")
    assert closed is not None
    assert (closed.actual_usd, closed.spent_usd) == (1, 3)


def test_asked_again_it_changes_and_announces_nothing() -> None:
    """The sweeper and the machine may both find that a run is over."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    conclude_run(ConcludeRunInput(run_id="first", report=report("first")), memory.services)
    output = conclude_run(ConcludeRunInput(run_id="first", state="failed", cause="late"), memory.services)
    assert (output.admitted, state_of(memory, "first"), aws.events) == ((), "succeeded", ["RunStarted", "RunSucceeded"])


def test_what_broke_off_before_the_run_was_closed_is_announced_by_the_next_call() -> None:
    """Once it is closed nobody asks again: a regression would be found, and nobody told."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    change, memory.register.change = memory.register.change, fail  # type: ignore[method-assign]
    worse = ("s3: p50 is 1.3 times as long",)
    with pytest.raises(EndpointConnectionError):
        suspicious(memory, "first", confirm=True, regressions=worse)
    memory.register.change = change  # type: ignore[method-assign]
    suspicious(memory, "first", confirm=True, regressions=worse)
    assert {"RunSucceeded", "RegressionDetected"} <= set(aws.events)
    assert (state_of(memory, "first"), list(aws.started)) == ("succeeded", ["first-confirm"])


def test_a_run_that_was_stopped_in_the_queue_leaves_it() -> None:
    """Who waits behind it moves up; who runs goes on."""
    memory, aws = queue()
    for second, run_id in enumerate(("first", "second", "third"), 1):
        arrive(memory, run_id, second)
    conclude_run(ConcludeRunInput(run_id="second", state="stopped", cause="stopped by b"), memory.services)
    assert [entry.run_id for entry in memory.register.queue()] == ["first", "third"]
    assert (state_of(memory, "second"), aws.events) == ("stopped", ["RunStarted", "RunFailed"])


def test_the_register_holds_only_the_beginning_of_a_long_headline() -> None:
    """An item of the table takes 400 KB, and a list of runs shows 50 of them."""
    memory, _ = queue()
    arrive(memory, "first", 1)
    lines = tuple(f"line {number}" for number in range(100))
    conclude_run(ConcludeRunInput(run_id="first", report=report("first", headline=lines)), memory.services)
    closed = memory.register.find("first")
    assert closed is not None
    assert len(closed.headline) == MAX_HEADLINE_LINES


def test_an_unknown_run_is_no_mistake() -> None:
    """The sweeper concludes what it finds; runs of an older version are in no register."""
    memory, aws = queue(Aws())
    assert conclude_run(ConcludeRunInput(run_id="old", state="failed"), memory.services).state == "failed"
    assert aws.events == []


NIGHTLY = RunRequest(plan="nightly", source="schedule", scheduled="arn night")


def suspicious(
    memory: MemoryServices,
    run_id: str,
    request: RunRequest = NIGHTLY,
    **fields: Any,  # noqa: ANN401 -- the output's
) -> None:
    """Conclude a run whose report has something to say of the runs before it."""
    memory.services.runs.put_model(layout.run_key(run_id, "request.json"), request)
    task = ConcludeRunInput(run_id=run_id, machine_arn="machine", report=report(run_id, **fields))
    conclude_run(task, memory.services)


def test_a_suspected_regression_is_confirmed_by_one_further_run_before_anybody_is_told() -> None:
    """It is the same request, and says which run it confirms; asked again, it is the same execution."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    suspicious(memory, "first", confirm=True)
    ((name, document),) = aws.started.items()
    request = RunRequest.model_validate_json(document)
    assert (name, request.confirms, request.plan, request.source) == ("first-confirm", "first", "nightly", "schedule")
    assert not request.scheduled  # that time has its run
    assert "RegressionDetected" not in aws.events


def test_a_run_that_confirms_is_not_confirmed_itself() -> None:
    """At most one further run for each that was asked for: a store that got worse must not double its bill."""
    memory, aws = queue()
    arrive(memory, "second", 1)
    memory.register.change("second", ("running",), confirms="first")
    suspicious(memory, "second", confirm=True)
    assert aws.started == {}


def test_a_plan_whose_addresses_were_signed_is_not_run_again() -> None:
    """Their queries are stored nowhere, and without them the further run would fail."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    signed = RunRequest(plan={"name": "nightly", "source": "https://h/f?(hidden)"}, source="schedule")
    suspicious(memory, "first", signed, confirm=True)
    assert aws.started == {}


def test_a_confirmed_regression_is_entered_and_announced_once() -> None:
    """The event carries what got worse, in words."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    for _ in range(2):
        suspicious(memory, "first", regressions=("s3: p50 is 1.3 times as long",))
    run = memory.register.find("first")
    assert run is not None
    assert run.regressed == ("s3: p50 is 1.3 times as long",)
    assert aws.events.count("RegressionDetected") == 1
