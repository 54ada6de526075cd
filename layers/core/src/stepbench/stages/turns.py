"""Runs take turns at their targets: who may begin is told so, and who is over makes room."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from stepbench.contracts.runs import WAITING_STATES
from stepbench.observability import logger
from stepbench.planning.queue import whose_turn
from stepbench.stages.run_events import RUN_STARTED, announce

if TYPE_CHECKING:
    from stepbench.contracts.runs import QueueEntry
    from stepbench.stages.services import Services

_NO_LONGER_WAITING = frozenset({"TaskDoesNotExist", "TaskTimedOut", "InvalidToken"})


def let_in(services: Services) -> tuple[str, ...]:
    """
    Let every run begin whose turn has come; return their ids.

    Anybody may call this at any time: it is called whenever a run joins or leaves the queue, and by the sweeper. Of two
    calls at once, each run is let in by one; and where a call broke off between taking a run's targets and telling its
    execution, the next one tells it.
    """
    admitted: list[str] = []
    while True:
        entries = services.register.queue()
        for entry in entries:
            if entry.admitted_at and not entry.resumed:
                _resume(entry, services)
        now = _now(services)
        taken = [entry.run_id for entry in whose_turn(entries) if services.register.admit(entry, now)]
        admitted.extend(taken)
        if not taken:
            return tuple(admitted)


def leave(run_id: str, services: Services) -> None:
    """Take a run out of the queue, whether it waits or has its targets."""
    while True:
        found = next((entry for entry in services.register.queue() if entry.run_id == run_id), None)
        if found is None or services.register.leave(found):
            return


def _resume(entry: QueueEntry, services: Services) -> None:
    """
    Let an execution go on, and note that it does.

    An execution that no longer waits has been told by a call that broke off before it noted so, or has ended: then the
    sweeper takes its run out of the queue.
    """
    changed = services.register.change(entry.run_id, WAITING_STATES, state="running", started_at=_now(services))
    output = json.dumps({"run_id": entry.run_id, "admitted_at": str(entry.admitted_at)})
    try:
        services.aws("stepfunctions").send_task_success(taskToken=entry.token, output=output)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NO_LONGER_WAITING:
            raise
        logger.warning("the execution waits no longer", extra={"run_id": entry.run_id})
    services.register.mark_resumed(entry)
    if changed is not None:
        announce(RUN_STARTED, changed, services)


def _now(services: Services) -> datetime:
    return datetime.fromtimestamp(services.clock.now_ns() / 1e9, UTC)
