"""Whom a push trigger invokes: the stack's receiver, or a copy of a function of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings


class Receiver(Protocol):
    """The function that a trial's trigger is connected to; all that may wait raises TargetUnavailableError."""

    @property
    def arn(self) -> str:
        """Return its ARN; "" where the stack knows of none."""
        ...

    @property
    def failures_arn(self) -> str:
        """Return the queue for batches of a stream that are given up; "" where there is none."""
        ...

    async def ensure(self) -> None:
        """Make it, where it is missing. Raises PlanError for a function that can never be measured."""
        ...

    async def ready(self) -> bool:
        """Return whether it can be invoked."""
        ...

    async def remove(self) -> bool:
        """Remove what `ensure` has made; True when nothing is left."""
        ...

    def resource_names(self) -> tuple[str, ...]:
        """Name what `remove` removes, as AWS calls it."""
        ...

    async def close(self) -> None:
        """End connections; safe to call twice."""
        ...


class StackReceiver:
    """`ReceiveEvents`, or `CheckClock`: a function of the stack, which is always there."""

    def __init__(self, arn: str, failures_arn: str) -> None:
        self.arn = arn
        self.failures_arn = failures_arn

    async def ensure(self) -> None:
        """Make nothing."""

    async def ready(self) -> bool:
        """Return True."""
        return True

    async def remove(self) -> bool:
        """Remove nothing."""
        return True

    def resource_names(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    async def close(self) -> None:
        """End nothing."""


def build_receiver(spec: TrialSpec, settings: Settings, clock: Clock) -> Receiver:
    """Return whom a trial's trigger invokes; nothing is connected yet."""
    target = spec.offered.target
    if target.function is not None:
        from stepbench.drivers.receivers.copy import FunctionCopy  # noqa: PLC0415 -- most trials have none

        return FunctionCopy(spec, settings, clock)
    checks_clock = target.receiver == "CheckClock"
    arn = settings.check_clock_function_arn if checks_clock else settings.receive_events_function_arn
    return StackReceiver(arn, settings.stream_failures_queue_arn)
