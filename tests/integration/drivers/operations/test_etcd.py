"""EtcdOperations against a real etcd: the contract, and what etcd alone has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.test_etcd import EtcdSubject

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd_cluster import EtcdLimits
from stepbench.drivers.operations import preloading
from stepbench.drivers.operations.etcd import PRELOAD_LANES, EtcdOperations
from stepbench.drivers.protocol import Operable, Operation, Outcome
from stepbench.errors import TargetUnavailableError
from stepbench.local.processes import free_port
from stepbench.settings import Settings
from stepbench.testing.fault_proxy import Cut, Drop, Rule, fault_proxy, http2
from stepbench.testing.operable_contract import OperableContract
from stepbench.testing.operable_subject import (
    CLIENTS,
    SILENT_LIMIT_S,
    Stored,
    contents_of,
    fields_of,
    operating,
    operations_spec,
    stored_of,
    until_operated,
)
from stepbench.testing.store_life import until_torn_down
from stepbench.wire.grpc_answer import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.processes import LocalStore
    from stepbench.testing.fault_proxy import FaultProxy, Framing
    from stepbench.wire.grpc_answer import GrpcAnswer
    from stepbench.wire.grpc_connection import GrpcConnection

pytestmark = pytest.mark.stores
LIMITS = EtcdLimits(write_s=SILENT_LIMIT_S, control_s=SILENT_LIMIT_S)


def _driver(spec: TrialSpec, endpoint: str, limits: EtcdLimits | None = None) -> EtcdOperations:
    return EtcdOperations(spec, _settings(endpoint), AnchoredClock(), limits=limits or EtcdLimits())


def _settings(endpoint: str) -> Settings:
    return Settings(results_table="unused", results_bucket="unused", etcd_endpoint=endpoint)


class EtcdOperableSubject:
    """Reads through etcd's JSON gateway, not through gRPC."""

    target: dict[str, Any] = {"store": "etcd"}  # noqa: RUF012 -- the Subject protocol's attribute
    framing: Callable[[], Framing] = staticmethod(http2)

    def __init__(self, endpoint: str) -> None:
        self.upstream = endpoint
        self._looking = EtcdSubject(endpoint)

    def operable(self, spec: TrialSpec) -> Operable:
        """For the running server."""
        return _driver(spec, self.upstream)

    def unreachable(self, spec: TrialSpec) -> Operable:
        """For a port without a listener."""
        return _driver(spec, f"127.0.0.1:{free_port()}")

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> Operable:
        """By the proxy."""
        return _driver(spec, proxy.endpoint, LIMITS)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """The value under a key."""
        value = await self._looking.read_back(spec, key)
        return fields_of(value) if value is not None and value.startswith(b"{") else value

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """All keys that begin with the trial's tag."""
        return await self._looking.leftovers(spec)


@pytest.fixture
def subject(etcd_server: LocalStore) -> EtcdOperableSubject:
    """The session's etcd."""
    return EtcdOperableSubject(etcd_server.endpoint)


class TestEtcdOperations(OperableContract):
    """The contract."""

    @pytest.fixture
    def subject(self, subject: EtcdOperableSubject) -> EtcdOperableSubject:
        """See above."""
        return subject


async def test_updates_at_once_lose_no_field(subject: EtcdOperableSubject) -> None:
    """Each writes the whole record: without the condition, the slower would take the faster one's change back."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    names = ("name", "category", "seller", "country")
    update = contents.operation(Kind.UPDATE, 1, 5)
    async with operating(subject.operable(spec)) as driver:
        updates = [
            update._replace(fields={name: f"{name}-{turn}"}, client=client)
            for turn in range(10)
            for client, name in enumerate(names)
        ]
        rounds = [updates[at : at + CLIENTS] for at in range(0, len(updates), CLIENTS)]
        results = [each for now in rounds for each in await asyncio.gather(*map(driver.operate, now))]
        stored = await subject.read_back(spec, update.key)
    assert {each.outcome for each in results} == {Outcome.OK}
    assert sum(each.retries for each in results) > 0
    assert len({each.token for each in results}) == len(results)
    assert stored == {**(contents.preloaded(1).fields or {}), **{name: f"{name}-9" for name in names}}


async def test_an_update_of_nothing_is_not_found(subject: EtcdOperableSubject) -> None:
    """It cannot change what it has not read."""
    spec = operations_spec(subject.target, "product", records=1)
    update = contents_of(spec).operation(Kind.UPDATE, 5, 5)
    async with operating(subject.operable(spec)) as driver:
        operated = await driver.operate(update)
        assert (operated.outcome, operated.error) == (Outcome.FAILED, "not_found")
        assert await subject.read_back(spec, update.key) is None


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_cut_connection_is_unknown_and_is_replaced(subject: EtcdOperableSubject, *, reuse: bool) -> None:
    """The write may have happened; gRPC's own back-off would refuse what comes next for a fifth of a second."""
    spec = operations_spec(subject.target, reuse=reuse)
    overwrite = contents_of(spec).operation(Kind.OVERWRITE, 1, 9)
    with fault_proxy(subject.upstream, http2) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Cut("before-answer"), times=1))
            cut = await driver.operate(overwrite)
            proxy.follow()
            after = await until_operated(driver, overwrite)
    assert (cut.outcome, cut.error) == (Outcome.UNKNOWN, "UNAVAILABLE")
    assert len(after) == 1


