"""
What every store whose operations are measured has to do, as one pytest class that runs against the real server.

As with `TriggerContract`, a test module subclasses `OperationsContract` and overrides the fixture `subject`:

    class TestRedisOperations(OperationsContract):
        @pytest.fixture
        def subject(self, redis_server: LocalStore) -> OperationsSubject:
            return RedisSubject(redis_server.endpoint)

`subject` looks into the store behind the driver's back: a driver that reads its own writes back could hide a mistake
twice.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.connections import ChainedContract, ConnectionsContract
from tests.support.contracts.life import CLOCK_TOLERANCE_NS, UNCOLLECTED, LifeContract, until_ready
from tests.support.contracts.operations_subject import (
    CLIENTS,
    RECORDS,
    OperationsSubject,
    Shape,
    contents_of,
    kinds_of,
    operating,
    operations_spec,
    stored_of,
)
from tests.support.contracts.trigger_subject import declared
from tests.support.contracts.values import ValuesContract

from stepbench.contracts.workload import Kind
from stepbench.load.process import gc_paused
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Result
from stepbench.workload.choices import INSERTED
from stepbench.workload.products import UPDATED

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import Request

SHAPES: tuple[Shape, ...] = ("blob", "product")
NEVER = INSERTED + 123_456
"""The number of a record that nobody has written."""


class OperationsContract(LifeContract[OperationsSubject], ConnectionsContract, ChainedContract, ValuesContract):
    """The tests of a driver for operations."""

    @pytest.fixture
    def subject(self) -> OperationsSubject:
        """Return the store; each store's tests override it."""
        raise NotImplementedError

    def new_spec(self, subject: OperationsSubject) -> TrialSpec:
        """See `LifeContract`."""
        return operations_spec(subject.target)

    def new_driver(self, subject: OperationsSubject, spec: TrialSpec) -> Driver:
        """See `LifeContract`."""
        return subject.operable(spec)

    def new_request(self, spec: TrialSpec) -> Request:
        """See `LifeContract`."""
        return contents_of(spec).operation(Kind.INSERT, INSERTED, 0)

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("reuse", [True, False])
    async def test_all_kinds_are_acknowledged_and_do_what_they_say(
        self, subject: OperationsSubject, shape: Shape, *, reuse: bool
    ) -> None:
        """An operation that does nothing is the fastest of all."""
        spec = operations_spec(subject.target, shape, reuse=reuse)
        contents = contents_of(spec)
        before = dict(contents.preloaded(1).fields or {})
        async with operating(subject.operable(spec)) as driver:
            for kind, record in _kinds(shape, kinds_of(subject.target, shape)):
                operation = contents.operation(kind, record, 0 if kind == Kind.INSERT else 77, client=2)
                operated = await perform(driver, operation)
                assert (kind, operated.outcome, operated.error) == (kind, Outcome.OK, "")
                stored = await subject.read_back(spec, operation.key)
                if kind == Kind.READ:
                    assert stored == stored_of(contents.preloaded(record))
                elif kind in {Kind.UPDATE, Kind.READ_MODIFY_WRITE} and shape == "product":
                    assert operation.fields
                    assert set(operation.fields) == set(UPDATED)
                    assert stored == {**before, **operation.fields}
                else:
                    assert stored == stored_of(operation)

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_times_enclose_the_operation_and_connecting_is_told_apart(
        self, subject: OperationsSubject, *, reuse: bool
    ) -> None:
        """Without reuse the parts are the result: they make up the whole, and the operation alone is not all."""
        spec = operations_spec(subject.target, reuse=reuse)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            before_ns = time.time_ns()
            operated = await perform(driver, operation)
            after_ns = time.time_ns()
        assert before_ns - CLOCK_TOLERANCE_NS <= operated.t1_ns < operated.t2_ns <= after_ns + CLOCK_TOLERANCE_NS
        assert (operated.connecting is None) is reuse
        if operated.connecting is not None:
            assert min(operated.connecting) >= 0
            assert operated.connecting.connect_ns > 0
            assert operated.connecting.operate_ns > 0
            whole_ns = operated.t2_ns - operated.t1_ns
            assert sum(operated.connecting) <= whole_ns
            assert sum(operated.connecting) >= 0.5 * whole_ns

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_operations_leave_nothing_to_the_garbage_collector(
        self, subject: OperationsSubject, *, reuse: bool
    ) -> None:
        """It is off under load: a kilobyte in a cycle for each connection fills a function's memory in 15 minutes."""
        spec = operations_spec(subject.target, reuse=reuse)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            await perform(driver, operation)
            with gc_paused():
                for _ in range(UNCOLLECTED):
                    assert (await perform(driver, operation)).outcome is Outcome.OK
                assert gc.collect() < UNCOLLECTED

    @pytest.mark.parametrize("kind", ["insert", "read", "overwrite"])
    async def test_probes_work_whatever_the_mix(self, subject: OperationsSubject, kind: str) -> None:
        """AwaitTarget reads what was preloaded, or inserts where nothing was."""
        spec = operations_spec(subject.target, workload={"mix": {kind: 1}})
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for probed, record in ((Kind.READ, 1), (Kind.INSERT, NEVER)):
                operated = await perform(driver, contents.operation(probed, record, 0))
                assert (probed, operated.outcome, operated.error) == (probed, Outcome.OK, "")

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_reading_what_is_not_there_is_failed(self, subject: OperationsSubject, shape: Shape) -> None:
        """What is read was written before, so that nothing found is data lost, and no fast success."""
        spec = operations_spec(subject.target, shape)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            kinds = {Kind.READ, Kind.READ_MODIFY_WRITE} & kinds_of(subject.target, shape)
            assert kinds, f"{subject.target} declares no reads"
            for kind in kinds:
                operation = contents.operation(kind, NEVER, 1)
                operated = await perform(driver, operation)
                assert (operated.outcome, operated.error) == (Outcome.FAILED, "not_found")
                assert await subject.read_back(spec, operation.key) is None

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_an_inserted_record_can_be_read(self, subject: OperationsSubject, shape: Shape) -> None:
        """Each client reads what it has inserted; byte for byte, or sizes and so times are others."""
        spec = operations_spec(subject.target, shape, records=1)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for client in range(CLIENTS):
                insert = contents.operation(Kind.INSERT, INSERTED + client, 0, client=client)
                assert (await perform(driver, insert)).outcome is Outcome.OK
                read = await perform(driver, contents.operation(Kind.READ, INSERTED + client, 0, client=client))
                assert (read.outcome, read.error) == (Outcome.OK, "")
                assert await subject.read_back(spec, insert.key) == stored_of(insert)

    async def test_clients_at_once_keep_their_own_results(self, subject: OperationsSubject) -> None:
        """A wrong pairing of answers would swap outcomes and latencies, unseen by any total."""
        spec = operations_spec(subject.target, "product")
        contents = contents_of(spec)

        async def client(number: int) -> list[Result]:
            mine: list[Result] = []
            for turn in range(10):
                found = turn % 2 == 0
                record = (number + CLIENTS * turn) % RECORDS if found else NEVER + turn
                mine.append(await perform(driver, contents.operation(Kind.READ, record, 0, client=number)))
            return mine

        async with operating(subject.operable(spec)) as driver:
            results = await asyncio.gather(*map(client, range(CLIENTS)))
        wanted = [Outcome.OK, Outcome.FAILED] * 5
        assert [[operated.outcome for operated in mine] for mine in results] == [wanted] * CLIENTS

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_records_are_preloaded_once(self, subject: OperationsSubject, shape: Shape) -> None:
        """PrepareTarget is retried; afterwards exactly the records below N are there, as they were made."""
        spec = operations_spec(subject.target, shape)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)):
            once = sorted(await subject.leftovers(spec))
            again = subject.operable(spec)
            await again.prepare()
            await until_ready(again)
            await again.close()
            assert sorted(await subject.leftovers(spec)) == once
            wanted = [contents.preloaded(number) for number in range(RECORDS)]
            stored = [await subject.read_back(spec, each.key) for each in wanted]
            assert stored == [stored_of(each) for each in wanted]
            assert await subject.read_back(spec, contents.preloaded(RECORDS).key) is None

    async def test_scans_are_acknowledged(self, subject: OperationsSubject) -> None:
        """Where the store can; a scan from the last record on finds that one alone."""
        if Kind.SCAN not in declared(subject.target).operations:
            pytest.skip(f"{subject.target} declares no scans")
        spec = operations_spec(subject.target, workload={"mix": {"scan": 1}, "key_order": "ordered"})
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for record, rows in ((0, 10), (RECORDS - 1, 10), (3, 1)):
                operated = await perform(driver, contents.operation(Kind.SCAN, record, 0, rows=rows))
                assert (operated.outcome, operated.error) == (Outcome.OK, "")
            nothing = await perform(driver, contents.operation(Kind.SCAN, NEVER, 0, rows=10))
        assert (nothing.outcome, nothing.error) == (Outcome.FAILED, "not_found")

    async def test_tear_down_leaves_nothing_and_spares_the_neighbour(self, subject: OperationsSubject) -> None:
        """Data that is left behind costs money; trials of other runs may share the database or cluster."""
        spec, neighbour = operations_spec(subject.target), operations_spec(subject.target)
        async with operating(subject.operable(neighbour)):
            kept = sorted(await subject.leftovers(neighbour))
            async with operating(subject.operable(spec)) as driver:
                await perform(driver, contents_of(spec).operation(Kind.INSERT, INSERTED, 0))
                assert await subject.leftovers(spec)
            assert await subject.leftovers(spec) == []
            assert sorted(await subject.leftovers(neighbour)) == kept
            record = contents_of(neighbour).preloaded(0)
            assert await subject.read_back(neighbour, record.key) == stored_of(record)


def _kinds(shape: Shape, offered: frozenset[Kind]) -> list[tuple[Kind, int]]:
    """Each kind on a record of its own, but changes on record 1, one after the other."""
    changes = [(Kind.UPDATE, 1)] if shape == "product" else []
    every = [(Kind.READ, 0), (Kind.INSERT, INSERTED), (Kind.OVERWRITE, 2), *changes, (Kind.READ_MODIFY_WRITE, 1)]
    tested = [(kind, record) for kind, record in every if kind in offered]
    assert {kind for kind, _ in tested} == offered - {Kind.SCAN}, "a declared kind has no test"
    return tested
