"""EtcdOperations against a real etcd: the contract, and what etcd alone has."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.etcd.conftest import EtcdSubject, etcd_settings
from tests.integration.drivers.subjects import UnencryptedOperations
from tests.support.contracts.life import until_torn_down
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import (
    CLIENTS,
    contents_of,
    operating,
    operations_spec,
    stored_of,
)
from tests.support.fault_proxy import Cut, Drop, Rule, fault_proxy, http2

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers import preload as preloading
from stepbench.drivers.etcd.operations import EtcdOperations
from stepbench.drivers.etcd.store import PRELOAD_LANES
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import CoroutineRequest, perform
from stepbench.model.request import Outcome, Request
from stepbench.wire.http2.grpc_answer import GrpcStatus

if TYPE_CHECKING:
    from stepbench.model.request import PendingRequest
    from stepbench.wire.http2.grpc_answer import GrpcAnswer
    from stepbench.wire.http2.grpc_connection import GrpcConnection

pytestmark = [pytest.mark.stores, pytest.mark.usefixtures("one_member")]


class TestEtcdOperations(UnencryptedOperations, OperationsContract):
    """The contract."""


async def test_updates_at_once_lose_no_field(subject: EtcdSubject) -> None:
    """Each writes the whole record: without the condition, the slower would take the faster one's change back."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    names = ("description", "update_time", "count", "price")
    versions = [contents.operation(Kind.OVERWRITE, 1, 1 + turn).fields or {} for turn in range(10)]
    update = contents.operation(Kind.UPDATE, 1, 5)
    async with operating(subject.operable(spec)) as driver:
        updates = [
            update._replace(fields={name: versions[turn][name]}, client=client)
            for turn in range(10)
            for client, name in enumerate(names)
        ]
        rounds = [updates[at : at + CLIENTS] for at in range(0, len(updates), CLIENTS)]
        results = [each for now in rounds for each in await asyncio.gather(*map(partial(perform, driver), now))]
        stored = await subject.read_back(spec, update.key)
    assert {each.outcome for each in results} == {Outcome.OK}
    assert sum(each.retries for each in results) > 0
    assert len({each.token for each in results}) == len(results)
    assert stored == {**(contents.preloaded(1).fields or {}), **{name: versions[-1][name] for name in names}}


async def test_an_update_of_nothing_is_not_found(subject: EtcdSubject) -> None:
    """It cannot change what it has not read."""
    spec = operations_spec(subject.target, "product", records=1)
    update = contents_of(spec).operation(Kind.UPDATE, 5, 5)
    async with operating(subject.operable(spec)) as driver:
        operated = await perform(driver, update)
        assert (operated.outcome, operated.error) == (Outcome.FAILED, "not_found")
        assert await subject.read_back(spec, update.key) is None


async def test_a_silent_connection_is_left_by_all_its_clients(subject: EtcdSubject) -> None:
    """They share it: after the first time-out none of them may wait for another."""
    spec = operations_spec(subject.target)
    contents = contents_of(spec)
    with fault_proxy(subject.upstream, http2) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Drop("answer"), times=1))
            silent = await perform(driver, contents.operation(Kind.READ, 0, 0, client=0))
            others = [await perform(driver, contents.operation(Kind.READ, 0, 0, client=each)) for each in (1, 2, 3)]
    assert (silent.outcome, silent.error) == (Outcome.UNKNOWN, "timeout")
    assert [each.outcome for each in others] == [Outcome.OK] * 3


async def test_preloading_goes_on_where_it_was(subject: EtcdSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried PrepareTarget has the same 15 minutes; from the beginning it would never end."""
    monkeypatch.setattr(preloading, "BATCHES_PER_LANE", 1)
    monkeypatch.setattr(preloading, "_ATTEMPTS", 2)
    wave, status_and_probes = PRELOAD_LANES * 100, 3
    spec = operations_spec(subject.target, records=2 * wave + 1)
    with fault_proxy(subject.upstream, http2) as proxy:
        proxy.follow(Rule(Cut("before-request"), from_nth=status_and_probes + 2 * PRELOAD_LANES + 1))
        broken, again = subject.through(spec, proxy), subject.through(spec, proxy)
        try:
            with pytest.raises(TargetUnavailableError, match="800 are written"):
                await broken.prepare()
            proxy.follow(Rule(Cut("before-request"), from_nth=status_and_probes + PRELOAD_LANES + 2))
            await again.prepare()
            assert len(await subject.leftovers(spec)) == 2 * wave + 1
        finally:
            proxy.follow()
            await until_torn_down(again)


async def test_what_is_stored_is_the_record_alone(subject: EtcdSubject) -> None:
    """A product's JSON after an update is as long as one that was inserted so: 317.00 must not become 317.0."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        for record in range(8):
            update = contents.operation(Kind.UPDATE, record, 3)
            assert (await perform(driver, update)).outcome is Outcome.OK
            before = dict(contents.preloaded(record).fields or {})
            assert await subject.read_back(spec, update.key) == {**before, **(update.fields or {})}
        untouched = contents.preloaded(9)
        assert await subject.read_back(spec, untouched.key) == stored_of(untouched)


async def test_a_fault_of_one_client_leaves_the_others_in_the_middle_alone(subject: EtcdSubject) -> None:
    """Between read and write of theirs, the channel that they share is replaced: they go on over the old one."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    driver = _Unlucky(spec, etcd_settings(subject.upstream), AnchoredClock())
    driver.fault = contents.operation(Kind.READ, 2, 0, client=1)
    changes = [contents.operation(Kind.UPDATE, 1, 5), contents.operation(Kind.READ_MODIFY_WRITE, 3, 5)]
    async with operating(driver):
        for each in changes:
            operated = await perform(driver, each)
            assert (operated.outcome, operated.error) == (Outcome.OK, "")
            assert (await perform(driver, each._replace(client=2))).outcome is Outcome.OK
    assert driver.faults == 2 * len(changes)


class _Unlucky(EtcdOperations):
    """After each first call of an operation, another client has no answer to its own."""

    fault: Request
    faults = 0

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return one whose first call is made by `_call`, too."""
        return CoroutineRequest(partial(self._operate, request), self._clock)

    async def _call(self, connection: GrpcConnection, method: str, message: bytes, started_ns: int = 0) -> GrpcAnswer:
        answered = await super()._call(connection, method, message, started_ns)
        if message == self._range(self.fault):
            self.faults += 1
            return answered._replace(status=GrpcStatus.DEADLINE_EXCEEDED, data=b"", is_answered=False)
        if not started_ns:
            await perform(self, self.fault)
            await asyncio.sleep(0)  # what is closed in a task of its own is closed by now
        return answered


async def test_a_replaced_channel_ends_with_its_last_operation(subject: EtcdSubject) -> None:
    """Sooner, it takes others along; never, a store that is often silent leaves a thousand connections open."""
    spec = operations_spec(subject.target)
    async with operating(subject.operable(spec)) as driver:
        assert isinstance(driver, EtcdOperations)
        channel = driver._channels[0]
        first = await channel.connected()
        assert channel.acquire() is channel.acquire() is first
        channel.retire(first)
        channel.release(first)
        fresh = await channel.connected()
        assert channel.acquire() is fresh is not first
        assert first.is_open
        channel.release(first)
        assert not first.is_open
        channel.release(fresh)
        assert fresh.is_open
