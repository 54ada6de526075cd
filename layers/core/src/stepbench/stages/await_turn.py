"""Task `AwaitTurn`: a run joins the queue before it creates anything, and goes on once its targets are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.contracts.runs import DEFAULT_TEAM, MAX_TARGETS, AwaitTurnOutput, QueueEntry
from stepbench.drivers.registry import lease_target
from stepbench.errors import PlanError, Problem, RunEndedError
from stepbench.records.storage import layout
from stepbench.stages.turns import let_in

if TYPE_CHECKING:
    from stepbench.contracts.runs import AwaitTurnInput
    from stepbench.services import Services

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
