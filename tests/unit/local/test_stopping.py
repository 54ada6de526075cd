"""What is done for the report of a run that was stopped, on a stack that answers as told."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from stepbench.contracts.plan import Plan
from stepbench.local.stack import StackError
from stepbench.local.stopping import LOGS_LIMIT_S, Stopping
from stepbench.planning import expand
from stepbench.records import layout
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.trials import small_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.local.executions import Executions

RUN = "run-1"


class Functions:
    """The stack's functions: calls are recorded; CollectLogs answers with what `logs` makes of the token."""

    def __init__(self, logs: Callable[[str], dict[str, Any]]) -> None:
        self.logs = logs
        self.called: list[str] = []

    def __call__(self, function: str, task: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON
        """As `Stack.call`."""
        self.called.append(function.removesuffix("Function"))
        return self.logs(task["token"]) if function == "CollectLogsFunction" else None


def stopped(logs: Callable[[str], dict[str, Any]]) -> tuple[list[str], list[str], int]:
    """Render a run whose only trial was cut short: functions called, words said, seconds taken."""
    clock = FakeClock(now_ns=0)
    memory = MemoryServices(clock)
    plan = Plan.model_validate({"name": "p", "trials": [small_plan("s3").model_dump(exclude_none=True)]})
    run = SimpleNamespace(run_id=RUN, specs=expand(plan, RUN), started_at=datetime(2026, 1, 1, tzinfo=UTC))
    functions = Functions(logs)
    stack = SimpleNamespace(runs=memory.services.runs, table=memory.services.table, call=functions)
    said: list[str] = []
    [spec] = run.specs
    memory.services.table.mark_started(spec.tag, layout.attempt_id(0, 0, 0, 0))
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack, arn="arn"))
    Stopping(executions, clock, said.append).render()
    return functions.called, said, clock.now_ns() // 10**9


def test_logs_are_collected_page_by_page_before_the_analysis() -> None:
    """As the machine does it; otherwise every stopped run would say that its logs are missing."""
    pages = {"": {"done": False, "token": "a"}, "a": {"done": False, "token": "b"}, "b": {"done": True, "token": ""}}
    called, said, _ = stopped(lambda token: pages[token])
    assert called == ["CollectLogs", "CollectLogs", "CollectLogs", "AnalyseTrial", "RenderReport"]
    assert said == []


def test_late_logs_are_not_waited_for() -> None:
    """CloudWatch may take five minutes, and somebody has pressed Ctrl-C."""
    called, _, seconds = stopped(lambda _token: {"done": False, "token": "x"})
    assert called[-2:] == ["AnalyseTrial", "RenderReport"]
    assert seconds == LOGS_LIMIT_S


def test_logs_that_cannot_be_read_cost_the_report_nothing_else() -> None:
    """Said, and passed over."""
    error = StackError("CollectLogsFunction: RecordsUnavailableError: no logs")

    def fails(_token: str) -> dict[str, Any]:
        raise error

    called, said, _ = stopped(fails)
    assert called == ["CollectLogs", "AnalyseTrial", "RenderReport"]
    assert said == [f"the report has no logs: {error}"]
