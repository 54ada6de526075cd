"""Time that passes only when somebody waits for it: exact, and at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

START_NS = 1_700_000_000_000_000_000
_SECOND_NS = 1_000_000_000


class FakeClock:
    """
    A `Clock` that stands still, except while somebody sleeps.

    `run` drives a coroutine on an event loop that lives by this clock: `asyncio.sleep`, `wait_for` and `call_later`
    take no real time, and `to_thread` runs at once, in place. `slept_s` keeps what was slept for by `sleep`.
    """

    def __init__(self, now_ns: int = START_NS) -> None:
        self._now_ns = now_ns
        self.stepped_ns = 0
        self.slept_s: list[float] = []

    def now_ns(self) -> int:
        """Return the time that it is."""
        return self._now_ns

    def advance(self, ns: int) -> None:
        """Let time pass."""
        self._now_ns += ns

    def step(self, ns: int) -> None:
        """Set it forward: no time passes, and a loop's own clock stays as it is."""
        self._now_ns += ns
        self.stepped_ns += ns

    def anchor(self) -> None:
        """Change nothing: it is the system's clock."""

    def drift_ns(self) -> int:
        """None: what a writer asks of its anchored clock."""
        return 0

    def sleep(self, seconds: float) -> None:
        """Let time pass, for everybody."""
        self.slept_s.append(seconds)
        self.advance(round(max(0.0, seconds) * _SECOND_NS))

    async def sleep_async(self, seconds: float) -> None:
        """Let others run until so much time has passed; on a loop of `run` only."""
        await asyncio.sleep(max(0.0, seconds))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """
        The coroutine's result.

        Raises:
            RuntimeError: everything waits and nothing is due, so that it would wait for ever.
        """
        with asyncio.Runner(loop_factory=lambda: _FakeLoop(self)) as runner:
            return runner.run(coroutine)


class _FakeLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._started_ns = clock.now_ns() - clock.stepped_ns
        super().__init__(_ImpatientSelector(clock))

    def time(self) -> float:
        # Counted from the start, so that a float still tells nanoseconds apart.
        return (self._clock.now_ns() - self._clock.stepped_ns - self._started_ns) / _SECOND_NS

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # noqa: ANN401 -- as typeshed's
        # A real thread would take real time, while this clock runs through everything that is due meanwhile.
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- the caller's, not ours
            done.set_exception(error)
        return done


class _ImpatientSelector(selectors.DefaultSelector):
    """Where a real one would wait for the next timer, moves the clock there."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            message = "deadlock: every task waits, and nothing is due"
            raise RuntimeError(message)
        self._clock.advance(max(1, round(timeout * _SECOND_NS)))
        return []
