"""Task `ConcludeRun`: a run that is over is entered in the register, announced, and makes room in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.result import RunSummary
from stepbench.contracts.run_tasks import ConcludeRunOutput
from stepbench.contracts.runs import ENDED_STATES
from stepbench.observability import put_spent
from stepbench.records.storage import layout
from stepbench.stages.partial_report import render_partial
from stepbench.stages.run_events import RUN_FAILED, RUN_SUCCEEDED, announce
from stepbench.stages.turns import leave, now

if TYPE_CHECKING:
    from stepbench.contracts.run_tasks import ConcludeRunInput
    from stepbench.contracts.runs import RunState
    from stepbench.stages.services import Services

MAX_CAUSE_CHARS = 2_000
MAX_HEADLINE_LINES = 12
GOING_ON: tuple[RunState, ...] = ("submitted", "queued", "running")


def conclude_run(task: ConcludeRunInput, services: Services) -> ConcludeRunOutput:
    """
    Close the run's entry, announce how it ended, leave the queue, and let in who waited for its targets.

    Safe to call again: what is closed stays as it is, and is announced once.

    Raises:
        RecordsUnavailableError: the register does not answer.
    """
    state = _state(task)
    run = services.register.find(task.run_id)
    if task.report is None and run is not None:
        render_partial(task.run_id, run.submitted_at, task.cause, services)
    closed = services.register.change(
        task.run_id,
        GOING_ON,
        state=state,
        finished_at=now(services),
        **_result(task, services),
    )
    if closed is not None:
        announce(RUN_SUCCEEDED if state == "succeeded" else RUN_FAILED, closed, services)
        put_spent(closed.spent_usd, closed.team, services.settings)
    return ConcludeRunOutput(state=state, admitted=leave(task.run_id, services))


def _state(task: ConcludeRunInput) -> RunState:
    if task.report is None:
        return task.state or "failed"
    status = task.report.status
    return next((state for state in ENDED_STATES if state == status), "failed")


def _result(task: ConcludeRunInput, services: Services) -> dict[str, Any]:
    """Return what the register says of a run's result: what the report says, or why there is none."""
    summary = services.runs.find_model(layout.run_key(task.run_id, "summary.json"), RunSummary)
    actual_usd = summary.cost_usd.actual if summary and summary.cost_usd else None
    if task.report is None:
        return {"cause": task.cause[:MAX_CAUSE_CHARS], "actual_usd": actual_usd}
    return {
        "cause": task.report.cause[:MAX_CAUSE_CHARS],
        "headline": task.report.headline[:MAX_HEADLINE_LINES],
        "verdict": task.report.verdict,
        "actual_usd": actual_usd,
    }
