"""
How the connections of every store whose operations are measured are made, used one request after the other, and lost.

`ConnectionsContract` and `ChainedContract` are parts of `OperationsContract`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.contracts.life import (
    ANSWER_LIMIT_S,
    CLOCK_TOLERANCE_NS,
    GIVE_UP_LIMIT_S,
    RETRY_S,
    UNCOLLECTED,
    ResultCollector,
    offer_to_nobody,
    until_ready,
    until_torn_down,
)
from tests.support.contracts.operations_subject import (
    CLIENTS,
    SILENT_LIMIT_S,
    OperationsSubject,
    contents_of,
    operating,
    operations_spec,
    until_operated,
)
from tests.support.fault_proxy import Drop, Rule, fault_proxy

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Warmable
from stepbench.load.process import gc_paused
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench.workload.choices import INSERTED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.model.request import PendingRequest, Result

MANY_CLIENTS = 64
LOOK_UP_S = 0.05
CHAINED = 40
NEVER = INSERTED + 99
"""This is the number of a record that nobody has written."""


class ConnectionsContract:
    """The tests of connections."""

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_a_silent_server_is_unknown_and_the_next_operation_goes_on(
        self, subject: OperationsSubject, *, reuse: bool
    ) -> None:
        """No answer is no refusal; and a late answer must not be taken for the next operation's."""
        spec = operations_spec(subject.target, reuse=reuse)
        contents = contents_of(spec)
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver, asyncio.timeout(GIVE_UP_LIMIT_S):
                assert (await perform(driver, contents.operation(Kind.READ, 0, 0))).outcome is Outcome.OK
                proxy.follow(Rule(Drop("answer")))
                silent = await perform(driver, contents.operation(Kind.OVERWRITE, 1, 5))
                proxy.follow()
                after = await until_operated(driver, contents.operation(Kind.READ, 1, 0))
            assert silent.outcome in _no_answer(reuse=reuse)
            assert silent.error
            assert silent.t2_ns - silent.t1_ns >= SILENT_LIMIT_S * 1e9 * 0.9
            assert all(each.outcome is not Outcome.OK for each in after[:-1])

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_an_unreachable_store_is_an_outcome(self, subject: OperationsSubject, *, reuse: bool) -> None:
        """A store that dies in the middle of a trial is a result; a hang or a stray exception loses the records."""
        spec = operations_spec(subject.target, reuse=reuse)
        driver = subject.unreachable(spec)

        async def offer() -> Result:
            if isinstance(driver, Warmable):
                await driver.warm_up()
            return await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))

        await offer_to_nobody(driver, offer)

    async def test_only_the_writer_makes_the_connections_of_the_load(self, subject: OperationsSubject) -> None:
        """A server that has a place for each client has none left for the stage that clears up after them."""
        spec = operations_spec(subject.target, clients=MANY_CLIENTS)
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            driver = subject.through(spec, proxy)
            try:
                await driver.open()
                opened = proxy.stats().connections
                await driver.prepare()
                await until_ready(driver)
                served = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
            finally:
                await until_torn_down(driver)
                await driver.close()
            assert served.outcome is Outcome.OK
            assert opened <= 1
            assert proxy.stats().connections < MANY_CLIENTS

    async def test_the_writer_connects_its_clients_before_the_load(self, subject: OperationsSubject) -> None:
        """A connection that is made under load holds requests up, and no result says so."""
        spec = operations_spec(subject.target)
        contents = contents_of(spec)
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver:
                other = subject.through(spec, proxy)
                assert await other.ready()  # its connection is accepted after those that were made before
                await other.close()
                made = proxy.stats().connections
                reads = [contents.operation(Kind.READ, client, 0, client=client) for client in range(CLIENTS)]
                results = await asyncio.gather(*map(partial(perform, driver), reads))
                assert proxy.stats().connections == made
        assert [each.outcome for each in results] == [Outcome.OK] * CLIENTS

    async def test_names_are_looked_up_before_the_time_begins(
        self, subject: OperationsSubject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name server is not under test: not for the first operation, nor after nobody answered at an address."""
        spec = operations_spec(subject.target, reuse=False)
        found_ns: list[int] = []
        loop = asyncio.get_running_loop()
        look_up = loop.getaddrinfo

        async def slow(host: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401 -- as the loop's own
            found = await look_up(host, *args, **options)
            if host == "localhost":  # else a number, which uvloop asks about each time it connects
                await asyncio.sleep(LOOK_UP_S)
                found_ns.append(time.time_ns())
            return found

        async with operating(subject.operable(spec)):
            with fault_proxy(subject.upstream, subject.framing) as proxy, monkeypatch.context() as patched:
                patched.setattr(loop, "getaddrinfo", slow)
                proxy.endpoint = proxy.endpoint.replace("127.0.0.1", "localhost")
                driver = subject.through(spec, proxy)
                await driver.open()
                results = []
                for _ in range(3):
                    results.append(await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0)))
                    assert results[-1].t1_ns >= found_ns[-1] - CLOCK_TOLERANCE_NS
                    proxy.stop()
                await driver.close()
        assert [each.outcome for each in results] == [Outcome.OK, Outcome.FAILED, Outcome.FAILED]


class ChainedContract:
    """The tests of requests that follow each other on a connection."""

    async def test_the_next_request_is_prepared_while_the_last_is_under_way(self, subject: OperationsSubject) -> None:
        """A closed loop does so: each answer sends the request that was prepared before, which gets its own answer."""
        spec = operations_spec(subject.target)
        contents, outcomes = contents_of(spec), list[Outcome]()
        records = [number % 7 if number % 5 else NEVER for number in range(CHAINED)]
        async with operating(subject.operable(spec)) as driver:
            make = driver.prepare_request
            await _chain([partial(make, contents.operation(Kind.READ, each, 0)) for each in records], outcomes)
        assert outcomes == [Outcome.FAILED if each == NEVER else Outcome.OK for each in records]

    async def test_chained_operations_leave_nothing_to_the_garbage_collector(self, subject: OperationsSubject) -> None:
        """The collector is off under load."""
        spec = operations_spec(subject.target)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            make = driver.prepare_request
            await _chain([partial(make, operation)], [])
            with gc_paused():
                outcomes: list[Outcome] = []
                await _chain([partial(make, operation)] * UNCOLLECTED, outcomes)
                assert outcomes == [Outcome.OK] * UNCOLLECTED
                assert gc.collect() < UNCOLLECTED

    async def test_an_abandoned_request_has_a_result_and_its_late_answer_is_dropped(
        self, subject: OperationsSubject
    ) -> None:
        """The load has a row to write, and the next operation must not get this one's answer."""
        spec = operations_spec(subject.target)
        contents, collector = contents_of(spec), ResultCollector()
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver, asyncio.timeout(ANSWER_LIMIT_S):
                assert (await perform(driver, contents.operation(Kind.READ, 0, 0))).outcome is Outcome.OK
                make = driver.prepare_request
                proxy.follow(Rule(Drop("answer")))
                pending = make(contents.operation(Kind.OVERWRITE, 1, 5))
                collector.send(pending)
                await asyncio.sleep(RETRY_S)
                assert collector.results == []
                pending.abandon()
                pending.abandon()
                answers = list(await collector.wait())
                proxy.follow()
                after = await until_operated(driver, contents.operation(Kind.READ, 1, 0))
        assert [each.outcome for each in answers] == [Outcome.UNKNOWN]
        assert answers[0].error
        assert len(collector.results) == 1
        assert after[-1].outcome is Outcome.OK


def _no_answer(*, reuse: bool) -> frozenset[Outcome]:
    """Without reuse, a server may fall silent before it was asked for anything: while it greets."""
    return frozenset({Outcome.UNKNOWN} if reuse else {Outcome.UNKNOWN, Outcome.FAILED})


async def _chain(makers: Sequence[Callable[[], PendingRequest]], outcomes: list[Outcome]) -> None:
    """Send requests one after the other, each from the callback of the last, prepared while that was awaited."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ahead = [makers[0]()]

    def send() -> None:
        ahead.pop().send(done)
        if len(outcomes) + 1 < len(makers):
            ahead.append(makers[len(outcomes) + 1]())

    def done(answer: Result) -> None:
        outcomes.append(answer.outcome)
        if len(outcomes) == len(makers):
            ended.set_result(None)
        else:
            send()

    send()
    async with asyncio.timeout(ANSWER_LIMIT_S):
        await ended
