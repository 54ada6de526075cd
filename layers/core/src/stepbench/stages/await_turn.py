"""Task `AwaitTurn`: a run joins the queue before it creates anything, and goes on once its targets are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.contracts.run_tasks import AwaitTurnOutput
from stepbench.contracts.runs import MAX_TARGETS, WAITING_STATES, QueueEntry
from stepbench.drivers.registry import lease_target
from stepbench.errors import PlanError, Problem
from stepbench.planning.queue import ahead_of
from stepbench.records.storage import layout
from stepbench.stages.turns import leave, let_in

if TYPE_CHECKING:
    from stepbench.contracts.run_tasks import AwaitTurnInput
    from stepbench.stages.services import Services

ONE_RUN = "stack#one-run"
"""A target that all runs have in common where the stack runs one at a time."""


def await_turn(task: AwaitTurnInput, services: Services) -> AwaitTurnOutput:
    """
    Join the queue, and let in whoever's turn it is.

    Safe to call again with another token. A run that was stopped meanwhile does not stay in the queue.

    Raises:
        PlanError: the run has more targets than can be taken at once.
        RecordsUnavailableError: the register does not answer.
    """
    register = services.register
    run = register.find(task.run_id)
    entry = QueueEntry(
        run_id=task.run_id,
        team=run.team if run else "default",
        plan=run.plan if run else "",
        targets=_targets(task, services),
        arrived_at=task.started_at,
        expected_s=run.expected_s if run else 0.0,
        execution_arn=task.execution_arn,
        token=task.token,
    )
    register.join(entry)
    register.change(task.run_id, WAITING_STATES, state="queued", queued_at=task.started_at)
    current = register.find(task.run_id)
    if current is not None and current.ended:  # it was stopped while it was about to join
        leave(task.run_id, services)
    let_in(services)
    entries = register.queue()
    ahead = [found for entry in entries if entry.run_id == task.run_id for found in ahead_of(entry, entries)]
    return AwaitTurnOutput(admitted=not ahead, ahead=len(ahead))


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
