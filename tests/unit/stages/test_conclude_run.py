"""Closing runs, with a register in memory."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError
from tests.samples.comparisons import run
from tests.samples.services import MemoryServices, fail, small_plan, stored_trial
from tests.unit.stages.test_await_turn import Aws, arrive, queue, state_of

from stepbench.contracts.cost import RunCost
from stepbench.contracts.plan import Plan
from stepbench.contracts.runs import ConcludeRunInput, RenderReportOutput, RunRecord, RunRequest
from stepbench.records.storage import layout
from stepbench.services import LONG_CALLS
from stepbench.stages.conclude_run import LOGS_LIMIT_S, MAX_HEADLINE_LINES, conclude_run, render_partial

if TYPE_CHECKING:
    from collections.abc import Callable


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


STARTED = datetime.fromisoformat("2026-01-02T03:04:05Z")


def cut_short_run(run_id: str, started_at: datetime | None = STARTED) -> RunRecord:
    """Return a run's entry."""
    return RunRecord(run_id=run_id, team="a", plan="p", state="running", submitted_at=STARTED, started_at=started_at)


class Functions:
    """The stack's functions note their calls; CollectLogs answers with what `logs` makes of the token."""

    def __init__(self, logs: Callable[[str], dict[str, Any]]) -> None:
        self.logs = logs
        self.called: list[str] = []
        self.tasks: list[dict[str, Any]] = []

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Answer as Lambda does."""
        name, task = FunctionName.removeprefix("stack-"), json.loads(Payload)
        self.called.append(name)
        self.tasks.append(task)
        body = self.logs(task["token"]) if name == "CollectLogs" else {}
        failed = {"FunctionError": "Unhandled"} if "errorType" in body else {}
        return {"Payload": io.BytesIO(json.dumps(body).encode()), **failed}


def stopped(logs: Callable[[str], dict[str, Any]], *, offered: bool = True) -> tuple[Functions, int]:
    """Render a run whose only trial was cut short: the functions, and how many seconds it took."""
    functions = Functions(logs)
    memory = MemoryServices(aws={LONG_CALLS: functions}, function_prefix="stack")
    plan = small_plan("s3")
    ref = stored_trial(memory.services, plan)
    memory.services.runs.put_model(layout.run_key(ref.run_id, "plan.json"), Plan(name="p", trials=(plan,)))
    if offered:
        memory.services.table.mark_started(ref.tag, layout.attempt_id(0, 0, 0, 0))
    before_ns = memory.services.clock.now_ns()
    render_partial(cut_short_run(ref.run_id), "stopped", memory.services)
    return functions, (memory.services.clock.now_ns() - before_ns) // 10**9


def test_logs_are_collected_page_by_page_before_the_analysis() -> None:
    """The machine does it, too; otherwise every stopped run would say that its logs are missing."""
    pages = {"": {"done": False, "token": "a"}, "a": {"done": False, "token": "b"}, "b": {"done": True, "token": ""}}
    functions, _ = stopped(lambda token: pages[token])
    assert functions.called == ["CollectLogs", "CollectLogs", "CollectLogs", "AnalyseTrial", "RenderReport"]


def test_late_logs_are_not_waited_for() -> None:
    """CloudWatch may take five minutes, and somebody has pressed Ctrl-C."""
    functions, seconds = stopped(lambda _token: {"done": False, "token": "x"})
    assert (functions.called[-2:], seconds) == (["AnalyseTrial", "RenderReport"], LOGS_LIMIT_S)


def test_logs_that_cannot_be_read_cost_the_report_nothing_else() -> None:
    """The failure is told in the function's log."""
    functions, _ = stopped(lambda _token: {"errorType": "RecordsUnavailableError"})
    assert functions.called == ["CollectLogs", "AnalyseTrial", "RenderReport"]


def test_the_report_says_that_the_run_was_stopped_and_which_trial_was_cut_short() -> None:
    """So it differs from one of which a trial failed by itself."""
    functions, _ = stopped(lambda _token: {"done": True, "token": ""})
    task = functions.tasks[-1]
    assert (task["stopped"], task["outcomes"]) == (True, [{"trial": 0, "error": "TrialCancelledError"}])


def test_a_trial_that_offered_nothing_is_not_analysed() -> None:
    """There is nothing to analyse; the report names it."""
    functions, _ = stopped(lambda _token: {}, offered=False)
    assert functions.called == ["RenderReport"]


def test_a_run_with_a_report_keeps_it() -> None:
    """What the machine rendered is whole; this would be a part of it."""
    functions = Functions(lambda _token: {})
    memory = MemoryServices(aws={LONG_CALLS: functions}, function_prefix="stack")
    plan = small_plan("s3")
    memory.services.runs.put_model(layout.run_key("run-1", "plan.json"), Plan(name="p", trials=(plan,)))
    memory.services.runs.put_json(layout.run_key("run-1", "summary.json"), {})
    render_partial(cut_short_run("run-1"), "stopped", memory.services)
    render_partial(cut_short_run("never-planned"), "stopped", memory.services)
    assert functions.called == []


def test_a_run_that_never_began_has_no_report() -> None:
    """It was stopped in the queue: an empty report would say that something had been measured."""
    functions = Functions(lambda _token: {})
    memory = MemoryServices(aws={LONG_CALLS: functions}, function_prefix="stack")
    memory.services.runs.put_model(layout.run_key("run-1", "plan.json"), Plan(name="p", trials=(small_plan("s3"),)))
    render_partial(cut_short_run("run-1", started_at=None), "stopped", memory.services)
    assert functions.called == []


def test_a_function_that_cannot_be_called_keeps_no_run_from_being_closed() -> None:
    """The register has to say that the run is over, with a report or without one."""

    class Away:
        def invoke(self, **_: object) -> None:
            raise EndpointConnectionError(endpoint_url="http://away")

    memory = MemoryServices(aws={LONG_CALLS: Away()}, function_prefix="stack")
    plan = small_plan("s3")
    ref = stored_trial(memory.services, plan)
    memory.services.runs.put_model(layout.run_key(ref.run_id, "plan.json"), Plan(name="p", trials=(plan,)))
    render_partial(cut_short_run(ref.run_id), "stopped", memory.services)
