"""
What an execution has left that ended without its own tear-down: found by its lease, stopped, awaited and torn down.

Abort, time-out and uncatchable errors run no Catch, and stopping an execution does not stop its Lambdas. Whoever comes
upon such a lease finishes what it is for: the sweeper, and a trial that waits for the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from stepbench.contracts.failure import Failure
from stepbench.contracts.plan import TrialRef
from stepbench.records.storage import layout
from stepbench.stages.tear_down_target import await_silence, cancel, tear_down

if TYPE_CHECKING:
    from stepbench.records.storage.trial_table import Lease
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver

YOUNG_S = 60
"""An execution may be so new that Step Functions does not know it yet."""
POLL_S = 1.0
CAUSE_CHARS = 200
"""The longest reason why something is not removed yet, in one line."""
DELIVERY_LIMIT_S = 5
"""How long the arrival of acknowledged events is awaited, at most: somebody may wait at the terminal."""
RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
GONE = "GONE"
ABORTED = "ABORTED"
_SECOND_NS = 10**9


def is_over(lease: Lease, services: Services) -> bool:
    """Return whether the execution that took the lease has ended."""
    status = execution_status(lease.execution_arn, services)
    if status == GONE:
        return services.clock.now_ns() - lease.taken_at_ns >= YOUNG_S * _SECOND_NS
    return status != RUNNING


def finish(lease: Lease, services: Services, until_ns: int, build: BuildDriver | None) -> bool:
    """
    Stop the trial that holds the lease, note how it ended, await what is under way, and tear down.

    Returns:
        Whether nothing is left and the target is free; False if something still runs when the time is up.

    Raises:
        TargetUnavailableError: the store does not answer, or does not let it be removed.
    """
    ref = TrialRef(run_id=lease.run_id, trial=lease.trial, tag=lease.tag)
    cancel(lease.tag, "its execution has ended; swept", services)
    _note_failure(ref, _stop(lease, services), services)
    _await_deliveries(ref, services)
    while not tear_down(ref, services, build=build, target=lease.target):
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(POLL_S)
    return True


def execution_status(arn: str, services: Services) -> str:
    """
    Return RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED, or GONE if Step Functions does not know the execution.

    Any other answer raises: a lease is never swept on a guess.
    """
    try:
        return str(services.aws("stepfunctions").describe_execution(executionArn=arn)["status"])
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return GONE
        raise


def _await_deliveries(ref: TrialRef, services: Services) -> None:
    """Let arrive what a trigger is delivering once writers have ended: it is gone with the trigger."""
    await_silence(ref.tag, services)
    expected, seen = sum(file.expected for file in services.table.files(ref.tag)), -1
    if not expected or services.trial(ref).plan.pull:
        return  # watchers have waited themselves
    until_ns = services.clock.now_ns() + DELIVERY_LIMIT_S * _SECOND_NS
    while services.clock.now_ns() < until_ns:
        before, seen = seen, services.table.t4_count(ref.tag)
        if seen == before and seen >= expected:
            return
        services.clock.sleep(POLL_S)


def _stop(lease: Lease, services: Services) -> str:
    """Stop the trial's execution if it outlived the benchmark's; how it has ended."""
    status = execution_status(lease.execution_arn, services)
    if status != RUNNING:
        return status
    cause = f"run {lease.run_id} has ended without this trial"
    services.aws("stepfunctions").stop_execution(executionArn=lease.execution_arn, error="Swept", cause=cause)
    return ABORTED


def _note_failure(ref: TrialRef, status: str, services: Services) -> None:
    """Note the failure for the report; what the trial has said of itself stands."""
    key = layout.trial_key(ref, "failure.json")
    if status != SUCCEEDED and services.runs.find_bytes(key) is None:
        cause = f"the execution ended as {status} without its own tear-down"
        services.runs.put_model(key, Failure(error=f"Execution{status.title().replace('_', '')}", cause=cause))
