"""What becomes of runs, on EventBridge's default bus: other systems act on it without asking."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.observability import logger

if TYPE_CHECKING:
    from stepbench.contracts.runs import RunRecord
    from stepbench.services import Services

SOURCE = "stepbench"
RUN_STARTED: Literal["RunStarted"] = "RunStarted"
RUN_SUCCEEDED: Literal["RunSucceeded"] = "RunSucceeded"
REGRESSION_DETECTED: Literal["RegressionDetected"] = "RegressionDetected"
RUN_FAILED: Literal["RunFailed"] = "RunFailed"
_FIELDS = {
    "run_id",
    "team",
    "source",
    "plan",
    "state",
    "verdict",
    "headline",
    "cause",
    "regressed",
    "estimate_usd",
    "actual_usd",
}


def announce(kind: str, run: RunRecord, services: Services) -> None:
    """Put an event on the bus; a bus that does not take it delays no run, which is logged."""
    detail = json.dumps(event_detail(run, services.settings.function_prefix))
    entry = {"Source": SOURCE, "DetailType": kind, "Detail": detail}
    try:
        answer = services.aws("events").put_events(Entries=[entry])
    except (BotoCoreError, ClientError):
        logger.exception("an event could not be put", extra={"run_id": run.run_id, "event": kind})
        return
    if answer.get("FailedEntryCount"):
        logger.error(
            "EventBridge refused an event", extra={"run_id": run.run_id, "event": kind, "why": answer["Entries"]}
        )


def event_detail(run: RunRecord, stack: str) -> dict[str, Any]:
    """Return what an event says of a run."""
    return {"stack": stack, **run.model_dump(mode="json", include=_FIELDS, exclude_none=True)}
