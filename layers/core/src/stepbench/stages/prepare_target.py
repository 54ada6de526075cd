"""Task `PrepareTarget`: take the target's lease, and make the store ready for the trial."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from stepbench.contracts.documents import Served
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.target import DynamoDbTarget, S3Target
from stepbench.contracts.tasks import InputToMake, PreparedTarget, PrepareTargetInput, PrepareTargetOutput
from stepbench.drivers.preload import PRELOAD_FOR_S
from stepbench.drivers.protocol import Substituted, TakesValues
from stepbench.drivers.receivers.source import copy_name
from stepbench.drivers.registry import lease_target
from stepbench.errors import (
    StepbenchError,
    TargetBusyError,
    TargetUnavailableError,
    TargetUnreachableError,
    TrialCancelledError,
    shortened,
)
from stepbench.experiments.registry import experiment_of
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.stages.leftovers import CAUSE_CHARS, cancel, finish, is_over, remove, tear_down
from stepbench.stages.target_driver import (
    connect_limit_s,
    find_unreached,
    poll,
    reach_target,
    refuse_if_cancelled,
    undo_if_cancelled,
)
from stepbench.stages.trial_values import trial_values
from stepbench.traces import subsegment
from stepbench.workload.topology import wide_levels

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.transfer.plan import AnyTarget
    from stepbench.drivers.protocol import Driver
    from stepbench.records.storage.trial_table import Lease
    from stepbench.services import Services
    from stepbench.settings import Settings
    from stepbench.stages.target_driver import BuildDriver, OpenDriver

READY_LIMIT_S = 120
"""Tables and mappings take up to a minute or two; a retry goes on waiting where this ended."""
DELIVERY_LIMIT_S = 600
"""A new S3 notification or event source mapping may take minutes to act on AWS."""
EMULATED_DELIVERY_LIMIT_S = 120
PREPARE_LIMIT_S = PRELOAD_FOR_S + 120
"""How long all that is created and written before the load may take; the function has 15 minutes."""
POLL_S = 1.0
CANCEL_POLL_S = 2.0
WATCH_LANES = (0, 1)
FORMER_LIMIT_S = 30
"""How long an earlier trial of the run, which holds the lease, is torn down; then this one waits as for any other."""


def prepare_target(
    task: PrepareTargetInput, services: Services, *, build: BuildDriver | None = None
) -> PrepareTargetOutput:
    """
    Take the lease, prepare, wait until the store is active; then note who serves it in `provider.json`.

    Safe to call again for the same trial. Until the store has answered nothing is made in it, and the flag `made` says
    that something may have been.

    Raises:
        TargetBusyError: another trial holds the target.
        TargetUnreachableError: the store does not answer, or will not have us.
        TargetUnavailableError: it has answered, and was not ready in time.
        TrialCancelledError: the trial was cancelled before it began.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    target = lease_target(spec, services.settings)
    taken_at_ns = _take_lease(spec, target, task.execution_arn, services, build)
    _give_back_if_cancelled(spec, target, services)
    if spec.plan.log_t4 != "none":
        services.table.set_flag(spec.tag, layout.LOG_T4, spec.plan.log_t4)  # before the first event can come
    with reach_target(spec, services, build) as opened:
        services.table.set_flag(spec.tag, layout.PREPARED_FLAG, target)
        refuse_if_cancelled(spec.tag, services)  # after `made`: a sweeper has set the one before it looks for the other
        names = opened.driver.resource_names()
        prepared = PreparedTarget(target=target, execution_arn=task.execution_arn, names=names, taken_at_ns=taken_at_ns)
        services.runs.put_model(layout.trial_key(task.ref, "made.json"), prepared)
        opened.run(_prepare(spec, opened.driver, services), PREPARE_LIMIT_S)
        undo_if_cancelled(spec, opened, services)
        _remove_left(target, services, build)
        _await_ready(spec, opened, services)
        noted = _describe(spec, opened, services).model_copy(update={"function_arm64": _runs_on_arm64(spec, services)})
    services.runs.put_model(layout.trial_key(task.ref, "provider.json"), noted)
    _write_levels(spec, services)
    return PrepareTargetOutput(
        lanes=WATCH_LANES if spec.plan.pull else (),
        seeds=experiment_of(spec.plan.experiment).staging.proof(spec) is None,
        inputs=tuple(InputToMake(dag=dag.name, function=dag.maker) for dag in spec.plan.dags if dag.maker is not None),
        ready_by=services.now() + timedelta(seconds=delivery_limit_s(spec, services.settings)),
    )


