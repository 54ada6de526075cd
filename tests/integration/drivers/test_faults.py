"""
Every fault of the proxy in front of every store: what comes of the writes, and whether the driver goes on afterwards.

The stores are the real ones (S3 and DynamoDB: the emulator). `docs/outcomes.md`, "Under faults", shows the same table.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.integration.drivers.dynamodb.conftest import DynamoDbSubject
from tests.integration.drivers.etcd.conftest import EtcdSubject, etcd_driver
from tests.integration.drivers.postgresql.conftest import PostgresqlSubject, postgresql_driver
from tests.integration.drivers.s3.test_trigger import S3Subject
from tests.integration.drivers.sql.superuser import call_receiver_at
from tests.samples.lambda_api import lambda_api
from tests.support.contracts.life import until_ready, until_torn_down
from tests.support.contracts.trigger_subject import contract_spec, contract_write
from tests.support.fault_proxy import (
    DYNAMODB_EXCEEDED,
    DYNAMODB_THROTTLING,
    LAMBDA_TOO_MANY,
    S3_SLOW_DOWN,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultProxy,
    Framing,
    Limit,
    Rule,
    Throttle,
    fault_proxy,
    http1,
    http2,
    postgresql,
)

from stepbench.clock import AnchoredClock
from stepbench.drivers.dynamodb.trigger import DynamoDbDriver
from stepbench.drivers.etcd.cluster import EtcdLimits
from stepbench.drivers.postgresql.trigger import PostgresqlDriver
from stepbench.drivers.s3.trigger import S3Driver
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from tests.support.contracts.trigger_subject import TriggerSubject

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import Request
    from stepbench.services import Services
    from stepbench_tools.local.stores import LocalStore

pytestmark = [pytest.mark.emulator, pytest.mark.stores]

WRITE_LIMIT_S = 1.0
HANG_LIMIT_S = 120
WRITES = 2
ETCD_LIMITS = EtcdLimits(
    write_s=WRITE_LIMIT_S, control_s=WRITE_LIMIT_S, ping_every_s=0.5, pong_within_s=1.5 * WRITE_LIMIT_S
)


class Store(NamedTuple):
    """A store, how its bytes are framed, and how a driver for another address of it is made."""

    name: str
    subject: TriggerSubject
    upstream: str
    framing: Callable[[], Framing]
    driver: Callable[[TrialSpec, FaultProxy], Driver]
    receiver: FaultProxy | None = None


class Expected(NamedTuple):
    """What comes of one write. `applied`: whether the store has it."""

    outcome: Outcome
    error: str = ""
    applied: bool = True


OK = Expected(Outcome.OK)
SLOW = Delay(answer_s=2 * WRITE_LIMIT_S)
FAULTS: dict[str, Fault] = {
    "throttle": Throttle(DYNAMODB_THROTTLING),
    "throttle, provisioned": Throttle(DYNAMODB_EXCEEDED),
    "slow down": Throttle(S3_SLOW_DOWN),
    "limit": Limit(bytes_per_s=50_000),
    "delay request": Delay(request_s=0.05),
    "delay answer": Delay(answer_s=0.05),
    "delay beyond the limit": SLOW,
    "drop request": Drop("request"),
    "drop answer": Drop("answer"),
    "duplicate": Duplicate(),
    "reset before request": Cut("before-request"),
    "close before request": Cut("before-request", "fin"),
    "reset in request": Cut("in-request", after_bytes=200),
    "reset before answer": Cut("before-answer"),
    "close before answer": Cut("before-answer", "fin"),
    "reset in answer": Cut("in-answer"),
    "close in answer": Cut("in-answer", "fin"),
}
ONLY: dict[str, set[str]] = {
    "throttle": {"dynamodb"},
    "throttle, provisioned": {"dynamodb"},
    "slow down": {"s3"},
    "duplicate": {"s3", "dynamodb"},
}
REFUSED = {
    "throttle": "ThrottlingException",
    "throttle, provisioned": "ProvisionedThroughputExceededException",
    "slow down": "SlowDown",
}
GOES_THROUGH = {"limit", "delay request", "delay answer", "duplicate"}
NEVER_REACHES = {"drop request", "reset before request", "close before request", "reset in request"}


def faults_of(store: str) -> list[str]:
    """Return the faults that can happen to a store."""
    return [fault for fault in FAULTS if store in ONLY.get(fault, STORES)]


def expected(store: str, fault: str) -> Expected:
    """Return a row of the table in `docs/outcomes.md`."""
    if fault in REFUSED:
        return Expected(Outcome.FAILED, REFUSED[fault], applied=False)
    if fault in GOES_THROUGH:
        return OK
    if fault == "delay beyond the limit" or fault.startswith("drop"):
        error = "timeout"
    else:  # libpq does not tell a reset from an end
        error = "connection-reset" if fault.startswith("reset") and store != "postgresql" else "connection-closed"
    return Expected(Outcome.UNKNOWN, error, applied=fault not in NEVER_REACHES)


@contextmanager
def _aws_store(name: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    services: Services = request.getfixturevalue("services")
    receiver = request.getfixturevalue("receiver_arn")
    settings = services.settings.model_copy(update={"receive_events_function_arn": receiver})
    receiving = request.getfixturevalue("receiving")
    subject = (S3Subject if name == "s3" else DynamoDbSubject)(services, settings, receiving)
    make = S3Driver if name == "s3" else DynamoDbDriver

    def driver(spec: TrialSpec, proxy: FaultProxy) -> Driver:
        through = settings.model_copy(update={"aws_endpoint_url": proxy.url})
        made: Driver = make(spec, through, AnchoredClock(), answer_limit_s=WRITE_LIMIT_S)
        return made

    yield Store(name, subject, settings.aws_endpoint_url, http1, driver)


@contextmanager
def _etcd_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    server: LocalStore = request.getfixturevalue("etcd_server")

    def driver(spec: TrialSpec, proxy: FaultProxy) -> Driver:
        return etcd_driver(spec, proxy.endpoint, ETCD_LIMITS)

    yield Store("etcd", EtcdSubject(server.endpoint), server.endpoint, http2, driver)


@contextmanager
def _postgresql_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    endpoint: str = request.getfixturevalue("postgresql_server").endpoint
    database = endpoint.partition("/")[2]

    def driver(spec: TrialSpec, proxy: FaultProxy) -> PostgresqlDriver:
        there = f"{proxy.endpoint}/{database}"
        return postgresql_driver(spec, there, write_limit_s=WRITE_LIMIT_S, control_limit_s=WRITE_LIMIT_S)

    with lambda_api() as api, fault_proxy(api.endpoint, http1) as receiver:
        call_receiver_at(endpoint, receiver.endpoint)
        yield Store("postgresql", PostgresqlSubject(endpoint, api), endpoint, postgresql, driver, receiver)


STORES: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Store]]] = {
    "s3": partial(_aws_store, "s3"),
    "dynamodb": partial(_aws_store, "dynamodb"),
    "postgresql": _postgresql_store,
    "etcd": _etcd_store,
}
"""The stores that are put behind the proxy; what is expected of another one is a column of the table in the docs."""


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """One of the stores by name; only this one is started."""
    with STORES[request.param](request) as made:
        yield made


class Trial(NamedTuple):
    """A store that is ready, a driver that reaches it through a proxy of its own, and what was written."""

    store: Store
    spec: TrialSpec
    driver: Driver
    proxy: FaultProxy
    written: dict[Request, Result]

    async def write(self, *sequences: int) -> list[Result]:
        """Write one after the other; none may be offered twice."""
        results = []
        for sequence in sequences:
            write = contract_write(self.spec, sequence)
            assert write not in self.written
            self.written[write] = await perform(self.driver, write)
            results.append(self.written[write])
        return results

    async def applied(self, write: Request, *, wanted: bool = False) -> bool:
        """Return whether the store has it; one that is `wanted` is waited for, since the store may still be at it."""
        for _ in range(500 if wanted else 1):
            if await self.store.subject.read_back(self.spec, write.key) is not None:
                return True
            await asyncio.sleep(0.01)
        return False


@asynccontextmanager
async def trial(store: Store) -> AsyncIterator[Trial]:
    """Yield a trial that is undisturbed until a rule is set; see that no connection and no task is left open."""
    async with side_by_side(store, 1) as (one,):
        yield one


@asynccontextmanager
async def side_by_side(store: Store, count: int) -> AsyncIterator[list[Trial]]:
    """Yield one trial by way of so many drivers, whose faults do not meet: time-outs are waited for together."""
    before = asyncio.all_tasks()
    spec = contract_spec(store.subject.target)
    async with asyncio.timeout(HANG_LIMIT_S):
        with ExitStack() as stack:
            proxies = [stack.enter_context(fault_proxy(store.upstream, store.framing)) for _ in range(count)]
            drivers = [store.driver(spec, proxy) for proxy in proxies]
            try:
                await drivers[0].prepare()
                await until_ready(drivers[0])
                for driver in drivers:
                    await driver.open()
                yield [Trial(store, spec, driver, proxy, {}) for driver, proxy in zip(drivers, proxies, strict=True)]
            finally:
                for driver in drivers:
                    await driver.close()
            gc.collect()  # urllib3's pools end with their last reference, and a caught error's frames may hold one
            for proxy in proxies:
                await asyncio.to_thread(proxy.await_idle)
                proxy.follow()
            await until_torn_down(drivers[0])
            await drivers[0].close()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before


async def until_ok(on: Trial, first: int) -> list[Result]:
    """Write until one succeeds; return what the others came to."""
    between: list[Result] = []
    for sequence in range(first, first + 200):
        (written,) = await on.write(sequence)
        if written.outcome is Outcome.OK:
            return between
        between.append(written)
        await asyncio.sleep(0.02)
    pytest.fail("the driver does not recover")


@pytest.mark.parametrize("store", STORES, indirect=True)
async def test_a_write_under_a_fault_is_what_the_store_made_of_it(store: Store, subtests: pytest.Subtests) -> None:
    """An applied write that counts as failed is an arrival out of nowhere; a lost one that counts as ok is a loss."""
    names = faults_of(store.name)
    quick = [name for name in names if expected(store.name, name).error != "timeout"]
    portions = [quick, *([name] for name in names if name not in quick)]
    async with side_by_side(store, len(portions)) as trials:
        lanes = [
            break_writes(on, faults, 100_000 * lane)
            for lane, (on, faults) in enumerate(zip(trials, portions, strict=True))
        ]
        seen = {fault: broken for lane in await asyncio.gather(*lanes) for fault, broken in lane.items()}
    for fault in names:
        with subtests.test(fault):
            broken = seen[fault]
            if isinstance(broken, BaseException):
                raise broken
            check_fault(store.name, fault, broken)


class Broken(NamedTuple):
    """What came of the writes that a fault has met, and of those after them until one succeeded."""

    faulted: list[tuple[Outcome, str]]
    between: list[Result]
    applied: list[bool]
    faults: dict[str, int]


async def break_writes(on: Trial, faults: Iterable[str], first: int) -> dict[str, Broken | BaseException]:
    """Break writes fault by fault, on the same driver; what one of them raises is its own."""
    seen: dict[str, Broken | BaseException] = {}
    for number, fault in enumerate(faults):
        try:
            seen[fault] = await break_write(on, fault, first + number * 10_000)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # raised again under the fault's name
            seen[fault] = error
            on.proxy.follow()
    return seen


async def break_write(on: Trial, fault: str, first: int) -> Broken:
    """Break writes one by one, each followed by an undisturbed one."""
    wanted = expected(on.store.name, fault)
    sequences = [first + write * 1_000 for write in range(WRITES)]
    on.proxy.forget()
    broken, between = list[Result](), list[Result]()
    for sequence in sequences:
        on.proxy.follow(Rule(FAULTS[fault], times=1))
        broken += await on.write(sequence)
        on.proxy.follow()
        between += await until_ok(on, sequence + 1)
    applied = [await on.applied(contract_write(on.spec, each), wanted=wanted.applied) for each in sequences]
    faulted = [(each.outcome, each.error) for each in broken]
    return Broken(faulted, between, applied, dict(on.proxy.stats().faults))


def check_fault(store: str, fault: str, seen: Broken) -> None:
    """Compare with the row of the table."""
    wanted = expected(store, fault)
    assert seen.faulted == [(wanted.outcome, wanted.error)] * WRITES
    assert {each.outcome for each in seen.between} <= {Outcome.UNKNOWN}
    # All of etcd's writes share a connection, so those that come before it is replaced share its fate.
    assert not seen.between or store == "etcd"
    assert seen.applied == [wanted.applied] * WRITES
    assert seen.faults == {FAULTS[fault].name: WRITES}


@pytest.mark.parametrize("store", STORES, indirect=True)
async def test_the_books_balance_in_a_storm(store: Store) -> None:
    """Sixty writes in flight while a third of the requests meets one fault or another: each ends once, and truly."""
    async with trial(store) as on:
        share = partial(Rule, share=0.08)
        rules = [
            share(Cut("before-request"), seed=1),
            share(Cut("before-answer", "fin"), seed=2),
            share(Cut("in-answer"), seed=3),
            share(Delay(request_s=0.02, answer_s=0.02), seed=4),
        ]
        on.proxy.follow(*rules, *([share(Throttle(), seed=5)] if store.framing is http1 else []))
        await asyncio.gather(*(on.write(sequence) for sequence in range(60)))
        on.proxy.follow()
        await until_ok(on, 1_000)
        outcomes = Counter(each.outcome for each in on.written.values())
        truth = {
            write: await on.applied(write, wanted=each.outcome is Outcome.OK) for write, each in on.written.items()
        }
    assert sum(outcomes.values()) == len(on.written)
    assert outcomes[Outcome.UNKNOWN] > 0
    assert all(truth[write] for write, each in on.written.items() if each.outcome is Outcome.OK)
    assert not any(truth[write] for write, each in on.written.items() if each.outcome is Outcome.FAILED)
    assert all(bool(each.error) != (each.outcome is Outcome.OK) for each in on.written.values())


LASTING: dict[str, tuple[Rule, ...]] = {
    "s3": (Rule(Throttle(S3_SLOW_DOWN)),),
    "dynamodb": (Rule(Cut("before-request", "fin")),),
    # The first request is the start-up message, for which connecting has a limit of its own.
    "postgresql": (Rule(Drop("request"), from_nth=2), Rule(Drop("answer"), from_nth=2), Rule(Cut("before-answer"))),
    "etcd": (Rule(Drop("request")), Rule(Drop("answer")), Rule(Cut("before-answer"))),
}


@pytest.mark.parametrize("store", STORES, indirect=True)
async def test_preparing_and_clearing_up_under_a_lasting_fault_are_refused(
    store: Store, subtests: pytest.Subtests
) -> None:
    """The state machine retries on this error's name; a hang would use up the function's time and leave no reason."""
    asked = [(rule, method) for rule in LASTING[store.name] for method in ("prepare", "ready", "tear_down")]
    async with side_by_side(store, len(asked)) as trials:
        for on, (rule, _) in zip(trials, asked, strict=True):
            on.proxy.follow(rule)
        calls = [getattr(on.driver, method)() for on, (_, method) in zip(trials, asked, strict=True)]
        answers = [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)]
        for (rule, method), answer in zip(asked, answers, strict=True):
            with subtests.test(f"{method}, {rule.fault.name}"):
                assert issubclass(answer, TargetUnavailableError)
        for on in trials:
            on.proxy.follow()
            await on.driver.prepare()
            assert await on.driver.ready()


@pytest.mark.parametrize("fault", [Drop("request"), Drop("answer")], ids=lambda fault: fault.name)
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
async def test_opening_on_a_server_that_falls_silent_is_refused(store: Store, fault: Fault) -> None:
    """The first statement of a new session once had no limit: a writer hung until its function was killed."""
    async with trial(store) as on:
        await on.driver.close()
        on.proxy.follow(Rule(fault, match=b"stepbench_insert"))
        with pytest.raises(TargetUnavailableError):
            await on.driver.open()
        on.proxy.follow()
        await on.driver.open()
        assert await until_ok(on, 1) == []


@pytest.mark.parametrize("fault", [Throttle(LAMBDA_TOO_MANY), Cut("before-answer")], ids=lambda fault: fault.name)
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
async def test_a_receiver_that_cannot_be_invoked_fails_the_insert(store: Store, fault: Fault) -> None:
    """The trigger runs in the transaction, so it is rolled back, and the write is certainly not there."""
    async with trial(store) as on:
        assert store.receiver is not None
        store.receiver.follow(Rule(fault))
        (written,) = await on.write(1)
        store.receiver.follow()
        assert await until_ok(on, 2) == []
        applied = await on.applied(contract_write(on.spec, 1))
    assert (written.outcome, written.error, applied) == (Outcome.FAILED, "38000", False)
