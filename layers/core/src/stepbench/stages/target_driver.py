"""A trial's driver for a control stage: opened, run step by step, closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.tasks import TornDown
from stepbench.drivers.registry import lease_target
from stepbench.errors import RecordsRefusedError, TargetUnavailableError, TargetUnreachableError, TrialCancelledError
from stepbench.experiments.registry import build_driver
from stepbench.observability import logger
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.services import Services
    from stepbench.settings import Settings

    BuildDriver = Callable[[TrialSpec, Settings, Clock], Driver]

T = TypeVar("T")


UNDO_LIMIT_S, UNDO_POLL_S = 30, 1.0
REACH_LIMIT_S, EMULATED_REACH_LIMIT_S = 60, 10
"""
A store that is only just starting, or resuming, is waited for; here the servers have been started before.

Aurora that has paused resumes in 15 s, and after a day of rest in 30 s or more.
"""
REACH_POLL_S = 1.0
SINGLE_TRY_LIMIT_S, EMULATED_SINGLE_TRY_LIMIT_S = 10.0, 3.0
"""A store that has not answered an earlier trial of the run has so long to show that it is back."""


STEP_LIMIT_S = 120.0
"""The limit of each step of a driver. Each request has a limit of its own, but a server may demand further ones."""


class OpenDriver(NamedTuple):
    """A connected driver, the event loop on which its coroutines run, one at a time, and its store for messages."""

    driver: Driver
    runner: asyncio.Runner
    target: str

    def run(self, step: Coroutine[Any, Any, T], limit_s: float = STEP_LIMIT_S) -> T:
        """
        Run a step and return its result. Between steps the caller may sleep by its own clock.

        Raises:
            TargetUnavailableError: the step raised it, or has not ended within `limit_s`.
        """
        return self.runner.run(_within(limit_s, step, self.target))


@contextmanager
def open_driver(
    spec: TrialSpec, services: Services, build: BuildDriver | None = None, limit_s: float = STEP_LIMIT_S
) -> Iterator[OpenDriver]:
    """
    Open the trial's driver, connected, but not for its load: how that connects is up to the writers.

    Args:
        spec: the trial.
        services: its settings and clock go to the driver.
        build: `registry.build_driver`, unless a test has another.
        limit_s: for connecting, beside the driver's own limits.

    Raises:
        TargetUnavailableError: the store does not answer.
    """
    with asyncio.Runner() as runner:
        driver = (build or build_driver)(spec, services.settings, services.clock)
        try:
            opened = OpenDriver(driver, runner, lease_target(spec, services.settings))
            opened.run(driver.open(), limit_s)
            yield opened
        finally:
            runner.run(driver.close())


async def _within(limit_s: float, step: Coroutine[Any, Any, T], target: str) -> T:
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await step
    except TimeoutError as error:
        if not limit.expired():
            raise
        message = f"{target}: no whole answer within {limit_s:g} s"
        raise TargetUnavailableError(message) from error


@contextmanager
def reach_target(spec: TrialSpec, services: Services, build: BuildDriver | None = None) -> Iterator[OpenDriver]:
    """
    Open the trial's driver once the store has answered; nothing has been made in it by then.

    A store that has not answered an earlier trial of the run is asked once, for `connect_limit_s`.

    Raises:
        TargetUnreachableError: it has not answered in the time for it, or will not have us.
        TrialCancelledError: the trial is to stop.
    """
    reach_s = EMULATED_REACH_LIMIT_S if services.settings.emulator else REACH_LIMIT_S
    until_ns = services.clock.now_ns() + reach_s * 10**9
    earlier = find_unreached(spec, services)
    limit_s = connect_limit_s(earlier, services)
    with ExitStack() as stack:
        while True:
            try:
                opened = _open_answering(stack, spec, services, build, limit_s)
                break
            except TargetUnavailableError as error:
                if earlier:
                    message = f"{error}. It did not answer {earlier} either, so it was asked only once"
                    raise TargetUnreachableError(message) from error
                if isinstance(error, TargetUnreachableError):
                    raise
                if services.clock.now_ns() + REACH_POLL_S * 10**9 >= until_ns:
                    message = f"{error}. See whether it runs, and whether the plan's endpoint is right"
                    raise TargetUnreachableError(message) from error
            refuse_if_cancelled(spec.tag, services)
            services.clock.sleep(REACH_POLL_S)
        yield opened


def _open_answering(
    stack: ExitStack, spec: TrialSpec, services: Services, build: BuildDriver | None, limit_s: float
) -> OpenDriver:
    """Open the driver, which `stack` closes, and see that the store answers: `open` of some asks for nothing."""
    with ExitStack() as attempt:
        opened = attempt.enter_context(open_driver(spec, services, build, limit_s))
        opened.run(opened.driver.ready(), limit_s)
        stack.enter_context(attempt.pop_all())
    return opened


def connect_limit_s(earlier: str, services: Services) -> float:
    """Return how long the store has to answer: not long if it has not answered an earlier trial of the run."""
    if not earlier:
        return STEP_LIMIT_S
    return EMULATED_SINGLE_TRY_LIMIT_S if services.settings.emulator else SINGLE_TRY_LIMIT_S


def find_unreached(spec: TrialSpec, services: Services) -> str:
    """Return which earlier trial of the run has not reached this target, and why; "" if none has failed to."""
    return services.table.flag(trial_tag(spec.run_id, 0), _unreached(spec, services)) or ""


def note_unreached(spec: TrialSpec, cause: str, services: Services) -> None:
    """Note for later trials of the run that this one has not reached its target; the first cause stands."""
    if not find_unreached(spec, services):
        reason = f"trial {spec.index + 1} of this run ({cause})"
        services.table.set_flag(trial_tag(spec.run_id, 0), _unreached(spec, services), reason)


def _unreached(spec: TrialSpec, services: Services) -> str:
    return layout.UNREACHED + lease_target(spec, services.settings)


def undo_if_cancelled(spec: TrialSpec, opened: OpenDriver, services: Services) -> None:
    """
    Take back what was just made, or changed, for a trial that is to stop.

    The sweeper may have torn down, and freed the target, while we were still making what it could not see yet.

    Raises:
        TrialCancelledError: its flag is set; torn down as far as that can be done in `UNDO_LIMIT_S`.
    """
    try:
        refuse_if_cancelled(spec.tag, services)
    except TrialCancelledError:
        until_ns = services.clock.now_ns() + UNDO_LIMIT_S * 10**9
        while not (done := opened.run(opened.driver.tear_down())) and services.clock.now_ns() < until_ns:
            services.clock.sleep(UNDO_POLL_S)
        if done:
            note_removed(spec, opened, services)
        raise


def note_removed(spec: TrialSpec, opened: OpenDriver, services: Services) -> None:
    """Keep for the report that nothing is left, or log that it cannot be: a lease that stayed for it blocks others."""
    try:
        key = layout.trial_key(spec.ref, "removed.json")
        services.runs.put_model(key, TornDown(removed=opened.driver.resource_names()))
    except RecordsRefusedError:
        logger.exception("removed.json could not be stored", extra=spec.ref.model_dump())


def poll(is_done: Callable[[], bool], until_ns: int, pause_s: float, services: Services, tag: str = "") -> bool:
    """
    Ask until it is done; return False if the time is up before.

    Args:
        is_done: what is asked.
        until_ns: no pause begins after that.
        pause_s: between two times.
        services: their clock.
        tag: the trial whose cancellation ends it, too; "" for none.

    Raises:
        TrialCancelledError: the trial is to stop.
    """
    while not is_done():
        if tag:
            refuse_if_cancelled(tag, services)
        if services.clock.now_ns() >= until_ns:
            return False
        services.clock.sleep(pause_s)
    return True


def refuse_if_cancelled(tag: str, services: Services) -> None:
    """
    Stop here if the trial is to stop.

    Raises:
        TrialCancelledError: its flag is set.
    """
    refuse(tag, services.table.flag(tag, layout.CANCELLED))


def refuse(tag: str, reason: str | None) -> None:
    """Raise TrialCancelledError where there is a reason for which the trial's flag is set."""
    if reason is not None:
        message = f"trial {tag} is cancelled: {reason}"
        raise TrialCancelledError(message)
