"""
What every store whose operations are measured has to do, as one pytest class that runs against the real server.

As with `DriverContract`, a test module subclasses `OperableContract` and overrides the fixture `subject`:

    class TestRedisOperations(OperableContract):
        @pytest.fixture
        def subject(self, redis_server: LocalStore) -> OperableSubject:
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

from stepbench.contracts.workload import SCANNING_STORES, Kind
from stepbench.drivers.protocol import Operated, Outcome
from stepbench.load.products import UPDATED
from stepbench.load.quiet import quiet
from stepbench.load.workload import INSERTED
from stepbench.testing.connections_contract import ConnectionsContract
from stepbench.testing.life_contract import LifeContract
from stepbench.testing.made_contract import MadeOperationsContract
from stepbench.testing.operable_subject import (
    CLIENTS,
    RECORDS,
    OperableSubject,
    Shape,
    contents_of,
    operating,
    operations_spec,
    stored_of,
)
from stepbench.testing.store_life import until_ready

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Operable

SHAPES: tuple[Shape, ...] = ("blob", "product")
NEVER = INSERTED + 123_456
"""The number of a record that nobody has written."""
CLOCK_TOLERANCE_NS = 5_000_000
UNCOLLECTED = 60


class OperableContract(LifeContract[OperableSubject], ConnectionsContract, MadeOperationsContract):
    """The tests."""

    @pytest.fixture
    def subject(self) -> OperableSubject:
        """Overridden by each store's tests."""
        raise NotImplementedError

    def new_spec(self, subject: OperableSubject) -> TrialSpec:
        """See `LifeContract`."""
        return operations_spec(subject.target)

    def new_driver(self, subject: OperableSubject, spec: TrialSpec) -> Operable:
        """Likewise."""
        return subject.operable(spec)

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("reuse", [True, False])
    async def test_all_kinds_are_acknowledged_and_do_what_they_say(
        self, subject: OperableSubject, shape: Shape, *, reuse: bool
    ) -> None:
        """An operation that does nothing is the fastest of all."""
        spec = operations_spec(subject.target, shape, reuse=reuse)
        contents = contents_of(spec)
        before = dict(contents.preloaded(1).fields or {})
        async with operating(subject.operable(spec)) as driver:
            for kind, record in _kinds(shape):
                operation = contents.operation(kind, record, 0 if kind == Kind.INSERT else 77, client=2)
                operated = await driver.operate(operation)
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
        self, subject: OperableSubject, *, reuse: bool
    ) -> None:
        """Without reuse the parts are the result: they make up the whole, and the operation alone is not all."""
        spec = operations_spec(subject.target, reuse=reuse)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            before_ns = time.time_ns()
            operated = await driver.operate(operation)
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
        self, subject: OperableSubject, *, reuse: bool
    ) -> None:
        """It is off under load: a kilobyte in a cycle for each connection fills a function's memory in 15 minutes."""
        spec = operations_spec(subject.target, reuse=reuse)
        operation = contents_of(spec).operation(Kind.READ, 0, 1)
        async with operating(subject.operable(spec)) as driver:
            await driver.operate(operation)
            with quiet():
                for _ in range(UNCOLLECTED):
                    assert (await driver.operate(operation)).outcome is Outcome.OK
                assert gc.collect() < UNCOLLECTED

    @pytest.mark.parametrize("kind", ["insert", "read", "overwrite"])
    async def test_probes_work_whatever_the_mix(self, subject: OperableSubject, kind: str) -> None:
        """AwaitTarget reads what was preloaded, or inserts where nothing was."""
        spec = operations_spec(subject.target, workload={"mix": {kind: 1}})
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for probed, record in ((Kind.READ, 1), (Kind.INSERT, NEVER)):
                operated = await driver.operate(contents.operation(probed, record, 0))
                assert (probed, operated.outcome, operated.error) == (probed, Outcome.OK, "")

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_reading_what_is_not_there_is_failed(self, subject: OperableSubject, shape: Shape) -> None:
        """What is read was written before, so that nothing found is data lost, and no fast success."""
        spec = operations_spec(subject.target, shape)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for kind in (Kind.READ, Kind.READ_MODIFY_WRITE):
                operation = contents.operation(kind, NEVER, 1)
                operated = await driver.operate(operation)
                assert (operated.outcome, operated.error) == (Outcome.FAILED, "not_found")
                assert await subject.read_back(spec, operation.key) is None

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_an_inserted_record_can_be_read(self, subject: OperableSubject, shape: Shape) -> None:
        """Each client reads what it has inserted; byte for byte, or sizes and so times are others."""
        spec = operations_spec(subject.target, shape, records=1)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for client in range(CLIENTS):
                insert = contents.operation(Kind.INSERT, INSERTED + client, 0, client=client)
                assert (await driver.operate(insert)).outcome is Outcome.OK
                read = await driver.operate(contents.operation(Kind.READ, INSERTED + client, 0, client=client))
                assert (read.outcome, read.error) == (Outcome.OK, "")
                assert await subject.read_back(spec, insert.key) == stored_of(insert)

    async def test_clients_at_once_keep_their_own_results(self, subject: OperableSubject) -> None:
        """A wrong pairing of answers would swap outcomes and latencies, unseen by any total."""
        spec = operations_spec(subject.target, "product")
        contents = contents_of(spec)

        async def client(number: int) -> list[Operated]:
            mine: list[Operated] = []
            for turn in range(10):
                found = turn % 2 == 0
                record = (number + CLIENTS * turn) % RECORDS if found else NEVER + turn
                mine.append(await driver.operate(contents.operation(Kind.READ, record, 0, client=number)))
            return mine

        async with operating(subject.operable(spec)) as driver:
            results = await asyncio.gather(*map(client, range(CLIENTS)))
        wanted = [Outcome.OK, Outcome.FAILED] * 5
        assert [[operated.outcome for operated in mine] for mine in results] == [wanted] * CLIENTS

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_records_are_preloaded_once(self, subject: OperableSubject, shape: Shape) -> None:
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

    async def test_scans_are_acknowledged(self, subject: OperableSubject) -> None:
        """Where the store can; a scan from the last record on finds that one alone."""
        if subject.target["store"] not in SCANNING_STORES:
            return
        spec = operations_spec(subject.target, workload={"mix": {"scan": 1}, "key_order": "ordered"})
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            for record, rows in ((0, 10), (RECORDS - 1, 10), (3, 1)):
                operated = await driver.operate(contents.operation(Kind.SCAN, record, 0, rows=rows))
                assert (operated.outcome, operated.error) == (Outcome.OK, "")
            nothing = await driver.operate(contents.operation(Kind.SCAN, NEVER, 0, rows=10))
        assert (nothing.outcome, nothing.error) == (Outcome.FAILED, "not_found")

    async def test_tear_down_leaves_nothing_and_spares_the_neighbour(self, subject: OperableSubject) -> None:
        """What is left behind costs money; trials of other runs may share the database or cluster."""
        spec, neighbour = operations_spec(subject.target), operations_spec(subject.target)
        async with operating(subject.operable(neighbour)):
            kept = sorted(await subject.leftovers(neighbour))
            async with operating(subject.operable(spec)) as driver:
                await driver.operate(contents_of(spec).operation(Kind.INSERT, INSERTED, 0))
                assert await subject.leftovers(spec)
            assert await subject.leftovers(spec) == []
            assert sorted(await subject.leftovers(neighbour)) == kept
            record = contents_of(neighbour).preloaded(0)
            assert await subject.read_back(neighbour, record.key) == stored_of(record)


def _kinds(shape: Shape) -> list[tuple[Kind, int]]:
    """Each kind on a record of its own, but changes on record 1, one after the other."""
    changes = [(Kind.UPDATE, 1)] if shape == "product" else []
    return [(Kind.READ, 0), (Kind.INSERT, INSERTED), (Kind.OVERWRITE, 2), *changes, (Kind.READ_MODIFY_WRITE, 1)]
