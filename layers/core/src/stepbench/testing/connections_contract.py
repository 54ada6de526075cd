"""
What holds for the connections of every store whose operations are measured: how they are made, and lost.

A part of `OperableContract`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.testing.fault_proxy import Drop, Rule, fault_proxy
from stepbench.testing.life_contract import GIVE_UP_LIMIT_S, offer_to_nobody
from stepbench.testing.operable_subject import (
    SILENT_LIMIT_S,
    OperableSubject,
    contents_of,
    operating,
    operations_spec,
    until_operated,
)
from stepbench.testing.store_life import until_ready, until_torn_down

if TYPE_CHECKING:
    from stepbench.drivers.protocol import Operated

CLOCK_TOLERANCE_NS = 5_000_000
MANY_CLIENTS = 64
LOOK_UP_S = 0.05


class ConnectionsContract:
    """The tests."""

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_a_silent_server_is_unknown_and_the_next_operation_goes_on(
        self, subject: OperableSubject, *, reuse: bool
    ) -> None:
        """No answer is no refusal; and a late answer must not be taken for the next operation's."""
        spec = operations_spec(subject.target, reuse=reuse)
        contents = contents_of(spec)
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver, asyncio.timeout(GIVE_UP_LIMIT_S):
                assert (await driver.operate(contents.operation(Kind.READ, 0, 0))).outcome is Outcome.OK
                proxy.follow(Rule(Drop("answer")))
                silent = await driver.operate(contents.operation(Kind.OVERWRITE, 1, 5))
                proxy.follow()
                after = await until_operated(driver, contents.operation(Kind.READ, 1, 0))
            assert silent.outcome in _no_answer(reuse=reuse)
            assert silent.error
            assert silent.t2_ns - silent.t1_ns >= SILENT_LIMIT_S * 1e9 * 0.9
            assert all(each.outcome is not Outcome.OK for each in after[:-1])

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_an_unreachable_store_is_an_outcome(self, subject: OperableSubject, *, reuse: bool) -> None:
        """A store that dies in the middle of a trial is a result; a hang or a stray exception loses the records."""
        spec = operations_spec(subject.target, reuse=reuse)
        driver = subject.unreachable(spec)

        async def offer() -> Operated:
            await driver.warm_up()
            return await driver.operate(contents_of(spec).operation(Kind.READ, 0, 0))

        await offer_to_nobody(driver, offer)

    async def test_only_the_writer_makes_the_connections_of_the_load(self, subject: OperableSubject) -> None:
        """A server that has a place for each client has none left for the stage that clears up after them."""
        spec = operations_spec(subject.target, clients=MANY_CLIENTS)
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            driver = subject.through(spec, proxy)
            try:
                await driver.open()
                opened = proxy.stats().connections
                await driver.prepare()
                await until_ready(driver)
                served = await driver.operate(contents_of(spec).operation(Kind.READ, 0, 0))
            finally:
                await until_torn_down(driver)
                await driver.close()
            assert served.outcome is Outcome.OK
            assert opened <= 1
            assert proxy.stats().connections < MANY_CLIENTS

    async def test_names_are_looked_up_before_the_time_begins(
        self, subject: OperableSubject, monkeypatch: pytest.MonkeyPatch
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
                    results.append(await driver.operate(contents_of(spec).operation(Kind.READ, 0, 0)))
                    assert results[-1].t1_ns >= found_ns[-1] - CLOCK_TOLERANCE_NS
                    proxy.stop()
                await driver.close()
        assert [each.outcome for each in results] == [Outcome.OK, Outcome.FAILED, Outcome.FAILED]


def _no_answer(*, reuse: bool) -> frozenset[Outcome]:
    """Without reuse, a server may fall silent before it was asked for anything: while it greets."""
    return frozenset({Outcome.UNKNOWN} if reuse else {Outcome.UNKNOWN, Outcome.FAILED})
