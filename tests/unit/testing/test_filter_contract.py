"""The filter's contract: a driver that keeps it passes, and each way of breaking it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import SystemClock
from stepbench.contracts.identity import CANARY_PHASE, parse_event_id
from stepbench.drivers.protocol import Change
from stepbench.testing import filter_contract
from stepbench.testing.filter_contract import FilterContract, FilterSubject, watching
from stepbench.testing.memory_driver import MemoryDriver

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from stepbench.contracts.plan import TrialSpec
    from stepbench.testing.filter_contract import Arrived


class LetsAllPass(MemoryDriver):
    """No filter."""

    def _tell(self, value: bytes) -> None:
        self.changes.append(Change(value, len(self.changes) + 1))
        self._changed.set()


class HoldsAllBack(MemoryDriver):
    """No trigger."""

    def _tell(self, value: bytes) -> None:
        """As if it had not been."""


class HoldsCanariesBack(MemoryDriver):
    """A filter that looks at more than the head."""

    def _tell(self, value: bytes) -> None:
        event = parse_event_id(value.decode())
        if event is not None and event.phase != CANARY_PHASE:
            super()._tell(value)


class MemorySubject:
    """One driver a trial, watched by itself."""

    target: dict[str, Any] = {"store": "dynamodb"}  # noqa: RUF012 -- the Subject protocol's attribute

    def __init__(self, kind: type[MemoryDriver] = MemoryDriver) -> None:
        self._kind = kind
        self._drivers: dict[str, MemoryDriver] = {}

    def driver(self, spec: TrialSpec) -> MemoryDriver:
        """The trial's."""
        return self._drivers.setdefault(spec.tag, self._kind(SystemClock()))

    def unreachable(self, spec: TrialSpec) -> MemoryDriver:
        """Not asked for here."""
        raise NotImplementedError

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """Look."""
        return self.driver(spec).stored.get(key)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Look."""
        return list(self.driver(spec).stored)

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """By a watch."""
        return watching(self.driver(spec))


class WithoutDeletes(FilterContract):
    """The memory driver preloads nothing, so there is nothing to delete."""

    operations = ("put", "update")


class TestAnHonestFilter(WithoutDeletes):
    """Passes all of it."""

    @pytest.fixture
    def subject(self) -> FilterSubject:
        """See above."""
        return MemorySubject()


@pytest.mark.parametrize("kind", [LetsAllPass, HoldsAllBack, HoldsCanariesBack])
async def test_a_breach_is_noticed(kind: type[MemoryDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is waited for until a limit; here nothing is on its way, so a short one does."""
    monkeypatch.setattr(filter_contract, "DELIVERY_LIMIT_S", 0.5)
    with pytest.raises((AssertionError, TimeoutError)):
        await WithoutDeletes().test_the_filter_lets_the_matching_and_the_canaries_pass(MemorySubject(kind))
