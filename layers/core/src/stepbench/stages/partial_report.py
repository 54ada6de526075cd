"""The report of a run that was cut short: what was recorded is analysed, and what there is is rendered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.contracts.run_tasks import RenderReportInput, TrialOutcome
from stepbench.contracts.tasks import AnalyseTrialInput, CollectLogsInput, StateError
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.services import LONG_CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.runs import RunRecord
    from stepbench.services import Services

LOGS_LIMIT_S = 20
"""No call is started after this time; one takes 5 s. Somebody may wait at the terminal."""
CUT_SHORT = "TrialCancelledError"
_POLL_S = 0.5


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
