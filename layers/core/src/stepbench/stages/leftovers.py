"""
What a trial has left: it is stopped and removed, and only then is its lease released.

What an execution has left that ended without its own tear-down is found by its lease (`finish`): abort, time-out and
uncatchable errors run no Catch, and stopping an execution does not stop its Lambdas. Whoever comes upon such a lease
finishes what it is for: the sweeper, and a trial that waits for the target.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from stepbench.contracts.documents import Failure
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import PreparedTarget, RemainingObjects
from stepbench.drivers.protocol import Accountable, MakesLate
from stepbench.drivers.registry import lease_target
from stepbench.errors import RecordsRefusedError, RecordsUnavailableError, TargetBusyError
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.trial_table import Lease
from stepbench.stages.function_log import keep_reports, take_in
from stepbench.stages.target_driver import STEP_LIMIT_S, note_removed, open_driver, poll
from stepbench.stages.tune_store import restore_released
from stepbench.traces import subsegment

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver, OpenDriver

SILENT_S = 5
"""Writers and watchers beat once a second: one silent for so long is gone."""
CALL_LIMIT_S = 20
ENDED = "the trial has ended"
"""The cause for a task that a stopped execution had begun in a cold start: it checks the flag first, and ends."""
POLL_S = 0.5
YOUNG_S = 60
"""An execution may be so new that Step Functions does not know it yet."""
FINISH_POLL_S = 1.0
CAUSE_CHARS = 200
"""The longest reason why something is not removed yet, in one line."""
DELIVERY_LIMIT_S = 5
"""How long the arrival of acknowledged events is awaited, at most: somebody may wait at the terminal."""
LATE = "late#"
"""In place of a target, before a trial's tag: the trial is looked at once more, and holds no store for that."""
RUNNING, SUCCEEDED, GONE, ABORTED = "RUNNING", "SUCCEEDED", "GONE", "ABORTED"
_SECOND_NS = 10**9


def note(ref: TrialRef, name: str, document: Failure | RemainingObjects, services: Services) -> None:
    """Keep a document for the report, or log that it cannot be: a lease that stayed for it would block others."""
    try:
        services.runs.put_model(layout.trial_key(ref, name), document)
    except RecordsRefusedError:
        logger.exception("%s could not be stored", name, extra=ref.model_dump())


def cancel(tag: str, reason: str, services: Services) -> None:
    """Set the flag that stops writers, watchers and tasks; the first reason stands."""
    if services.table.flag(tag, layout.CANCELLED) is None:
        services.table.set_flag(tag, layout.CANCELLED, reason)


def tear_down(
    ref: TrialRef,
    services: Services,
    *,
    build: BuildDriver | None = None,
    limit_s: float = STEP_LIMIT_S,
    target: str | None = None,
) -> bool:
    """
    Tear down, each step for `STEP_LIMIT_S` at most; return True when nothing is left and the target is free.

    Args:
        ref: the trial.
        services: its stack's.
        build: as `open_driver` takes it.
        limit_s: for connecting, likewise.
        target: as its lease has it, where that is known: another version may have called the same one otherwise.

    Raises:
        TargetUnavailableError: the store does not answer.
    """
    spec = services.trial(ref)
    target = target or lease_target(spec, services.settings)
    if not (_holds(target, ref, services) or _takes_again(target, ref, services)):
        return True
    cancel(ref.tag, ENDED, services)
    if not await_silence(ref.tag, services):
        return False
    if not _holds(target, ref, services):  # somebody else has torn down meanwhile, and another trial may be at work
        return True
    if not remove(spec, services, build, limit_s):
        return False
    if _holds(target, ref, services):
        restore_released(spec, services)
    services.table.beat(layout.HOLDERS, ref.run_id, {}, ended=True)
    services.table.release_lease(target, ref.tag)
    return True


def remove(spec: TrialSpec, services: Services, build: BuildDriver | None, limit_s: float = STEP_LIMIT_S) -> bool:
    """
    Remove what the trial has made in its store, and note that; return False while something of it is left.

    Raises:
        TargetUnavailableError: the store does not answer, or refuses.
    """
    if services.table.flag(spec.tag, layout.PREPARED_FLAG) is None:
        return True
    with open_driver(spec, services, build, limit_s) as opened:
        _note_remaining(spec.ref, opened, services)
        if not opened.run(opened.driver.tear_down()):
            return False
        if isinstance(opened.driver, MakesLate) and _cut_off(spec.tag, services):
            _note_late(spec, opened.driver.late_s, services)
        note_removed(spec, opened, services)
    return True


def _cut_off(tag: str, services: Services) -> bool:
    """Return whether a writer has not said that it ended: its last request may be under way still."""
    ended = {who for who, beat in services.table.beats(tag).items() if beat.get("ended")}
    return not {f"writer#{attempt}" for attempt in services.table.started(tag)} <= ended


