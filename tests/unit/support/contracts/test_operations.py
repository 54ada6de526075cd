"""The contract of operations: ways of breaking it are found. A driver that keeps it is in `test_example_store`."""

# ruff: noqa: D101, D102 -- the classes' names say what they break

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.values import FAULTS, Fault
from tests.support.example_store.driver import ExampleDriver, judge
from tests.support.example_store.server import example_server
from tests.support.example_store.target import ExampleTarget
from tests.unit.support.conftest import ExampleSubject

from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from stepbench.model.request import Request
    from stepbench.wire.answers import Judge


class HasNoWarmUp(ExampleDriver):
    warm_up = None  # type: ignore[assignment]


class WarmsUpOneClient(ExampleDriver):
    async def warm_up(self) -> None:
        await self._links.open([0])


@pytest.mark.parametrize("kind", [HasNoWarmUp, WarmsUpOneClient])
async def test_clients_that_connect_under_load_are_noticed(kind: type[ExampleDriver]) -> None:
    """Such a driver passes all other tests of the contract, since its results are right; only they come late."""
    with example_server() as server, pytest.raises(AssertionError):
        await OperationsContract().test_the_writer_connects_its_clients_before_the_load(ExampleSubject(server, kind))


class ComparesNothing(ExampleDriver):
    def _judge_of(self, request: Request) -> Judge[bytes]:
        del request
        return judge


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_driver_that_takes_any_value_is_noticed(fault: Fault) -> None:
    """Its times are right, and its store may be anybody's."""
    with example_server() as server:
        subject = ExampleSubject(server, ComparesNothing)
        with pytest.raises(AssertionError):
            await OperationsContract().test_wrong_values_are_failed_and_counted(subject, "blob", fault)


class DeclaresNoReads(ExampleTarget):
    operations: ClassVar = frozenset({Kind.INSERT, Kind.OVERWRITE})


async def test_a_target_without_reads_is_noticed() -> None:
    """A loop over nothing passes."""
    with example_server() as server:
        subject = ExampleSubject(server)
        subject.target = DeclaresNoReads(endpoint=server.endpoint)
        with pytest.raises(AssertionError, match="declares no reads"):
            await OperationsContract().test_reading_what_is_not_there_is_failed(subject, "blob")