def _write_levels(spec: TrialSpec, services: Services) -> None:
    """Write the tasks of levels that are too wide for the input of an execution."""
    for dag in spec.plan.dags:
        for number, tasks in wide_levels(dag):
            key = layout.dag_level_key(spec.ref, dag.name, number)
            services.runs.put_json(key, [task.model_dump(mode="json") for task in tasks])


def _runs_on_arm64(spec: TrialSpec, services: Services) -> bool:
    """Return whether the trial's copy of a function runs on Graviton; False without one."""
    if spec.plan.target.function is None:
        return False
    name = copy_name(spec.tag, services.settings.function_prefix)
    configuration = services.aws("lambda").get_function_configuration(FunctionName=name)
    return "arm64" in configuration.get("Architectures", ())


def _describe(spec: TrialSpec, opened: OpenDriver, services: Services) -> Served:
    """Return what serves the trial's store, or stores, as the report names it."""
    if isinstance(opened.driver, Substituted):
        provider, stand_ins = opened.run(opened.driver.provider()), opened.run(opened.driver.stand_ins())
        return Served(provider=provider, emulated=bool(stand_ins), stand_ins=stand_ins)
    emulator = services.settings.emulator
    if is_emulated_store(spec.plan.target, services.settings):
        return Served(provider=emulator, emulated=True)
    provider = opened.run(opened.driver.provider())
    # t4 is read in a function that an emulator starts, as of all triggers that nobody watches.
    if emulator and traits_of(spec.plan.experiment).by_trigger and not spec.plan.pull:
        return Served(provider=f"{provider}, with Lambda of {emulator}", emulated=True, stand_ins={"lambda": emulator})
    return Served(provider=provider, emulated=False)


def _take_lease(spec: TrialSpec, target: str, execution_arn: str, services: Services, build: BuildDriver | None) -> int:
    """
    Take the lease, from a trial that is over once that is torn down; return when, as it is noted.

    Raises:
        TargetBusyError: another run holds the target, or something of the trial that is over still runs, or is left.
        TargetUnreachableError: the store does not answer, so that nothing can be removed, nor measured.
    """
    take = partial(services.table.take_lease, target, spec.ref, execution_arn)
    try:
        take(now_ns := services.clock.now_ns())
    except TargetBusyError:
        holder = services.table.find_lease(target)
        if waits_for := _free(holder, spec, services, build) if holder else "another trial":
            services.table.set_flag(spec.tag, layout.WAITING, waits_for)
            raise
        take(now_ns := services.clock.now_ns())
    if services.table.flag(spec.tag, layout.WAITING):
        services.table.set_flag(spec.tag, layout.WAITING, "")
    return now_ns


def _free(holder: Lease, spec: TrialSpec, services: Services, build: BuildDriver | None) -> str:
    """Tear down whoever holds the target if it is over; return "" then, else for whom or what this trial waits."""
    if holder.run_id == spec.run_id:
        return "" if _tear_down_former(holder, spec, services, build) else str(holder)
    try:
        over = is_over(holder, services)
    except (ClientError, BotoCoreError):
        logger.exception("nobody knows whether the holder's execution is over", extra=holder._asdict())
        over = False
    if not over:
        return str(holder)
    with reach_target(spec, services, build):
        pass  # or it fails now: a store without an answer would keep us waiting for nothing
    try:
        done = finish(holder, services, services.clock.now_ns() + FORMER_LIMIT_S * 10**9, build)
    except (StepbenchError, ClientError, BotoCoreError, ValidationError) as error:
        logger.exception("what an ended trial has left is not removed", extra=holder._asdict())
        cause = shortened(str(error), CAUSE_CHARS)
        return f"{holder} (it is over; what it left is not removed yet: {cause})"
    return "" if done else f"{holder} (it is over; something of it still runs)"