def _note_late(spec: TrialSpec, late_s: float, services: Services) -> None:
    """Have the sweeper tear the trial down once more when it is too late for anything of its to come, and then be."""
    ref, prepared = spec.ref, services.runs.find_model(layout.trial_key(spec.ref, "made.json"), PreparedTarget)
    if prepared is None or services.runs.find_bytes(layout.trial_key(ref, "removed.json")) is not None:
        return
    due_ns = services.clock.now_ns() + round(late_s * _SECOND_NS)
    lease = Lease(f"{LATE}{ref.tag}", ref.tag, ref.run_id, ref.trial, prepared.execution_arn, due_ns)
    services.table.note_left(lease)


def _holds(target: str, ref: TrialRef, services: Services) -> bool:
    holder = services.table.find_lease(target)
    return holder is not None and holder.tag == ref.tag


def _takes_again(target: str, ref: TrialRef, services: Services) -> bool:
    """
    Take a lease again that was lost while something of the trial is in the store; return whether it is ours.

    If another trial has the target by now, what is left is put on record instead: to remove it would disturb a
    measurement. That trial's successor removes it, or the sweeper.
    """
    prepared = services.runs.find_model(layout.trial_key(ref, "made.json"), PreparedTarget)
    if prepared is None or services.runs.find_bytes(layout.trial_key(ref, "removed.json")) is not None:
        return False
    now_ns = services.clock.now_ns()
    try:
        services.table.take_lease(target, ref, prepared.execution_arn, now_ns)
    except TargetBusyError:
        services.table.note_left(Lease(target, ref.tag, ref.run_id, ref.trial, prepared.execution_arn, now_ns))
        return False
    return True


def _note_remaining(ref: TrialRef, opened: OpenDriver, services: Services) -> None:
    """Keep how many objects there are before the first of them is removed: later calls would count what is over."""
    noted = services.runs.find_model(layout.trial_key(ref, "remaining.json"), RemainingObjects)
    if isinstance(opened.driver, Accountable) and noted is None:
        note(ref, "remaining.json", RemainingObjects(objects=opened.run(opened.driver.remaining())), services)


def alive(tag: str, services: Services) -> tuple[str, ...]:
    """Return writers and watchers of the trial that still run, as far as their heartbeats tell."""
    since_ns = services.clock.now_ns() - SILENT_S * _SECOND_NS
    beats = services.table.beats(tag)
    return tuple(who for who, beat in beats.items() if not beat.get("ended") and int(beat["at_ns"]) > since_ns)


def await_silence(tag: str, services: Services) -> bool:
    """Wait for the trial's writers and watchers to end; return False if they have not when this call's time is up."""
    until_ns = services.clock.now_ns() + CALL_LIMIT_S * _SECOND_NS
    return poll(lambda: not (alive(tag, services) or _just_begun(tag, services)), until_ns, POLL_S, services)


def _just_begun(tag: str, services: Services) -> bool:
    """
    Return whether writers have begun so recently that a first sign of life may be still to come.

    Those of a trial that was not stopped have ended. One invocation of a Map has none in its first second, and a Map
    that was not stopped may go on to begin others until their sandboxes see the flag.
    """
    if services.table.flag(tag, layout.CANCELLED) == ENDED:
        return False
    begun = services.table.started(tag, since_ns=services.clock.now_ns() - SILENT_S * _SECOND_NS)
    return bool({f"writer#{attempt}" for attempt in begun} - services.table.beats(tag).keys())


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
    with subsegment("finish", run=ref.run_id, trial=ref.trial):
        _note_failure(ref, _stop(lease, services), services)
        _await_deliveries(ref, services)
        torn_down = partial(tear_down, ref, services, build=build, target=lease.target)
        return poll(torn_down, until_ns, FINISH_POLL_S, services)


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
    expected = sum(file.expected for file in services.table.files(ref.tag))
    spec = services.trial(ref)
    if not expected or spec.plan.pull:
        return  # watchers have waited themselves
    try:
        _await_count(spec, expected, services)
        keep_reports(spec, services)
    except RecordsUnavailableError:  # what it printed is lost for the report; the copy has to go all the same
        logger.exception("the log of the measured function cannot be read", extra=ref.model_dump())


def _await_count(spec: TrialSpec, expected: int, services: Services) -> None:
    seen = -1
    until_ns = services.clock.now_ns() + DELIVERY_LIMIT_S * _SECOND_NS
    while services.clock.now_ns() < until_ns:
        take_in(spec, services)
        before, seen = seen, services.table.t4_count(spec.tag)
        if seen == before and seen >= expected:
            return
        services.clock.sleep(FINISH_POLL_S)


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
