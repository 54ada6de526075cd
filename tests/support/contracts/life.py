"""
A store's way through a trial: what holds for every store, whatever is measured.

`LifeContract` is a part of `TriggerContract` and of `OperationsContract`; the functions are for any test of a driver.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import pytest

from stepbench.drivers.protocol import Driver, Warmable
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.fault_proxy import FaultProxy, Framing

    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request, Result

LOOK_LIMIT_S = 15
"""So soon `open` and `ready` have to say that nobody answers: a trial on a dead store should not hold up its run."""
GIVE_UP_LIMIT_S = 45
"""By then whatever is offered to nobody has to have ended, whatever time-out the driver chose."""
ANSWER_LIMIT_S = 30
RETRY_S = 0.05
"""A request that was sent too soon would have had its effect by then."""
CLOCK_TOLERANCE_NS = 5_000_000
UNCOLLECTED = 60
"""So many requests leave fewer objects than that to the garbage collector."""


class LivingSubject(Protocol):
    """What `TriggerSubject` and `OperationsSubject` have in common; see there."""

    @property
    def target(self) -> object: ...  # noqa: D102 -- see there

    def unreachable(self, spec: TrialSpec) -> Driver: ...  # noqa: D102

    async def read_back(self, spec: TrialSpec, key: str) -> object: ...  # noqa: D102

    async def leftovers(self, spec: TrialSpec) -> list[str]: ...  # noqa: D102


class ProxiedSubject(Protocol):
    """A store that is reached through a proxy, too; a part of `WatchSubject` and of `OperationsSubject`."""

    @property
    def upstream(self) -> str:
        """Return the server's address, host:port or URL, for a proxy before it."""
        ...

    @property
    def framing(self) -> Callable[[], Framing]:
        """Return how its bytes are framed: one of `tests.support.fault_proxy`."""
        ...

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> Driver:
        """Return a driver that reaches the store through a proxy, and gives an operation `SILENT_LIMIT_S`."""
        ...


SubjectT = TypeVar("SubjectT", bound=LivingSubject)


class LifeContract(Generic[SubjectT]):
    """The tests of every store; stages call `prepare`, `ready`, `tear_down` and `provider` without `open`."""

    def new_spec(self, subject: SubjectT) -> TrialSpec:
        """Return a trial with a namespace that no other test has."""
        raise NotImplementedError

    def new_driver(self, subject: SubjectT, spec: TrialSpec) -> Driver:
        """Return a driver for the running store."""
        raise NotImplementedError

    def new_request(self, spec: TrialSpec) -> Request:
        """Return a request that writes a value under a key that is not there."""
        raise NotImplementedError

    async def test_open_has_no_effect_on_data(self, subject: SubjectT) -> None:
        """Every writer opens the driver, also one that starts while another measures."""
        spec = self.new_spec(subject)
        driver = self.new_driver(subject, spec)
        try:
            await driver.prepare()
            await until_ready(driver)
            before = sorted(await subject.leftovers(spec))
            await driver.open()
            if isinstance(driver, Warmable):
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

    def test_what_it_removes_is_named_by_the_trials_tag(self, subject: SubjectT) -> None:
        """The run's output lists it, so that whoever finds something of the name in the store knows whose it was."""
        spec = self.new_spec(subject)
        names = self.new_driver(subject, spec).resource_names()
        assert names
        assert all(spec.tag.replace("-", "_") in name.replace("-", "_") for name in names)

    async def test_a_look_at_the_store_makes_nothing(self, subject: SubjectT) -> None:
        """PrepareTarget asks whether the store answers before it notes that there may be something to tear down."""
        spec = self.new_spec(subject)
        driver = self.new_driver(subject, spec)
        try:
            await driver.open()
            await driver.ready()
            assert await subject.leftovers(spec) == []
        finally:
            await until_torn_down(driver)
            await driver.close()

    async def test_an_unreachable_store_is_found_out_by_a_look(self, subject: SubjectT) -> None:
        """A trial that has made nothing gives its lease back at once; the next on this store fails at once, too."""
        driver = subject.unreachable(self.new_spec(subject))
        try:
            async with asyncio.timeout(LOOK_LIMIT_S):
                with pytest.raises(TargetUnavailableError):
                    await look(driver)
        finally:
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

    async def test_a_prepared_request_is_sent_when_it_is_due(self, subject: SubjectT) -> None:
        """It is prepared while its time is awaited; sent too soon it would be early, sent twice another load."""
        spec = self.new_spec(subject)
        request, collector = self.new_request(spec), ResultCollector()
        async with running(self.new_driver(subject, spec)) as driver:
            if isinstance(driver, Warmable):
                await driver.warm_up()
            pending = driver.prepare_request(request)
            await asyncio.sleep(RETRY_S)
            assert await subject.read_back(spec, request.key) is None
            before_ns = time.time_ns()
            collector.send(pending)
            results = await collector.wait()
            await asyncio.sleep(RETRY_S)
            assert await subject.read_back(spec, request.key) == request.value
        assert [(each.outcome, each.error) for each in results] == [(Outcome.OK, "")]
        assert before_ns - CLOCK_TOLERANCE_NS <= results[0].t1_ns < results[0].t2_ns
        assert collector.while_sending == []


async def look(driver: Driver) -> None:
    """Ask a store for a sign of life, as PrepareTarget does."""
    await driver.open()
    await driver.ready()


class ResultCollector:
    """Collects results, those that came from within `send` apart."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.while_sending: list[Result] = []
        self._is_sending = False
        self._arrived = asyncio.Event()

    def send(self, pending: PendingRequest) -> None:
        """Send a request."""
        self._is_sending = True
        pending.send(self._add)
        self._is_sending = False

    async def wait(self, count: int = 1) -> list[Result]:
        """Return the results as soon as there are so many."""
        async with asyncio.timeout(ANSWER_LIMIT_S):
            while len(self.results) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.results

    def _add(self, result: Result) -> None:
        (self.while_sending if self._is_sending else self.results).append(result)
        self._arrived.set()


async def offer_to_nobody(driver: Driver, offer: Callable[[], Awaitable[Result]]) -> None:
    """Offer a request to a driver without a store: it has to end in good time and to give a reason."""
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


StoreT = TypeVar("StoreT", bound=Driver)
READY_LIMIT_S = 60
TEAR_DOWN_LIMIT_S = 120


async def until_ready(driver: Driver) -> None:
    """Poll `ready`; a TimeoutError fails the test."""
    async with asyncio.timeout(READY_LIMIT_S):
        while not await driver.ready():  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.05)


async def until_torn_down(driver: Driver) -> None:
    """Call `tear_down` until it returns True; a TimeoutError fails the test."""
    async with asyncio.timeout(TEAR_DOWN_LIMIT_S):
        while not await driver.tear_down():  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(driver: StoreT) -> AsyncIterator[StoreT]:
    """Yield the driver prepared, ready and open; tear it down and close it at the end, also after a failure."""
    try:
        await driver.prepare()
        await until_ready(driver)
        await driver.open()
        yield driver
    finally:
        await until_torn_down(driver)
        await driver.close()
