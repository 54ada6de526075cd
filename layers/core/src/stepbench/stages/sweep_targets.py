"""Entry point `SweepTargets`: finish what executions could not, and close their runs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.contracts.runs import ConcludeRunInput, SweepTargetsInput, SweepTargetsOutput
from stepbench.errors import StepbenchError, TargetBusyError, shortened
from stepbench.observability import TARGETS_PENDING, TARGETS_SWEPT, logger, put_metric
from stepbench.records.storage import layout
from stepbench.stages.leftovers import ABORTED, CAUSE_CHARS, GONE, RUNNING, cancel, execution_status, finish, is_over
from stepbench.stages.orphaned_copies import remove_orphaned_copies
from stepbench.stages.turns import execution_arn

if TYPE_CHECKING:
    from stepbench.records.storage.trial_table import Lease
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver

SWEEP_LIMIT_S = 600
"""How much of the function's 15 minutes is used; leases that are left then are `pending`, for the next hour."""
STARTING_S = 300
"""A run may have no execution yet: the API enters it before it starts that."""
BENCHMARK = "Benchmark"
"""The name of the machine that runs plans, behind the stack's."""
_SECOND_NS = 10**9


def sweep_targets(
    task: SweepTargetsInput, services: Services, *, build: BuildDriver | None = None
) -> SweepTargetsOutput:
    """
    Sweep the leases of one ended execution and of its children, or of all that have ended.

    A lease whose sweeping fails is reported as pending, so that it does not keep the others from being swept; also one
    whose trial's document cannot be read.
    """
    until_ns = services.clock.now_ns() + SWEEP_LIMIT_S * _SECOND_NS
    if task.execution_arn is not None:
        _cancel_unfinished(_execution_name(task.execution_arn), services)
    _take_what_was_left(services)
    causes = {
        lease.target: _sweep(lease, task.execution_arn, services, until_ns, build) for lease in services.table.leases()
    }
    if task.execution_arn is None:
        remove_orphaned_copies(services)
    _conclude(task.execution_arn, services)
    pending = {target: cause for target, cause in causes.items() if cause}
    swept = tuple(target for target, cause in causes.items() if cause == "")
    output = SweepTargetsOutput(swept=swept, pending=tuple(pending), causes=pending)
    put_metric(TARGETS_SWEPT, len(output.swept), services.settings)
    put_metric(TARGETS_PENDING, len(output.pending), services.settings)
    return output


def _conclude(ended_arn: str | None, services: Services) -> None:
    """
    Have runs closed whose execution is over, once they hold no target: of one execution, or all that are not closed.

    One that is submitted may have no execution at all, where who submitted it broke off or the start was refused; or
    one that was stopped before it entered the run. A run that is closed, and in the queue still, has not notified those
    behind it. `ConcludeRun` is another function, since it needs services that this one, in its VPC, may not reach.
    """
    arns = [ended_arn] if ended_arn else _open_runs(services)
    holders = {lease.run_id for lease in services.table.leases()}
    for arn in arns:
        run_id = _execution_name(arn)
        if run_id in holders or f"-{BENCHMARK}:" not in arn or not _is_open(run_id, services):
            continue
        try:
            status, cause = _ending(arn, services)
            if status == RUNNING:
                continue
            state: Literal["stopped", "failed"] = "stopped" if status == ABORTED else "failed"
            task = ConcludeRunInput(run_id=run_id, state=state, cause=cause)
            name = f"{services.settings.function_prefix}-ConcludeRun"
            payload = task.model_dump_json().encode()
            services.aws("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=payload)
        except (ClientError, BotoCoreError):
            logger.exception("a run could not be concluded", extra={"run_id": run_id})


def _open_runs(services: Services) -> list[str]:
    """Return the executions of all runs that may have to be closed."""
    before = services.now() - timedelta(seconds=STARTING_S)
    starting = (execution_arn(run_id, services.settings) for run_id in services.register.starting(before))
    return [*(entry.execution_arn for entry in services.register.entries()), *starting]


def _execution_name(arn: str) -> str:
    """Return an execution's name; a benchmark's is its run id."""
    return arn.rpartition(":")[2]


def _is_open(run_id: str, services: Services) -> bool:
    run = services.register.find(run_id)
    return (run is not None and not run.ended) or services.register.entry(run_id) is not None


def _cancel_unfinished(run_id: str, services: Services) -> None:
    """
    Flag the trials without an outcome, where the execution was a benchmark.

    A child that was starting at that moment holds no lease yet, so nothing else would stop it.
    """
    plan = services.runs.find_model(layout.run_key(run_id, "plan.json"), Plan)
    for index in range(plan.size if plan else 0):
        ref = TrialRef(run_id=run_id, trial=index, tag=trial_tag(run_id, index))
        names = ("result.json", "failure.json")
        if all(services.runs.find_bytes(layout.trial_key(ref, name)) is None for name in names):
            cancel(ref.tag, f"run {run_id} has ended", services)


def _is_due(lease: Lease, ended_arn: str | None, services: Services) -> bool:
    if ended_arn is not None:
        return ended_arn == lease.execution_arn or _execution_name(ended_arn) == lease.run_id
    return is_over(lease, services)


def _take_what_was_left(services: Services) -> None:
    """Give trials that had lost their lease, and left something, their target again where it is free, and if due."""
    now_ns = services.clock.now_ns()
    for lost in services.table.left():
        if lost.taken_at_ns > now_ns:
            continue
        ref = TrialRef(run_id=lost.run_id, trial=lost.trial, tag=lost.tag)
        try:
            services.table.take_lease(lost.target, ref, lost.execution_arn, lost.taken_at_ns)
        except TargetBusyError:
            continue
        services.table.forget_left(lost)


def _sweep(
    lease: Lease, ended_arn: str | None, services: Services, until_ns: int, build: BuildDriver | None
) -> str | None:
    """Return why the lease is not swept yet, "" if it is, None if its execution goes on."""
    try:
        if not _is_due(lease, ended_arn, services):
            return None
        cause = "" if finish(lease, services, until_ns, build) else "something of the trial still runs"
    except (StepbenchError, ClientError, BotoCoreError, ValidationError) as error:
        logger.exception("sweeping failed", extra=_log_keys(lease))
        return shortened(str(error), CAUSE_CHARS) or type(error).__name__
    logger.info("pending" if cause else "swept", extra=_log_keys(lease))
    return cause


def _log_keys(lease: Lease) -> dict[str, str | int]:
    return {"target": lease.target, "run_id": lease.run_id, "trial": lease.trial, "tag": lease.tag}


def _ending(arn: str, services: Services) -> tuple[str, str]:
    """Return an execution's status, and what it says of its end."""
    status = execution_status(arn, services)
    if status in {RUNNING, GONE}:
        return status, "Step Functions does not know its execution any more"
    execution = services.aws("stepfunctions").describe_execution(executionArn=arn)
    cause = str(execution.get("cause") or "")
    error = "" if status == ABORTED and cause else str(execution.get("error") or "")
    return status, ": ".join(filter(None, (error, cause))) or f"its execution ended as {status}"
