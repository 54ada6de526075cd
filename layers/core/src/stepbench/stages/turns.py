"""
Runs take turns at their targets, and what becomes of them is announced.

A run that may begin is notified, and one that has ended makes room (`leave`). Events go to EventBridge's default bus:
other systems act on it without asking.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.runs import WAITING_STATES, QueueEntry
from stepbench.errors import RecordsUnavailableError
from stepbench.observability import logger
from stepbench.records.storage.run_store import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.runs import RunRecord
    from stepbench.services import Services
    from stepbench.settings import Settings

SOURCE = "stepbench"
RUN_STARTED, RUN_SUCCEEDED, RUN_FAILED = "RunStarted", "RunSucceeded", "RunFailed"
REGRESSION_DETECTED = "RegressionDetected"
_FIELDS = {
    "run_id", "team", "source", "plan", "state", "verdict", "headline", "cause", "regressed", "estimate_usd",
    "actual_usd",
}  # fmt: skip
_NO_LONGER_WAITING = frozenset({"TaskDoesNotExist", "TaskTimedOut", "InvalidToken"})
_TRIES = 20
"""How often a change is tried again where somebody else was quicker."""
_BUSY = f"queue of runs: {{}} {{}} was changed by others {_TRIES} times while it was read; try again"


def let_in(targets: Iterable[str], services: Services) -> tuple[str, ...]:
    """
    Let the runs begin whose turn has come at one of these targets; return their ids.

    A run begins once it is the first at all its targets: a run that waits holds back all behind it that share one of
    them, so that none waits for ever. Whoever joins or leaves the queue calls this for the targets concerned, after
    that; of two calls at once, each run is let in by one. Where a call broke off between giving a run its targets and
    notifying its execution, the next call at one of these targets does, at the latest the broken one's retry.
    """
    found = (_let_in_first(target, services) for target in targets)
    return tuple(dict.fromkeys(run_id for run_id in found if run_id is not None))


def leave(run_id: str, services: Services) -> tuple[str, ...]:
    """
    Take a run out of the queue, whether it waits or has its targets; return who begins in its place.

    A call that breaks off is made up for by the next one: the run's entry is forgotten last.
    """
    for _ in range(_TRIES):
        entry = services.register.entry(run_id)
        if entry is None:
            return ()
        if entry.left_at or services.register.release(entry, services.now()):
            admitted = let_in(entry.targets, services)
            services.register.forget(entry)
            return admitted
    message = _BUSY.format("run", run_id)
    raise RecordsUnavailableError(message)


def execution_arn(run_id: str, settings: Settings) -> str:
    """Return the ARN that the execution of a run has."""
    return f"{settings.benchmark_arn.replace(':stateMachine:', ':execution:')}:{run_id}"


def _let_in_first(target: str, services: Services) -> str | None:
    """Let in the first in a target's line, if it is the first in all of its lines; return it if this call did so."""
    register = services.register
    for _ in range(_TRIES):
        first = register.first(target)
        if first is None:
            return None
        entry = register.entry(first.run_id)
        if first.has_it:
            _resume(first.run_id, services)
            return None
        if entry is None:
            continue  # it has just left
        if any(not _is_first(entry, other, services) for other in entry.targets):
            return None  # who leaves that target comes back to it
        if register.admit(entry, services.now()):
            _resume(entry.run_id, services)
            return entry.run_id
    message = _BUSY.format("the line at", target)
    raise RecordsUnavailableError(message)


def _is_first(entry: QueueEntry, target: str, services: Services) -> bool:
    first = services.register.first(target)
    return first is not None and first.run_id == entry.run_id


def _resume(run_id: str, services: Services) -> None:
    """
    Let an execution go on whose run has its targets, unless it was notified; and note that it does.

    An execution that no longer waits was notified by a call that broke off before it noted so, or has ended: then the
    sweeper takes its run out of the queue.
    """
    turn = services.register.turn(run_id)
    if turn is None or turn.resumed:
        return
    changed = services.register.change(run_id, WAITING_STATES, state="running", started_at=services.now())
    try:
        services.aws("stepfunctions").send_task_success(taskToken=turn.token, output=json.dumps({"run_id": run_id}))
    except (BotoCoreError, ClientError) as error:
        if not isinstance(error, ClientError) or error.response["Error"]["Code"] not in _NO_LONGER_WAITING:
            message = f"run {run_id} has its targets, and its execution could not be notified: {error}"
            raise unavailable(message, error) from error  # both states that get here try again
        logger.warning("the execution waits no longer", extra={"run_id": run_id})
    services.register.mark_resumed(run_id, turn.token)
    if changed is not None:
        announce(RUN_STARTED, changed, services)


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