async def test_a_silent_connection_is_left_by_all_its_clients(subject: EtcdOperableSubject) -> None:
    """They share it: after the first time-out none of them may wait for another."""
    spec = operations_spec(subject.target)
    contents = contents_of(spec)
    with fault_proxy(subject.upstream, http2) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Drop("answer"), times=1))
            silent = await driver.operate(contents.operation(Kind.READ, 0, 0, client=0))
            others = [await driver.operate(contents.operation(Kind.READ, 0, 0, client=each)) for each in (1, 2, 3)]
    assert (silent.outcome, silent.error) == (Outcome.UNKNOWN, "DEADLINE_EXCEEDED")
    assert [each.outcome for each in others] == [Outcome.OK] * 3


async def test_large_blobs_are_preloaded_in_smaller_batches(subject: EtcdOperableSubject) -> None:
    """A Txn of more than 1.5 MiB is refused, whatever is in it."""
    spec = operations_spec(subject.target, records=7, workload={"record": {"shape": "blob", "value_bytes": 350_000}})
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        operated = await driver.operate(contents.operation(Kind.READ, 6, 0))
        assert (operated.outcome, operated.error) == (Outcome.OK, "")
        assert await subject.read_back(spec, contents.preloaded(6).key) == contents.preloaded(6).value


async def test_preloading_goes_on_where_it_was(subject: EtcdOperableSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried PrepareTarget has the same 15 minutes; from the beginning it would never end."""
    monkeypatch.setattr(preloading, "BATCHES_PER_LANE", 1)
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


async def test_what_is_stored_is_the_record_alone(subject: EtcdOperableSubject) -> None:
    """A product's JSON after an update is as long as one that was inserted so: 317.00 must not become 317.0."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        for record in range(8):
            update = contents.operation(Kind.UPDATE, record, 3)
            assert (await driver.operate(update)).outcome is Outcome.OK
            before = dict(contents.preloaded(record).fields or {})
            assert await subject.read_back(spec, update.key) == {**before, **(update.fields or {})}
        untouched = contents.preloaded(9)
        assert await subject.read_back(spec, untouched.key) == stored_of(untouched)


async def test_a_fault_of_one_client_leaves_the_others_in_the_middle_alone(subject: EtcdOperableSubject) -> None:
    """Between read and write of theirs, the channel that they share is replaced: they go on over the old one."""
    spec = operations_spec(subject.target, "product")
    contents = contents_of(spec)
    driver = _Unlucky(spec, _settings(subject.upstream), AnchoredClock())
    driver.fault = contents.operation(Kind.READ, 2, 0, client=1)
    changes = [contents.operation(Kind.UPDATE, 1, 5), contents.operation(Kind.READ_MODIFY_WRITE, 3, 5)]
    async with operating(driver):
        for each in changes:
            operated = await driver.operate(each)
            assert (operated.outcome, operated.error) == (Outcome.OK, "")
            assert (await driver.operate(each._replace(client=2))).outcome is Outcome.OK
    assert driver.faults == 2 * len(changes)


class _Unlucky(EtcdOperations):
    """After each first call of an operation, another client has no answer to its own."""

    fault: Operation
    faults = 0

    async def _call(self, connection: GrpcConnection, method: str, message: bytes, began_ns: int = 0) -> GrpcAnswer:
        answered = await super()._call(connection, method, message, began_ns)
        if message == self._range(self.fault):
            self.faults += 1
            return answered._replace(status=Status.DEADLINE_EXCEEDED, data=b"", is_answered=False)
        if not began_ns:
            await self.operate(self.fault)
            await asyncio.sleep(0)  # what is closed in a task of its own is closed by now
        return answered


async def test_a_replaced_channel_ends_with_its_last_operation(subject: EtcdOperableSubject) -> None:
    """Sooner, it takes others along; never, a store that is often silent leaves a thousand connections open."""
    spec = operations_spec(subject.target)
    async with operating(subject.operable(spec)) as driver:
        assert isinstance(driver, EtcdOperations)
        channel = driver._channels[0]
        first, second = await channel.enter(), await channel.enter()
        channel.replace(first)
        channel.leave(first)
        fresh = await channel.enter()
        assert fresh is not first
        assert second.connection.is_open
        channel.leave(second)
        assert not second.connection.is_open
        channel.leave(fresh)
        assert fresh.connection.is_open
