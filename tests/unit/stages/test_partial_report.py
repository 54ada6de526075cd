"""The report of a run that was cut short, with functions that only note that they are called."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import EndpointConnectionError
from tests.samples.services import MemoryServices, small_plan, stored_trial

from stepbench.contracts.plan import Plan
from stepbench.contracts.runs import RunRecord
from stepbench.records.storage import layout
from stepbench.services import LONG_CALLS
from stepbench.stages.partial_report import LOGS_LIMIT_S, render_partial

if TYPE_CHECKING:
    from collections.abc import Callable

STARTED = datetime.fromisoformat("2026-01-02T03:04:05Z")


def run(run_id: str, started_at: datetime | None = STARTED) -> RunRecord:
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
    render_partial(run(ref.run_id), "stopped", memory.services)
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
    render_partial(run("run-1"), "stopped", memory.services)
    render_partial(run("never-planned"), "stopped", memory.services)
    assert functions.called == []


def test_a_run_that_never_began_has_no_report() -> None:
    """It was stopped in the queue: an empty report would say that something had been measured."""
    functions = Functions(lambda _token: {})
    memory = MemoryServices(aws={LONG_CALLS: functions}, function_prefix="stack")
    memory.services.runs.put_model(layout.run_key("run-1", "plan.json"), Plan(name="p", trials=(small_plan("s3"),)))
    render_partial(run("run-1", started_at=None), "stopped", memory.services)
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
    render_partial(run(ref.run_id), "stopped", memory.services)
