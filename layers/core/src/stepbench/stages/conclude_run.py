"""
Task `ConcludeRun`: a run that is over is entered in the register, announced, and makes room in the queue.

Of one that was cut short, what was recorded is analysed first, and the report of what there is is rendered.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.contracts.result import RunSummary
from stepbench.contracts.runs import (
    ENDED_STATES,
    MAX_CAUSE_CHARS,
    ConcludeRunOutput,
    RenderReportInput,
    RunRecord,
    RunRequest,
    TrialOutcome,
)
from stepbench.contracts.tasks import AnalyseTrialInput, CollectLogsInput, StateError
from stepbench.errors import has_query
from stepbench.observability import logger, put_spent
from stepbench.records.storage import layout
from stepbench.services import LONG_CALLS
from stepbench.stages.result_metrics import put_results
from stepbench.stages.turns import REGRESSION_DETECTED, RUN_FAILED, RUN_SUCCEEDED, announce, leave

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.runs import ConcludeRunInput, RunState
    from stepbench.services import Services

CONFIRMING = "-confirm"
MAX_NAME = 80
"""Of an execution."""
MAX_HEADLINE_LINES = 12
LOGS_LIMIT_S = 20
"""No call is started after this time; one takes 5 s. Somebody may wait at the terminal."""
CUT_SHORT = "TrialCancelledError"
_POLL_S = 0.5
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
        summary = services.runs.find_model(layout.run_key(task.run_id, "summary.json"), RunSummary)
        changes = {"state": state, "finished_at": services.now(), **_result(task, summary)}
        ended = RunRecord.model_validate({**run.model_dump(), **changes})
        announce(RUN_SUCCEEDED if state == "succeeded" else RUN_FAILED, ended, services)
        _announce_regressions(task, ended, services)
        closed = services.register.change(task.run_id, GOING_ON, **changes)
        if closed is not None:
            put_spent(closed.spent_usd, closed.team, services.settings)
            if services.settings.result_metrics and summary is not None:
                put_results(summary, services.settings)
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


def _result(task: ConcludeRunInput, summary: RunSummary | None) -> dict[str, Any]:
    """Return what the register says of a run's result: what the report says, or why there is none."""
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


def render_partial(run: RunRecord, cause: str, services: Services) -> None:
    """
    Analyse each trial that was cut short, and render the report, unless the run never began, or has a report.

    A function that fails is logged: a report that cannot be rendered keeps no run from being closed.
    """
    run_id = run.run_id
    plan = services.runs.find_model(layout.run_key(run_id, "plan.json"), Plan)
    if (
        run.started_at is None
        or plan is None
        or services.runs.find_bytes(layout.run_key(run_id, "summary.json")) is not None
    ):
        return
    refs = [TrialRef(run_id=run_id, trial=index, tag=trial_tag(run_id, index)) for index in range(plan.size)]
    cut_short = [ref for ref in refs if _was_cut_short(ref, services)]
    for ref in cut_short:
        _collect_logs(ref, services)
        task = AnalyseTrialInput(ref=ref, failure=StateError(Error=CUT_SHORT, Cause=cause))
        _call("AnalyseTrial", task.model_dump(mode="json"), services)
    outcomes = tuple(TrialOutcome(trial=ref.trial, error=CUT_SHORT if ref in cut_short else "") for ref in refs)
    report = RenderReportInput(run_id=run_id, started_at=run.submitted_at, outcomes=outcomes, stopped=True)
    _call("RenderReport", report.model_dump(mode="json"), services)


def _was_cut_short(ref: TrialRef, services: Services) -> bool:
    """Return whether a trial has offered load and left no result."""
    has_result = services.runs.find_bytes(layout.trial_key(ref, "result.json")) is not None
    return not has_result and bool(services.table.started(ref.tag))


def _collect_logs(ref: TrialRef, services: Services) -> None:
    """Collect logs as the trial machine does before it analyses, but not for minutes."""
    deadline_ns = services.clock.now_ns() + LOGS_LIMIT_S * 10**9
    token: str | None = ""
    while token is not None and services.clock.now_ns() < deadline_ns:
        answer = _call("CollectLogs", CollectLogsInput(ref=ref, token=token).model_dump(mode="json"), services)
        token = None if answer is None or answer["done"] else str(answer["token"])
        if token is not None:
            services.clock.sleep(_POLL_S)


def _call(function: str, task: Mapping[str, Any], services: Services) -> Any:  # noqa: ANN401 -- JSON
    """Invoke one of the stack's functions and wait; return None where it fails."""
    name = f"{services.settings.function_prefix}-{function}"
    try:
        answer = services.aws(LONG_CALLS).invoke(FunctionName=name, Payload=json.dumps(task).encode())
    except (BotoCoreError, ClientError):
        logger.exception("a function could not be called", extra={"function": name})
        return None
    body = json.loads(answer["Payload"].read() or b"null")
    if answer.get("FunctionError"):
        logger.error("a function failed", extra={"function": name, "error": body})
        return None
    return body
