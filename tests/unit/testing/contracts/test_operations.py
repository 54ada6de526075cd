"""The contract of operations: ways of breaking it are found. A driver that keeps it is in `test_example_store`."""

# ruff: noqa: D101, D102 -- the classes' names say what they break

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.unit.testing.conftest import ExampleSubject

from stepbench.contracts.workload import Kind
from stepbench.testing.contracts.operations import OperationsContract
from stepbench.testing.example_store.driver import ExampleDriver
from stepbench.testing.example_store.server import example_server
from stepbench.testing.example_store.target import ExampleTarget


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


class DeclaresNoReads(ExampleTarget):
    operations: ClassVar = frozenset({Kind.INSERT, Kind.OVERWRITE})


async def test_a_target_without_reads_is_noticed() -> None:
    """A loop over nothing passes."""
    with example_server() as server:
        subject = ExampleSubject(server)
        subject.target = DeclaresNoReads(endpoint=server.endpoint)
        with pytest.raises(AssertionError, match="declares no reads"):
            await OperationsContract().test_reading_what_is_not_there_is_failed(subject, "blob")
