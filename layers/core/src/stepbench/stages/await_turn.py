"""
Task `AwaitTurn`: a run joins the queue before it creates anything, and goes on once its targets are free.

Runs take turns at their targets: a run that may begin is notified, and one that has ended makes room (`leave`). What
becomes of them is announced on EventBridge's default bus: other systems act on it without asking.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.contracts.runs import DEFAULT_TEAM, MAX_TARGETS, WAITING_STATES, AwaitTurnOutput, QueueEntry
from stepbench.drivers.registry import lease_target
from stepbench.errors import PlanError, Problem, RecordsUnavailableError, RunEndedError
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.runs import AwaitTurnInput, RunRecord
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
ONE_RUN = "stack#one-run"
"""A target that all runs have in common where the stack runs one at a time."""


def await_turn(task: AwaitTurnInput, services: Services) -> AwaitTurnOutput:
    """
    Join the queue, and go on at once if the run is the first at all its targets.

    Safe to call again with another token.

    Raises:
        PlanError: the run has more targets than can be taken at once.
        RunEndedError: it was stopped, or closed, before it could join.
        RecordsUnavailableError: the register does not answer.
    """
    run = services.register.find(task.run_id)
    entry = QueueEntry(
        run_id=task.run_id,
        team=run.team if run else DEFAULT_TEAM,
        plan=run.plan if run else "",
        targets=_targets(task, services),
        arrived_at=task.started_at,
        expected_s=run.expected_s if run else 0.0,
        execution_arn=task.execution_arn,
    )
    if not services.register.join(entry, task.token, services.now()):
        message = f"run {task.run_id} is {run.state if run else 'in no register'}, and does not join the queue any more"
        raise RunEndedError(message)
    let_in(entry.targets, services)
    current = services.register.entry(task.run_id)
    return AwaitTurnOutput(admitted=current is not None and current.admitted_at is not None)


def _targets(task: AwaitTurnInput, services: Services) -> tuple[str, ...]:
    """Return what the run's trials lease, each once, in order of their names."""
    targets = {ONE_RUN} if services.settings.one_run_at_a_time else set()
    for index in range(task.trials):
        ref = TrialRef(run_id=task.run_id, trial=index, tag=trial_tag(task.run_id, index))
        spec = services.runs.get_model(layout.trial_key(ref, "trial.json"), TrialSpec)
        targets.add(lease_target(spec, services.settings))
    if len(targets) > MAX_TARGETS:
        message = f"have {len(targets)} different targets, and one run takes {MAX_TARGETS} at most"
        raise PlanError([Problem("trials", str(task.trials), message, "Split the plan.")])
    return tuple(sorted(targets))


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
