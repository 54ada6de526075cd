"""Making what is offered, whatever the driver: ahead where it can, as a task where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.drivers.protocol import Operated, Outcome, Prompt, PromptOperable
from stepbench.drivers.tasked import Tasked

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.drivers.protocol import Answer, Driver, Made, Operable, Operation, Write


def write_maker(driver: Driver, clock: Clock) -> Callable[[Write], Made[Answer]]:
    """How a driver's writes are made."""
    if isinstance(driver, Prompt):
        return driver.make
    return lambda write: Tasked(lambda: driver.write(write), clock)


def operation_maker(driver: Operable, clock: Clock) -> Callable[[Operation], Made[Operated]]:
    """How a driver's operations are made."""
    if isinstance(driver, PromptOperable):
        return driver.make
    return lambda operation: Tasked(lambda: driver.operate(operation), clock)


class Broken:
    """
    `Made` of what could not even be made.

    A driver that breaks its contract must not cost the other records, so that this one is UNKNOWN.
    """

    def __init__(self, error: Exception, clock: Clock) -> None:
        self._error = error
        self._clock = clock

    def send(self, done: Callable[[Any], None]) -> None:
        """See `Made`."""
        done(broken(self._error, self._clock))

    def abandon(self) -> None:
        """See `Made`."""


def broken(error: Exception, clock: Clock) -> Operated:
    """What is known of an event at which the driver broke."""
    now_ns = clock.now_ns()
    return Operated(now_ns, now_ns, Outcome.UNKNOWN, error=f"{type(error).__name__} in the driver")
