"""Closing runs, with a register in memory."""

from __future__ import annotations

from typing import Any

from tests.unit.stages.test_await_turn import Aws, arrive, queue, state_of

from stepbench.contracts.run_tasks import ConcludeRunInput, RenderReportOutput
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
    run = memory.register.find("first")
    assert run is not None
    assert (run.state, run.headline, run.verdict, run.finished_at is None) == (
        "succeeded",
        ("s3: p50 4 ms",),
        "passed",
        False,
    )


def test_asked_again_it_changes_and_announces_nothing() -> None:
    """The sweeper and the machine may both find that a run is over."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    conclude_run(ConcludeRunInput(run_id="first", report=report("first")), memory.services)
    output = conclude_run(ConcludeRunInput(run_id="first", state="failed", cause="late"), memory.services)
    assert (output.admitted, state_of(memory, "first"), aws.events) == ((), "succeeded", ["RunStarted", "RunSucceeded"])


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
    run = memory.register.find("first")
    assert run is not None
    assert len(run.headline) == MAX_HEADLINE_LINES


def test_an_unknown_run_is_no_mistake() -> None:
    """The sweeper concludes what it finds; runs of an older version are in no register."""
    memory, aws = queue(Aws())
    assert conclude_run(ConcludeRunInput(run_id="old", state="failed"), memory.services).state == "failed"
    assert aws.events == []