def _tear_down_former(holder: Lease, spec: TrialSpec, services: Services, build: BuildDriver | None) -> bool:
    """Tear down a trial of the run that is over, since the machine begins no other before; return whether all is."""
    cancel(holder.tag, f"trial {spec.index + 1} of its run has begun", services)
    former = TrialRef(run_id=holder.run_id, trial=holder.trial, tag=holder.tag)
    until_ns = services.clock.now_ns() + FORMER_LIMIT_S * 10**9
    limit_s = connect_limit_s(find_unreached(spec, services), services)
    try:
        with subsegment("finish", run=former.run_id, trial=former.trial):
            return poll(lambda: tear_down(former, services, build=build, limit_s=limit_s), until_ns, POLL_S, services)
    except TargetUnavailableError as error:
        message = f"{error}. What trial {holder.trial + 1} of this run has made there could not be torn down"
        raise TargetUnreachableError(message) from error


def _remove_left(target: str, services: Services, build: BuildDriver | None) -> None:
    """Remove what trials have left here that had lost their lease; nothing is measured yet. What stays, stays noted."""
    for lost in services.table.left(target):
        try:
            with subsegment("finish", run=lost.run_id, trial=lost.trial):
                spec = services.trial(TrialRef(run_id=lost.run_id, trial=lost.trial, tag=lost.tag))
                if remove(spec, services, build):
                    services.table.forget_left(lost)
        except (StepbenchError, ClientError, BotoCoreError, ValidationError):
            logger.exception("what a trial has left is not removed", extra=lost._asdict())


async def _prepare(spec: TrialSpec, driver: Driver, services: Services) -> None:
    """
    Prepare the store, and leave off if the trial is cancelled meanwhile: records to preload may take minutes.

    (By then the target may be free, and another trial at work on it.)
    """
    values = await asyncio.to_thread(trial_values, spec, services)
    if values is not None and isinstance(driver, TakesValues):
        driver.use_values(values)
    preparing = asyncio.create_task(driver.prepare())
    try:
        while not (await asyncio.wait({preparing}, timeout=CANCEL_POLL_S))[0]:
            await asyncio.to_thread(refuse_if_cancelled, spec.tag, services)
    except TrialCancelledError:
        return  # what has been made is undone next
    finally:
        preparing.cancel()
        await asyncio.wait({preparing})
    preparing.result()


def _give_back_if_cancelled(spec: TrialSpec, target: str, services: Services) -> None:
    """
    Give the lease back if the trial was cancelled: a run is stopped by its flag first, and then by its leases.

    (Stopping an execution does not stop this function, and no state of the machine runs any more.)
    """
    try:
        refuse_if_cancelled(spec.tag, services)
    except TrialCancelledError:
        services.table.beat(layout.HOLDERS, spec.run_id, {}, ended=True)
        services.table.release_lease(target, spec.tag)
        raise


def is_emulated_store(target: AnyTarget, settings: Settings) -> bool:
    """Return whether an emulator plays this store, so that its latencies are labelled as such."""
    return bool(settings.emulator) and target.endpoint is None and isinstance(target, S3Target | DynamoDbTarget)


def _await_ready(spec: TrialSpec, opened: OpenDriver, services: Services) -> None:
    deadline_ns = services.clock.now_ns() + READY_LIMIT_S * 10**9
    if not poll(lambda: opened.run(opened.driver.ready()), deadline_ns, POLL_S, services, spec.tag):
        message = f"{spec.plan.target.store} for trial {spec.name} was not ready within {READY_LIMIT_S} s; try again"
        raise TargetUnavailableError(message)


def delivery_limit_s(spec: TrialSpec, settings: Settings) -> int:
    """Return how long after its preparation a trial's trigger has to deliver."""
    limit_s = EMULATED_DELIVERY_LIMIT_S if settings.emulator else DELIVERY_LIMIT_S
    window_s = spec.plan.target.batching_window_s if isinstance(spec.plan.target, DynamoDbTarget) else 0
    return limit_s + window_s
