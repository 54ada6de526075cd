"""The watch's contract: each way of breaking it is found. A driver that keeps it is in `test_example_store`."""

# ruff: noqa: D101, D102 -- the classes' names say what they break

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.contracts import watch
from tests.support.contracts.trigger_subject import KEY_BYTES
from tests.support.contracts.watch import WatchContract
from tests.support.example_store import driver as example_driver
from tests.support.example_store.driver import ExampleDriver
from tests.support.example_store.server import example_server
from tests.unit.support.conftest import ExampleSubject

from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Change, ChangeBatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence


class AltersChanges(ExampleDriver):
    """A watch whose changes pass through `alter` one by one, but for the batch that establishes it."""

    def alter(self, change: Change) -> Sequence[Change]:
        raise NotImplementedError

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        async for batch in super().watch(from_position):
            yield batch._replace(changes=[altered for each in batch.changes for altered in self.alter(each)])


class DeliversNothing(AltersChanges):
    def alter(self, change: Change) -> Sequence[Change]:
        del change
        return []


class DeliversTwice(AltersChanges):
    def alter(self, change: Change) -> Sequence[Change]:
        return [change, change]


class ReencodesValues(AltersChanges):
    def alter(self, change: Change) -> Sequence[Change]:
        return [change._replace(value=change.value + b"\n")]


class HoldsDeletionsBack(AltersChanges):
    def alter(self, change: Change) -> Sequence[Change]:
        return [change] if len(change.value) > KEY_BYTES else []


class DeliversOutOfOrder(AltersChanges):
    held: Change | None = None

    def alter(self, change: Change) -> Sequence[Change]:
        held, self.held = self.held, None if self.held else change
        return [change, held] if held else []


class EstablishesSilently(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        async for batch in super().watch(from_position):
            if batch.changes:
                yield batch


class LosesOnResume(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        del from_position
        async for batch in super().watch(None):
            yield batch


class RepeatsOnResume(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        async for batch in super().watch(None if from_position is None else from_position - 1):
            yield batch


class StampsInSeconds(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        async for batch in super().watch(from_position):
            yield batch._replace(t4_ns=batch.t4_ns // 1_000_000_000)


class StopsWithoutAnError(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        with suppress(TargetUnavailableError):
            async for batch in super().watch(from_position):
                yield batch


class RaisesItsOwnError(ExampleDriver):
    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        try:
            async for batch in super().watch(from_position):
                yield batch
        except TargetUnavailableError:
            raise ConnectionResetError from None


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is waited for until a limit; here nothing is on its way, so a short one does."""
    monkeypatch.setattr(watch, "DELIVERY_LIMIT_S", 0.5)
    monkeypatch.setattr(watch, "QUIET_S", 0.1)


async def _run(test: str, kind: type[ExampleDriver], **parameters: str) -> None:
    with example_server() as server:
        await getattr(WatchContract(), f"test_{test}")(ExampleSubject(server, kind), **parameters)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("a_watch_is_established_before_the_load", EstablishesSilently),
        ("every_change_is_delivered_once_in_order", DeliversNothing),
        ("every_change_is_delivered_once_in_order", DeliversTwice),
        ("every_change_is_delivered_once_in_order", DeliversOutOfOrder),
        ("every_change_is_delivered_once_in_order", ReencodesValues),
        ("every_change_is_delivered_once_in_order", StampsInSeconds),
        ("a_watch_resumes_from_a_position", LosesOnResume),
        ("a_watch_resumes_from_a_position", RepeatsOnResume),
        ("deletions_are_delivered_with_their_key", HoldsDeletionsBack),
    ],
)
async def test_a_breach_is_noticed(test: str, kind: type[ExampleDriver]) -> None:
    """A driver with such a watch would pass all other contracts, and its trials would fail after minutes."""
    await _run(test, ExampleDriver)
    with pytest.raises((AssertionError, TimeoutError)):
        await _run(test, kind)


@pytest.mark.parametrize("kind", [StopsWithoutAnError, RaisesItsOwnError])
@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_an_end_that_is_not_said_to_be_one_is_noticed(kind: type[ExampleDriver], how: str) -> None:
    """The trial would go on without its events, or end with an error that nobody retries."""
    with pytest.raises((pytest.fail.Exception, ConnectionResetError)):
        await _run("a_watch_that_the_store_ends_is_unavailable", kind, how=how)


async def test_a_neighbours_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch of all keys would count the events of other trials as malformed."""
    await _run("a_neighbours_changes_are_not_delivered", ExampleDriver)
    monkeypatch.setattr(example_driver, "matching_head", lambda _tag: "")
    with pytest.raises(AssertionError):
        await _run("a_neighbours_changes_are_not_delivered", ExampleDriver)
