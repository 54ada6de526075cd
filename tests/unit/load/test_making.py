from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Answer, Operated, Operation, Outcome, Write
from stepbench.drivers.tasked import Tasked
from stepbench.load.making import Broken, operation_maker, write_maker
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_driver import MemoryDriver

if TYPE_CHECKING:
    from collections.abc import Callable


class Answered:
    """`Made` that is answered at once."""

    def send(self, done: Callable[[Operated], None]) -> None:
        """See `Made`."""
        done(Operated(1, 2, Outcome.FAILED))

    def abandon(self) -> None:
        """See `Made`."""


class PromptMemory(MemoryDriver):
    """Makes writes and operations itself."""

    def make(self, _what: Write | Operation) -> Answered:
        """See `Prompt`."""
        return Answered()


def test_a_driver_that_makes_is_asked_to() -> None:
    """A task for each would be most of what an event costs."""
    driver = PromptMemory(FakeClock())
    assert isinstance(write_maker(driver, FakeClock())(Write("key", b"")), Answered)
    assert isinstance(operation_maker(driver, FakeClock())(Operation(Kind.READ, "key")), Answered)


def test_any_other_driver_takes_a_task() -> None:
    """`write` and `operate` are all that a driver must have."""
    clock, told = FakeClock(), list[Answer]()
    driver = MemoryDriver(clock)
    made = write_maker(driver, clock)(Write("key", b"value")), operation_maker(driver, clock)(Operation(Kind.READ, "k"))
    assert [type(each) for each in made] == [Tasked, Tasked]

    async def run() -> None:
        for each in made:
            each.send(told.append)
        await clock.sleep_async(1)

    clock.run(run())
    assert [each.outcome for each in told] == [Outcome.OK, Outcome.OK]


def test_what_could_not_be_made_is_unknown_and_says_why() -> None:
    """A driver that breaks its contract costs one record."""
    told: list[Operated] = []
    broken = Broken(KeyError("x"), FakeClock())
    broken.send(told.append)
    broken.abandon()
    assert [(each.outcome, each.error) for each in told] == [(Outcome.UNKNOWN, "KeyError in the driver")]
