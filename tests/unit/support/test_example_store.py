"""The example store passes every contract that its target declares, as docs/writing-a-driver.md asks of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import contents_of, operations_spec
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.contracts.watch import WatchContract
from tests.support.example_store import ROOM
from tests.support.example_store.driver import MOST_LINE_BYTES, ExampleDriver
from tests.support.example_store.server import PAGE_KEYS, example_server
from tests.support.example_store.target import ExampleTarget
from tests.unit.support.conftest import SETTINGS, ExampleSubject

from stepbench.clock import SystemClock
from stepbench.contracts.workload import Kind
from stepbench.errors import PlanError
from stepbench.model.pending import perform

if TYPE_CHECKING:
    from collections.abc import Iterator


class OnTheExampleStore:
    """What the contracts run against: a server for each test."""

    @pytest.fixture
    def subject(self) -> Iterator[ExampleSubject]:
        """Run a server for the test."""
        with example_server() as server:
            yield ExampleSubject(server)


class TestExampleTrigger(OnTheExampleStore, TriggerContract):
    """The contract of all triggers."""


class TestExampleWatch(OnTheExampleStore, WatchContract):
    """The contract of stores whose changes are pulled."""


class TestExampleFilter(OnTheExampleStore, FilterContract):
    """The contract of filters, but for updates: their keys do not tell."""

    operations = ("put", "delete")


class TestExampleOperations(OnTheExampleStore, OperationsContract):
    """The contract of all operations."""


def test_its_room_builds_the_driver_and_refuses_a_plan_without_a_server() -> None:
    """A copied room has to build; a plan that names no server is refused as such, not by a broken address."""
    named = contract_spec(ExampleTarget(endpoint="host:1"))
    for build in (ROOM.trigger, ROOM.operations):
        assert build is not None
        assert isinstance(build(named, SETTINGS, SystemClock()), ExampleDriver)
        with pytest.raises(PlanError, match=r"Give target\.endpoint\.$"):
            build(contract_spec(ExampleTarget()), SETTINGS, SystemClock())


async def test_tear_down_goes_on_where_the_last_call_was() -> None:
    """All keys in one answer are too long an answer one day; the contracts have too few for that, and for a False."""
    with example_server() as server:
        spec = contract_spec(ExampleTarget(endpoint=server.endpoint))
        server.values.update({f"{spec.tag}/{n}".encode(): b"" for n in range(2 * PAGE_KEYS + 1)})
        server.values[b"neighbour"] = b""
        hasty = ExampleDriver(spec, SETTINGS, SystemClock(), turn_s=0)
        assert [await hasty.tear_down(), len(server.values)] == [False, PAGE_KEYS + 2]
        assert await ExampleDriver(spec, SETTINGS, SystemClock()).tear_down() is True
        assert list(server.values) == [b"neighbour"]


async def test_an_answer_may_be_as_long_as_a_line() -> None:
    """A connection takes 1 MiB unless it is told to take more."""
    with example_server() as server:
        spec = operations_spec(ExampleTarget(endpoint=server.endpoint))
        read = contents_of(spec).operation(Kind.READ, 0, 0)
        server.values[read.key.encode()] = b"x" * (MOST_LINE_BYTES // 4)
        driver = ExampleDriver(spec, SETTINGS, SystemClock())
        assert (await perform(driver, read)).error == "wrong_value"  # which it is, but it has come
        await driver.close()
