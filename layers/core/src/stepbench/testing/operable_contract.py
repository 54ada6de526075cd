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
from typing import Any

import pytest

from stepbench.contracts.workload import SCANNING_STORES, Kind
from stepbench.drivers.protocol import Operated, Outcome
from stepbench.errors import TargetUnavailableError
from stepbench.load.products import UPDATED
from stepbench.load.quiet import quiet
from stepbench.load.workload import INSERTED
from stepbench.testing.fault_proxy import Drop, Rule, fault_proxy
from stepbench.testing.made_contract import MadeOperationsContract
from stepbench.testing.operable_subject import (
    CLIENTS,
    RECORDS,
    SILENT_LIMIT_S,
    OperableSubject,
    Shape,
    contents_of,
    operating,
    operations_spec,
    stored_of,
    until_operated,
)
from stepbench.testing.store_life import until_ready, until_torn_down

SHAPES: tuple[Shape, ...] = ("blob", "product")
NEVER = INSERTED + 123_456
"""The number of a record that nobody has written."""
GIVE_UP_LIMIT_S = 45
CLOCK_TOLERANCE_NS = 5_000_000
UNCOLLECTED = 60
MANY_CLIENTS = 64
LOOK_UP_S = 0.05


class OperableContract(MadeOperationsContract):
    """The tests. `prepare`, `ready`, `tear_down` and `provider` have to work without `open`, as stages call them."""

    @pytest.fixture
    def subject(self) -> OperableSubject:
        """Overridden by each store's tests."""
        raise NotImplementedError

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

    async def test_open_has_no_effect_on_data(self, subject: OperableSubject) -> None:
        """Every writer opens, also the one that comes while another measures."""
        spec = operations_spec(subject.target)
        driver = subject.operable(spec)
        try:
            await driver.prepare()
            await until_ready(driver)
            before = sorted(await subject.leftovers(spec))
            await driver.open()
            await driver.warm_up()
            assert sorted(await subject.leftovers(spec)) == before
        finally:
            await until_torn_down(driver)
            await driver.close()

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

    async def test_tear_down_is_resumable(self, subject: OperableSubject) -> None:
        """The sweeper calls it without knowing how far PrepareTarget, or another sweeper, came; in a new process."""
        spec = operations_spec(subject.target)
        before = subject.operable(spec)
        await until_torn_down(before)
        await before.close()
        async with operating(subject.operable(spec)):
            sweeper = subject.operable(spec)
            await until_torn_down(sweeper)
            assert await sweeper.tear_down() is True
            await sweeper.close()
            assert await subject.leftovers(spec) == []

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
        try:
            async with asyncio.timeout(GIVE_UP_LIMIT_S):
                await driver.open()
                await driver.warm_up()
                operated = await driver.operate(contents_of(spec).operation(Kind.READ, 0, 0))
            assert operated.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
            assert operated.error
            assert operated.t1_ns <= operated.t2_ns
        except TargetUnavailableError as refused:
            assert str(refused)  # noqa: PT017 -- either end is right; the message is what a user sees
        finally:
            await driver.close()

    async def test_an_unreachable_store_cannot_be_prepared(self, subject: OperableSubject) -> None:
        """The state machine matches the error's name to retry, and then to fail the trial."""
        driver = subject.unreachable(operations_spec(subject.target))
        async with asyncio.timeout(GIVE_UP_LIMIT_S):
            with pytest.raises(TargetUnavailableError):
                await driver.prepare()
        await driver.close()

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

    async def test_close_twice_is_safe_and_the_provider_is_named(self, subject: OperableSubject) -> None:
        """A stage closes in `finally`, also after `open` failed; a latency without what served it compares to none."""
        driver = subject.operable(operations_spec(subject.target))
        await driver.close()
        await driver.open()
        name = await driver.provider()
        await driver.close()
        await driver.close()
        assert name.startswith("Amazon ") or any(character.isdigit() for character in name)


def _kinds(shape: Shape) -> list[tuple[Kind, int]]:
    """Each kind on a record of its own, but changes on record 1, one after the other."""
    changes = [(Kind.UPDATE, 1)] if shape == "product" else []
    return [(Kind.READ, 0), (Kind.INSERT, INSERTED), (Kind.OVERWRITE, 2), *changes, (Kind.READ_MODIFY_WRITE, 1)]


def _no_answer(*, reuse: bool) -> frozenset[Outcome]:
    """Without reuse, a server may fall silent before it was asked for anything: while it greets."""
    return frozenset({Outcome.UNKNOWN} if reuse else {Outcome.UNKNOWN, Outcome.FAILED})
