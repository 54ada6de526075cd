"""What the stores' test modules share: contracts on the fixture `subject`, and watches that are established."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
from tests.samples.ports import UNSERVED_PORT
from tests.support.contracts.operations_subject import (
    SILENT_LIMIT_S,
    contents_of,
    operating,
    operations_spec,
    until_operated,
)
from tests.support.contracts.watch import watch
from tests.support.fault_proxy import Cut, Replace, Rule, fault_proxy, plain

from stepbench.contracts.workload import Kind
from stepbench.model.pending import perform
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.contracts.operations_subject import OperationsSubject
    from tests.support.fault_proxy import FaultProxy, Framing

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import ChangeBatch

LIMIT_S = 20
READS = 10
NO_SERVER = "http://127.0.0.1:1"
"""Nobody listens on port 1."""


class ServedSubject(ABC):
    """The part of a store's subjects that is the same for all that are reached by host and port; see the contracts'."""

    framing: Callable[[], Framing] = staticmethod(plain)

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream

    @abstractmethod
    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> Any:  # noqa: ANN401 -- each store's own
        """Return a driver, or blobs, of the server at an address; limit_s: how long an operation may take."""

    def operable(self, spec: TrialSpec) -> Any:  # noqa: ANN401 -- as `build`
        """Return those of the running server."""
        return self.build(spec, self.upstream)

    driver = store = operable

    def unreachable(self, spec: TrialSpec) -> Any:  # noqa: ANN401 -- as `build`
        """Return those of a port without a listener."""
        return self.build(spec, f"127.0.0.1:{UNSERVED_PORT}")

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> Any:  # noqa: ANN401 -- as `build`
        """Return those that reach the server through a proxy, and wait shortly."""
        return self.build(spec, proxy.endpoint, SILENT_LIMIT_S)


class SubjectFixture:
    """Runs a contract on the fixture `subject` of its module or folder."""

    @pytest.fixture
    def subject(self, subject: Any) -> Any:  # noqa: ANN401 -- each store's own
        """Return the fixture of the same name."""
        return subject


class UnencryptedOperations(SubjectFixture):
    """Tests of operations on every store whose requests a proxy can read, besides those of `OperationsContract`."""

    @pytest.mark.parametrize("when", ["before-answer", "in-answer"])
    @pytest.mark.parametrize("reuse", [True, False])
    async def test_a_cut_connection_is_unknown_and_is_replaced(
        self, subject: OperationsSubject, when: Literal["before-answer", "in-answer"], *, reuse: bool
    ) -> None:
        """The write has happened; the next operation must not wait for, or die on, what is left of the connection."""
        spec = operations_spec(subject.target, reuse=reuse)
        overwrite = contents_of(spec).operation(Kind.OVERWRITE, 1, 9)
        # Requests without framing may be those of a greeting; the others have no greeting, and their keys are not seen.
        is_plain = subject.framing is plain
        match = overwrite.key.encode() if is_plain else b""
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver:
                proxy.follow(Rule(Cut(when, after_bytes=3), match=match, times=1))
                cut = await perform(driver, overwrite)
                stored = await subject.read_back(spec, overwrite.key)
                after = await until_operated(driver, overwrite)
        assert cut.outcome is Outcome.UNKNOWN
        assert cut.error == "connection-reset" or (is_plain and cut.error == "connection-closed")
        assert stored == overwrite.value
        assert len(after) == 1

    @pytest.mark.parametrize("reuse", [True, False])
    async def test_values_that_are_altered_swapped_or_cut_on_their_way_are_wrong(
        self, subject: OperationsSubject, *, reuse: bool
    ) -> None:
        """Each of them, and no other: as many as the proxy says. A swap with a shorter record cuts the value."""
        spec = operations_spec(subject.target, reuse=reuse)
        contents = contents_of(spec)
        read, other, short = (contents.preloaded(record) for record in (1, 2, 3))
        rules = {
            "altered": Replace("answer", read.value[-9:], b"!" * 9),
            "swapped": Replace("request", read.key.encode(), other.key.encode()),
            "cut": Replace("request", read.key.encode(), short.key.encode()),
        }
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            async with operating(subject.through(spec, proxy)) as driver:
                await perform(driver, short._replace(value=short.value[:-3]))
                for fault in rules.values():
                    proxy.forget()
                    proxy.follow(Rule(fault))
                    wrong = [await perform(driver, contents.operation(Kind.READ, 1, 0)) for _ in range(READS)]
                    assert proxy.stats().faults == {fault.name: READS}
                    proxy.follow()
                    right = [await perform(driver, contents.operation(Kind.READ, 1, 0)) for _ in range(READS)]
                    assert [(each.outcome, each.error) for each in wrong] == [(Outcome.FAILED, "wrong_value")] * READS
                    assert [(each.outcome, each.error) for each in right] == [(Outcome.OK, "")] * READS

    async def test_the_largest_blob_can_be_read(self, subject: OperationsSubject) -> None:
        """An answer to a write is small, and the wire once took none above 64 KB; batches have bounds in bytes."""
        largest = {"record": {"shape": "blob", "value_bytes": 350_000}}
        spec = operations_spec(subject.target, records=30, workload=largest)
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            operated = await perform(driver, contents.operation(Kind.READ, 29, 0))
            assert (operated.outcome, operated.error) == (Outcome.OK, "")
            assert await subject.read_back(spec, contents.preloaded(29).key) == contents.preloaded(29).value


class SeenChange(NamedTuple):
    """A change, with the t4 of its batch."""

    value: bytes
    position: int
    t4_ns: int


@asynccontextmanager
async def established_watch(
    driver: Driver, from_position: int | None = None
) -> AsyncIterator[AsyncIterator[ChangeBatch]]:
    """Yield a watch whose first batch, which is empty, has come; a TimeoutError fails the test."""
    async with asyncio.timeout(LIMIT_S), watch(driver, from_position) as batches:
        assert list((await anext(batches)).changes) == []
        yield batches


async def take_changes(batches: AsyncIterator[ChangeBatch], count: int) -> list[SeenChange]:
    """Return the next so many changes."""
    taken: list[SeenChange] = []
    while len(taken) < count:
        batch = await anext(batches)
        taken += [SeenChange(change.value, change.position, batch.t4_ns) for change in batch.changes]
    return taken
