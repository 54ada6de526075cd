"""Task `ConcludeRun`: a run that is over is entered in the register, announced, and makes room in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.result import RunSummary
from stepbench.contracts.run_tasks import ConcludeRunOutput
from stepbench.contracts.runs import ENDED_STATES, MAX_CAUSE_CHARS, RunRecord, RunRequest
from stepbench.errors import has_query
from stepbench.observability import logger, put_spent
from stepbench.records.storage import layout
from stepbench.stages.partial_report import render_partial
from stepbench.stages.run_events import REGRESSION_DETECTED, RUN_FAILED, RUN_SUCCEEDED, announce
from stepbench.stages.turns import leave

if TYPE_CHECKING:
    from stepbench.contracts.run_tasks import ConcludeRunInput
    from stepbench.contracts.runs import RunState
    from stepbench.services import Services

CONFIRMING = "-confirm"
MAX_NAME = 80
"""Of an execution."""
MAX_HEADLINE_LINES = 12
GOING_ON: tuple[RunState, ...] = ("submitted", "queued", "running")


def conclude_run(task: ConcludeRunInput, services: Services) -> ConcludeRunOutput:
    """
    Announce how the run ended, close its entry, leave the queue, and let in who waited for its targets.

    Safe to call again: what is closed stays as it is, and is announced no more. A call that breaks off before it has
    closed the entry is made up for by the next one, so that what is announced may be so twice, and is never lost.

    Raises:
        RecordsUnavailableError: the register does not answer.
    """
    state = _state(task)
    run = services.register.find(task.run_id)
    if run is not None and not run.ended:
        if task.report is None:
            render_partial(run, task.cause, services)
        changes = {"state": state, "finished_at": services.now(), **_result(task, services)}
        ended = RunRecord.model_validate({**run.model_dump(), **changes})
        announce(RUN_SUCCEEDED if state == "succeeded" else RUN_FAILED, ended, services)
        _announce_regressions(task, ended, services)
        closed = services.register.change(task.run_id, GOING_ON, **changes)
        if closed is not None:
            put_spent(closed.spent_usd, closed.team, services.settings)
    return ConcludeRunOutput(state=state, admitted=leave(task.run_id, services))


def _announce_regressions(task: ConcludeRunInput, run: RunRecord, services: Services) -> None:
    """Announce what got worse, but for suspicions that no further run has confirmed yet."""
    if task.report is None:
        return
    if run.regressed:
        announce(REGRESSION_DETECTED, run, services)
    request = services.runs.find_model(layout.run_key(run.run_id, "request.json"), RunRequest)
    if not task.report.confirm or run.confirms or request is None:
        return
    if has_query(request.model_dump_json()):  # stored without the queries of its addresses
        logger.warning("a plan with signed addresses is not run again by itself", extra={"run_id": run.run_id})
        return
    name = f"{run.run_id[: MAX_NAME - len(CONFIRMING)]}{CONFIRMING}"
    document = request.model_copy(update={"confirms": run.run_id, "scheduled": ""}).model_dump_json(
        exclude_defaults=True
    )
    try:
        services.aws("stepfunctions").start_execution(stateMachineArn=task.machine_arn, name=name, input=document)
    except (BotoCoreError, ClientError):  # the next scheduled run confirms it as well; this one has to leave the queue
        logger.exception("a confirming run could not be started", extra={"run_id": run.run_id})


def _state(task: ConcludeRunInput) -> RunState:
    if task.report is None:
        return task.state or "failed"
    status = task.report.status
    return next((state for state in ENDED_STATES if state == status), "failed")


def _result(task: ConcludeRunInput, services: Services) -> dict[str, Any]:
    """Return what the register says of a run's result: what the report says, or why there is none."""
    summary = services.runs.find_model(layout.run_key(task.run_id, "summary.json"), RunSummary)
    cost = summary.cost_usd if summary else None
    spent = {"actual_usd": cost.actual, "charged_usd": cost.charged} if cost else {}
    if task.report is None:
        return {"cause": task.cause[:MAX_CAUSE_CHARS], **spent}
    return {
        "cause": task.report.cause[:MAX_CAUSE_CHARS],
        "headline": task.report.headline[:MAX_HEADLINE_LINES],
        "verdict": task.report.verdict,
        "regressed": task.report.regressions,
        **spent,
    }
