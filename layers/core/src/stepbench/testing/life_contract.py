"""What holds for any store's way through a trial, whatever is measured: in `DriverContract` and `OperableContract`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pytest

from stepbench.drivers.protocol import Operable, Outcome
from stepbench.errors import TargetUnavailableError
from stepbench.testing.store_life import running, until_ready, until_torn_down

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Answer, Store

GIVE_UP_LIMIT_S = 45
"""By then whatever is offered to nobody has to have ended, whatever time-out the driver chose."""


class LivingSubject(Protocol):
    """What `Subject` and `OperableSubject` have in common; see there."""

    @property
    def target(self) -> dict[str, Any]: ...  # noqa: D102 -- see there

    def unreachable(self, spec: TrialSpec) -> Store: ...  # noqa: D102

    async def leftovers(self, spec: TrialSpec) -> list[str]: ...  # noqa: D102


SubjectT = TypeVar("SubjectT", bound=LivingSubject)


class LifeContract(Generic[SubjectT]):
    """The tests. `prepare`, `ready`, `tear_down` and `provider` have to work without `open`, as stages call them."""

    def new_spec(self, subject: SubjectT) -> TrialSpec:
        """A trial with a namespace that no other test has."""
        raise NotImplementedError

    def new_driver(self, subject: SubjectT, spec: TrialSpec) -> Store:
        """A driver for the running store."""
        raise NotImplementedError

    async def test_open_has_no_effect_on_data(self, subject: SubjectT) -> None:
        """Every writer opens, also the one that comes while another measures."""
        spec = self.new_spec(subject)
        driver = self.new_driver(subject, spec)
        try:
            await driver.prepare()
            await until_ready(driver)
            before = sorted(await subject.leftovers(spec))
            await driver.open()
            if isinstance(driver, Operable):
                await driver.warm_up()
            assert sorted(await subject.leftovers(spec)) == before
        finally:
            await until_torn_down(driver)
            await driver.close()

    async def test_tear_down_is_resumable(self, subject: SubjectT) -> None:
        """The sweeper calls it without knowing how far PrepareTarget, or another sweeper, came; in a new process."""
        spec = self.new_spec(subject)
        before = self.new_driver(subject, spec)
        await until_torn_down(before)
        await before.close()
        async with running(self.new_driver(subject, spec)) as driver:
            sweeper = self.new_driver(subject, spec)
            await until_torn_down(sweeper)
            assert await sweeper.tear_down() is True
            await sweeper.close()
            assert await subject.leftovers(spec) == []
        assert await driver.tear_down() is True
        await driver.close()

    async def test_an_unreachable_store_cannot_be_prepared(self, subject: SubjectT) -> None:
        """The state machine matches the error's name to retry, and then to fail the trial."""
        driver = subject.unreachable(self.new_spec(subject))
        async with asyncio.timeout(GIVE_UP_LIMIT_S):
            with pytest.raises(TargetUnavailableError):
                await driver.prepare()
        await driver.close()

    async def test_close_twice_is_safe(self, subject: SubjectT) -> None:
        """A stage closes in `finally`, also after `open` failed or was never called."""
        driver = self.new_driver(subject, self.new_spec(subject))
        await driver.close()
        await driver.open()
        await driver.close()
        await driver.close()

    async def test_the_provider_is_named(self, subject: SubjectT) -> None:
        """A latency without the name and version of what served it cannot be compared."""
        driver = self.new_driver(subject, self.new_spec(subject))
        before = await driver.provider()
        await driver.open()
        opened = await driver.provider()
        await driver.close()
        assert all(
            name.startswith("Amazon ") or any(character.isdigit() for character in name) for name in (before, opened)
        )


async def offer_to_nobody(driver: Store, offer: Callable[[], Awaitable[Answer]]) -> None:
    """Open a driver without a store and offer it something, which has to end in good time and to say why; close it."""
    try:
        async with asyncio.timeout(GIVE_UP_LIMIT_S):
            await driver.open()
            answer = await offer()
        assert answer.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
        assert answer.error
        assert answer.t1_ns <= answer.t2_ns
    except TargetUnavailableError as refused:
        assert str(refused)  # noqa: PT017 -- either end is right; the message is what a user sees
    finally:
        await driver.close()
