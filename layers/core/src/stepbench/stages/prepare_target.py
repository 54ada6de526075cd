"""Task `PrepareTarget`: take the target's lease, and make the store ready for the trial."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepbench.contracts.target import DynamoDbTarget, S3Target
from stepbench.contracts.tasks import PrepareTargetInput, PrepareTargetOutput
from stepbench.drivers.registry import lease_target
from stepbench.errors import TargetUnavailableError, TrialCancelledError
from stepbench.records import layout
from stepbench.stages.target_driver import open_driver, refuse_if_cancelled, undo_if_cancelled

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.target import Target
    from stepbench.drivers.protocol import Driver, Operable
    from stepbench.settings import Settings
    from stepbench.stages.services import Services
    from stepbench.stages.target_driver import BuildDriver, OpenDriver

READY_LIMIT_S = 150
"""Tables and mappings take up to a minute or two; a retry goes on waiting where this ended."""
DELIVERY_LIMIT_S = 600
"""A new S3 notification or event source mapping may take minutes to act on AWS."""
EMULATED_DELIVERY_LIMIT_S = 120
POLL_S = 1.0
LOOK_S = 2.0
WATCH_LANES = (0, 1)


def prepare_target(
    task: PrepareTargetInput, services: Services, *, build: BuildDriver | None = None
) -> PrepareTargetOutput:
    """
    Lease, prepare, wait until the store says that everything is active; then note who serves it in `provider.json`.

    Safe to call again for the same trial.

    Raises:
        TargetBusyError: another trial holds the target.
        TargetUnavailableError: the store does not answer, or was not ready in time.
        TrialCancelledError: the trial was cancelled before it began.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    target = lease_target(spec, services.settings)
    services.table.take_lease(target, task.ref, task.execution_arn, services.clock.now_ns())
    _give_back_if_cancelled(spec, target, services)
    if spec.plan.log_t4 != "none":
        services.table.set_flag(spec.tag, layout.LOG_T4, spec.plan.log_t4)  # before the first event can come
    with open_driver(spec, services, build) as opened:
        opened.run(_prepare(spec, opened.driver, services))
        undo_if_cancelled(spec, opened, services)
        _await_ready(spec, opened, services)
        emulated = is_emulated(spec.plan.target, services.settings)
        provider = services.settings.emulator if emulated else opened.run(opened.driver.provider())
    services.runs.put_json(layout.trial_key(task.ref, "provider.json"), {"provider": provider, "emulated": emulated})
    return PrepareTargetOutput(lanes=WATCH_LANES if spec.plan.pull else (), ready_by=_ready_by(spec, services))


async def _prepare(spec: TrialSpec, driver: Driver | Operable, services: Services) -> None:
    """
    Prepare the store, and leave off if the trial is cancelled meanwhile: records to preload may take minutes.

    (By then the target may be free, and another trial at work on it.)
    """
    preparing = asyncio.create_task(driver.prepare())
    try:
        while not (await asyncio.wait({preparing}, timeout=LOOK_S))[0]:
            await asyncio.to_thread(refuse_if_cancelled, spec.tag, services)
    except TrialCancelledError:
        return  # what has been made is undone next
    finally:
        preparing.cancel()
        await asyncio.wait({preparing})
    preparing.result()


def _give_back_if_cancelled(spec: TrialSpec, target: str, services: Services) -> None:
    """
    Whoever stops a run sets the flag, and then looks for leases: one taken between the two would be seen by nobody.

    (Stopping an execution does not stop this function, and no state of the machine runs any more.)
    """
    try:
        refuse_if_cancelled(spec.tag, services)
    except TrialCancelledError:
        services.table.release_lease(target, spec.tag)
        raise


def is_emulated(target: Target, settings: Settings) -> bool:
    """Whether an emulator plays this store, so that its latencies are labelled as such."""
    return bool(settings.emulator) and target.endpoint is None and isinstance(target, S3Target | DynamoDbTarget)


def _await_ready(spec: TrialSpec, opened: OpenDriver, services: Services) -> None:
    deadline_ns = services.clock.now_ns() + READY_LIMIT_S * 10**9
    while not opened.run(opened.driver.ready()):
        refuse_if_cancelled(spec.tag, services)
        if services.clock.now_ns() >= deadline_ns:
            message = (
                f"{spec.plan.target.store} for trial {spec.name} was not ready within {READY_LIMIT_S} s; try again"
            )
            raise TargetUnavailableError(message)
        services.clock.sleep(POLL_S)


def _ready_by(spec: TrialSpec, services: Services) -> datetime:
    limit_s = EMULATED_DELIVERY_LIMIT_S if services.settings.emulator else DELIVERY_LIMIT_S
    window_s = spec.plan.target.batching_window_s if isinstance(spec.plan.target, DynamoDbTarget) else 0
    return datetime.fromtimestamp(services.clock.now_ns() / 1e9 + limit_s + window_s, UTC)
