"""The contract itself: a driver that keeps it passes, and each way of breaking it is found."""

# ruff: noqa: D101, D102 -- the classes' names say what they break

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.contracts.trigger import TriggerContract

from stepbench.clock import SystemClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.preload import preloads
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Outcome, PendingRequest, Request, Result

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec

Store = dict[str, bytes]


class HonestDriver:
    """Keeps the contract, over a dict. The trigger is a key of its own."""

    def __init__(self, spec: TrialSpec, store: Store) -> None:
        self.spec = spec
        self.store = store
        self.clock = SystemClock()
        self.revision = 0

    async def open(self) -> None:
        """Do nothing."""

    async def prepare(self) -> None:
        """Make the trigger and the preloaded keys."""
        self.store[f"{self.spec.tag}#trigger"] = b""
        self.store.update({write.key: write.value for write in preloads(self.spec)})

    async def ready(self) -> bool:
        """Return whether it is prepared."""
        return f"{self.spec.tag}#trigger" in self.store

    def prepare_request(self, request: Request) -> PendingRequest:
        """Write in a task."""
        return CoroutineRequest(partial(self.write, request), self.clock)

    async def write(self, write: Request) -> Result:
        """Store, or delete."""
        t1_ns = self.clock.now_ns()
        if write.kind is Kind.DELETE:
            self.store.pop(write.key, None)
        else:
            self.store[write.key] = write.value
        self.revision += 1
        return Result(t1_ns, max(self.clock.now_ns(), t1_ns + 1), Outcome.OK, str(self.revision))

    async def tear_down(self) -> bool:
        """Remove half of the keys a call, the last one alone."""
        mine = [key for key in self.store if key.startswith(self.spec.tag)]
        for key in mine[: (len(mine) + 1) // 2]:
            del self.store[key]
        return len(mine) <= 1

    def resource_names(self) -> tuple[str, ...]:
        """Name them."""
        return (f"keys {self.spec.tag}*",)

    async def close(self) -> None:
        """Do nothing."""

    async def provider(self) -> str:
        """Return a name with a version."""
        return "dict 3.11"


class Unreachable(HonestDriver):
    """Its store refuses connections."""

    async def open(self) -> None:
        """Refuse, as it must."""
        message = "refused"
        raise TargetUnavailableError(message)

    async def prepare(self) -> None:
        """Refuse, as it must."""
        await self.open()


class MakesItsTriggerWhenAsked(HonestDriver):
    async def ready(self) -> bool:
        await self.prepare()
        return True


class WritesOnOpen(HonestDriver):
    async def open(self) -> None:
        self.store[f"{self.spec.tag}/opened"] = b""


class DoublesItsTrigger(HonestDriver):
    async def prepare(self) -> None:
        await super().prepare()
        self.store[f"{self.spec.tag}#trigger-{len(self.store)}"] = b""


class AnswersBeforeItSends(HonestDriver):
    async def write(self, write: Request) -> Result:
        written = await super().write(write)
        return written._replace(t2_ns=written.t1_ns - 1)


class ReportsSeconds(HonestDriver):
    async def write(self, write: Request) -> Result:
        written = await super().write(write)
        return written._replace(t1_ns=written.t1_ns // 10**9, t2_ns=written.t2_ns // 10**9 + 1)


class Reencodes(HonestDriver):
    async def write(self, write: Request) -> Result:
        return await super().write(write._replace(value=write.value.decode("latin-1").encode()))


class KeepsTheFirst(HonestDriver):
    async def write(self, write: Request) -> Result:
        return await super().write(write._replace(value=self.store.get(write.key, write.value)))


class RepeatsItsToken(HonestDriver):
    async def write(self, write: Request) -> Result:
        return (await super().write(write))._replace(token="same")  # noqa: S106 -- a store's token


class SwapsNeighbours(HonestDriver):
    async def write(self, write: Request) -> Result:
        even = write.key[39] in "02468ace"
        other = write.key[:39] + format(int(write.key[39], 16) ^ 1, "x") + write.key[40:]
        return await super().write(write if even else write._replace(key=other))


class ForgetsToPreload(HonestDriver):
    async def prepare(self) -> None:
        self.store[f"{self.spec.tag}#trigger"] = b""


class EmptiesInsteadOfDeleting(HonestDriver):
    async def write(self, write: Request) -> Result:
        return await super().write(write._replace(kind=Kind.INSERT))


class RaisesItsOwnError(Unreachable):
    async def open(self) -> None:
        raise ConnectionRefusedError


class PretendsToHaveWritten(Unreachable):
    async def open(self) -> None:
        """Go on as if all were well."""


class LeavesItsTrigger(HonestDriver):
    async def tear_down(self) -> bool:
        for key in [key for key in self.store if key.startswith(f"{self.spec.tag}/")]:
            del self.store[key]
        return True


class MissesWhatIsGone(HonestDriver):
    async def tear_down(self) -> bool:
        del self.store[f"{self.spec.tag}#trigger"]
        return not await self.ready()


class ClearsTheStore(HonestDriver):
    async def tear_down(self) -> bool:
        self.store.clear()
        return True


class ClosesOnce(HonestDriver):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise ValueError
        self.closed = True


class HasNoName(HonestDriver):
    async def provider(self) -> str:
        return "some store"


class DictSubject:
    """A dict as a store."""

    target: dict[str, Any] = {"store": "s3"}  # noqa: RUF012 -- the TriggerSubject protocol's attribute

    def __init__(
        self, driver: type[HonestDriver] = HonestDriver, unreachable: type[HonestDriver] = Unreachable
    ) -> None:
        self.store: Store = {}
        self._driver, self._unreachable = driver, unreachable

    def driver(self, spec: TrialSpec) -> HonestDriver:
        """Return a driver over the one dict."""
        return self._driver(spec, self.store)

    def unreachable(self, spec: TrialSpec) -> HonestDriver:
        """Return a driver over another dict."""
        return self._unreachable(spec, {})

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """Look."""
        del spec
        return self.store.get(key)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Look."""
        return sorted(key for key in self.store if key.startswith(spec.tag))


class TestAnHonestDriver(TriggerContract):
    """An honest driver passes all of it."""

    @pytest.fixture
    def subject(self) -> DictSubject:
        """Return an empty dict as the store."""
        return DictSubject()


class Breach(NamedTuple):
    """A way of breaking the contract, and the test that must notice."""

    driver: type[HonestDriver]
    noticed_by: str
    unreachable: bool = False


BREACHES = [
    Breach(WritesOnOpen, "test_open_has_no_effect_on_data"),
    Breach(MakesItsTriggerWhenAsked, "test_a_look_at_the_store_makes_nothing"),
    Breach(HonestDriver, "test_an_unreachable_store_is_found_out_by_a_look", unreachable=True),
    Breach(DoublesItsTrigger, "test_prepare_is_idempotent"),
    Breach(AnswersBeforeItSends, "test_an_acknowledged_write_has_plausible_times"),
    Breach(ReportsSeconds, "test_an_acknowledged_write_has_plausible_times"),
    Breach(Reencodes, "test_key_and_value_are_stored_as_written"),
    Breach(KeepsTheFirst, "test_a_second_write_overwrites"),
    Breach(RepeatsItsToken, "test_a_second_write_overwrites"),
    Breach(SwapsNeighbours, "test_writes_in_flight_keep_their_own_results"),
    Breach(ForgetsToPreload, "test_updates_find_their_keys_preloaded"),
    Breach(ForgetsToPreload, "test_deletes_find_their_keys_preloaded_and_remove_them"),
    Breach(EmptiesInsteadOfDeleting, "test_deletes_find_their_keys_preloaded_and_remove_them"),
    Breach(RaisesItsOwnError, "test_an_unreachable_store_is_an_outcome", unreachable=True),
    Breach(PretendsToHaveWritten, "test_an_unreachable_store_is_an_outcome", unreachable=True),
    Breach(PretendsToHaveWritten, "test_an_unreachable_store_cannot_be_prepared", unreachable=True),
    Breach(LeavesItsTrigger, "test_tear_down_leaves_nothing"),
    Breach(MissesWhatIsGone, "test_tear_down_is_resumable"),
    Breach(LeavesItsTrigger, "test_tear_down_is_resumable"),
    Breach(ClearsTheStore, "test_tear_down_spares_the_neighbour"),
    Breach(ClosesOnce, "test_close_twice_is_safe"),
    Breach(HasNoName, "test_the_provider_is_named"),
]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.driver.__name__}-{breach.noticed_by[5:]}")
async def test_a_breach_is_noticed(breach: Breach) -> None:
    """A contract that every driver passes, whatever it does, would be the worst test of all."""
    subject = DictSubject(unreachable=breach.driver) if breach.unreachable else DictSubject(breach.driver)
    test = getattr(TriggerContract(), breach.noticed_by)
    with pytest.raises((AssertionError, LookupError, ValueError, OSError, pytest.fail.Exception)):
        await test(subject)
