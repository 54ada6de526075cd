"""A trial's driver for a control stage: opened, run step by step, closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from stepbench.errors import TrialCancelledError
from stepbench.records import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver, Operable
    from stepbench.settings import Settings
    from stepbench.stages.services import Services

    BuildDriver = Callable[[TrialSpec, Settings, Clock], Driver | Operable]

T = TypeVar("T")


UNDO_LIMIT_S, UNDO_POLL_S = 30, 1.0


class OpenDriver(NamedTuple):
    """A connected driver, and the event loop on which its coroutines run, one at a time."""

    driver: Driver | Operable
    runner: asyncio.Runner

    @property
    def writer(self) -> Driver:
        """The driver of a trial of triggers."""
        return cast("Driver", self.driver)

    @property
    def operable(self) -> Operable:
        """The driver of a trial of operations."""
        return cast("Operable", self.driver)

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """The step's result. Between steps the caller may sleep by its own clock."""
        return self.runner.run(step)


@contextmanager
def open_driver(spec: TrialSpec, services: Services, build: BuildDriver | None = None) -> Iterator[OpenDriver]:
    """
    The trial's driver, connected, but not for its load: how that connects is up to the writers.

    Args:
        spec: the trial.
        services: its settings and clock go to the driver.
        build: `registry.build_store`, unless a test has another.

    Raises:
        TargetUnavailableError: the store does not answer.
    """
    with asyncio.Runner() as runner:
        driver = (build or _registry())(spec, services.settings, services.clock)
        try:
            runner.run(driver.open())
            yield OpenDriver(driver, runner)
        finally:
            runner.run(driver.close())


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
        while not opened.run(opened.driver.tear_down()) and services.clock.now_ns() < until_ns:
            services.clock.sleep(UNDO_POLL_S)
        raise


def _registry() -> BuildDriver:
    from stepbench.drivers.registry import build_store  # noqa: PLC0415 -- only where no test brings its own

    return build_store


def refuse_if_cancelled(tag: str, services: Services) -> None:
    """
    Stop here if the trial is to stop.

    Raises:
        TrialCancelledError: its flag is set.
    """
    reason = services.table.flag(tag, layout.CANCELLED)
    if reason is not None:
        message = f"trial {tag} is cancelled: {reason}"
        raise TrialCancelledError(message)
