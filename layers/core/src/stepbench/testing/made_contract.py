"""
What holds for writes and operations that are made ahead of their time, whatever the store: see `drivers.protocol.Made`.

Parts of `DriverContract` and `OperableContract`. Drivers that know only `write` or `operate` go through
`drivers.tasked`, as they do under load.
"""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.load.making import operation_maker, write_maker
from stepbench.load.quiet import quiet
from stepbench.load.workload import INSERTED
from stepbench.testing.driver_subject import Subject, contract_spec, contract_write
from stepbench.testing.fault_proxy import Drop, Rule, fault_proxy
from stepbench.testing.operable_subject import (
    OperableSubject,
    contents_of,
    operating,
    operations_spec,
    stored_of,
    until_operated,
)
from stepbench.testing.store_life import running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.drivers.protocol import Answer, Made

ANSWER_LIMIT_S = 30
PATIENCE_S = 0.05
"""Long enough for what was made to be on its way, if it were."""
CLOCK_TOLERANCE_NS = 5_000_000
CHAINED = 40
NEVER = INSERTED + 99
"""The number of a record that nobody has written."""
UNCOLLECTED = 60


class Told:
    """What `done` was told, with the moment's circumstances."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.while_sending: list[Any] = []
        self._sending = False
        self._came = asyncio.Event()

    def send(self, made: Made[Any]) -> None:
        """Send it, with ourselves to be told."""
        self._sending = True
        made.send(self._done)
        self._sending = False

    async def wait(self, count: int = 1) -> list[Any]:
        """The answers, as soon as there are so many."""
        async with asyncio.timeout(ANSWER_LIMIT_S):
            while len(self.answers) < count:
                self._came.clear()
                await self._came.wait()
        return self.answers

    def _done(self, answer: Answer) -> None:
        (self.while_sending if self._sending else self.answers).append(answer)
        self._came.set()


class MadeOperationsContract:
    """The tests of operations."""

    async def test_what_is_made_is_sent_when_it_is_told_to_be(self, subject: OperableSubject) -> None:
        """It is made while its time is awaited; sent too soon, or twice, it would be another load."""
        spec = operations_spec(subject.target)
        contents, told = contents_of(spec), Told()
        insert = contents.operation(Kind.INSERT, INSERTED, 0)
        async with operating(subject.operable(spec)) as driver:
            made = operation_maker(driver, AnchoredClock())(insert)
            await asyncio.sleep(PATIENCE_S)
            assert await subject.read_back(spec, insert.key) is None
            before_ns = time.time_ns()
            told.send(made)
            answers = await told.wait()
            await asyncio.sleep(PATIENCE_S)
            assert await subject.read_back(spec, insert.key) == stored_of(insert)
        assert [(each.outcome, each.error) for each in answers] == [(Outcome.OK, "")]
        assert before_ns - CLOCK_TOLERANCE_NS <= answers[0].t1_ns < answers[0].t2_ns
        assert told.while_sending == []

    async def test_the_next_one_is_made_while_the_last_is_under_way(self, subject: OperableSubject) -> None:
        """So it goes in closed loop: each answer sends what was made before it came, and gets its own answer."""
        spec = operations_spec(subject.target)
        contents, outcomes = contents_of(spec), list[Outcome]()
        records = [number % 7 if number % 5 else NEVER for number in range(CHAINED)]
        async with operating(subject.operable(spec)) as driver:
            make = operation_maker(driver, AnchoredClock())
            await _chain([partial(make, contents.operation(Kind.READ, each, 0)) for each in records], outcomes)
        assert outcomes == [Outcome.FAILED if each == NEVER else Outcome.OK for each in records]

    async def test_chained_operations_leave_nothing_to_the_garbage_collector(self, subject: OperableSubject) -> None:
        """It is off under load."""
        spec = operations_spec(subject.target)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            make = operation_maker(driver, AnchoredClock())
            await _chain([partial(make, operation)], [])
            with quiet():
                outcomes: list[Outcome] = []
                await _chain([partial(make, operation)] * UNCOLLECTED, outcomes)
                assert outcomes == [Outcome.OK] * UNCOLLECTED
                assert gc.collect() < UNCOLLECTED

    async def test_what_is_abandoned_says_so_and_its_late_answer_is_nobody_s(self, subject: OperableSubject) -> None:
        """Whoever gives up has a row to write, and the next operation must not get what came for this one."""
        spec = operations_spec(subject.target)
        contents, told = contents_of(spec), Told()
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver, asyncio.timeout(ANSWER_LIMIT_S):
                assert (await driver.operate(contents.operation(Kind.READ, 0, 0))).outcome is Outcome.OK
                make = operation_maker(driver, AnchoredClock())
                proxy.follow(Rule(Drop("answer")))
                made = make(contents.operation(Kind.OVERWRITE, 1, 5))
                told.send(made)
                await asyncio.sleep(PATIENCE_S)
                assert told.answers == []
                made.abandon()
                made.abandon()
                answers = list(await told.wait())
                proxy.follow()
                after = await until_operated(driver, contents.operation(Kind.READ, 1, 0))
        assert [each.outcome for each in answers] == [Outcome.UNKNOWN]
        assert answers[0].error
        assert len(told.answers) == 1
        assert after[-1].outcome is Outcome.OK


class MadeWritesContract:
    """The tests of writes."""

    async def test_a_write_that_is_made_is_sent_when_it_is_told_to_be(self, subject: Subject) -> None:
        """It is made while its time is awaited; sent too soon, it would be early by as much as it was ahead."""
        spec = contract_spec(subject.target)
        write, told = contract_write(spec, 1), Told()
        async with running(subject.driver(spec)) as driver:
            made = write_maker(driver, AnchoredClock())(write)
            await asyncio.sleep(PATIENCE_S)
            assert await subject.read_back(spec, write.key) is None
            before_ns = time.time_ns()
            told.send(made)
            answers = await told.wait()
            await asyncio.sleep(PATIENCE_S)
            assert await subject.read_back(spec, write.key) == write.value
        assert [(each.outcome, each.error) for each in answers] == [(Outcome.OK, "")]
        assert before_ns - CLOCK_TOLERANCE_NS <= answers[0].t1_ns < answers[0].t2_ns
        assert told.while_sending == []

    async def test_writes_sent_at_once_keep_their_own_results(self, subject: Subject) -> None:
        """As at the start of a burst; a wrong pairing would swap latencies between events, unseen by any total."""
        spec = contract_spec(subject.target)
        writes, told = [contract_write(spec, sequence) for sequence in range(CHAINED)], Told()
        async with running(subject.driver(spec)) as driver:
            make = write_maker(driver, AnchoredClock())
            for made in [make(write) for write in writes]:
                told.send(made)
            answers = list(await told.wait(CHAINED))
            stored = [await subject.read_back(spec, write.key) for write in writes]
        assert [each.outcome for each in answers] == [Outcome.OK] * CHAINED
        assert stored == [write.value for write in writes]
        assert len({each.token for each in answers}) in (1, CHAINED)


async def _chain(makers: Sequence[Callable[[], Made[Any]]], outcomes: list[Outcome]) -> None:
    """Send one after the other, each from the answer to the one before, made while that was awaited."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ahead = [makers[0]()]

    def send() -> None:
        made = ahead.pop()
        made.send(done)
        if len(outcomes) + 1 < len(makers):
            ahead.append(makers[len(outcomes) + 1]())

    def done(answer: Answer) -> None:
        outcomes.append(answer.outcome)
        if len(outcomes) == len(makers):
            ended.set_result(None)
        else:
            send()

    send()
    async with asyncio.timeout(ANSWER_LIMIT_S):
        await ended
