"""
What a store's room has to offer for the store to be measured.

Life cycle: `prepare` (once, by PrepareTarget, idempotent) · `ready` (polled) · in each writer `open` → `warm_up` →
`prepare_request` … → `close` · `tear_down` (until it returns True; idempotent, resumable). Connecting ahead,
watching and scaling are separate Protocols: a driver has those that its store can do.

A store's answer is never an exception: a request ends with a `Result`. What a driver may raise is
`TargetUnavailableError` (TargetUnreachableError, a kind of it, where waiting is of no use; and `PlanError` for a target
that can never work), from the control methods only. `open` and then `ready`, before there is anything, are how
PrepareTarget finds out whether the store answers: they raise within some seconds if it does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from stepbench.clock import Clock
from stepbench.contracts.phase import Scale
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.tuning import AppliedConfiguration, CassandraConfiguration, EffectiveConfiguration
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import ChangeBatch, PendingRequest, Request
from stepbench.settings import Settings

if TYPE_CHECKING:
    from stepbench.drivers.blobs import BlobStore
    from stepbench.workload.values import PreparedValues


class Driver(Protocol):
    """
    One store under test, for one trial.

    Its `open` makes one connection at most. The stages that prepare, probe and clear up open it too, and a server may
    have no more places than the load has clients.
    """

    async def open(self) -> None:
        """Connect; no effect on data. Raises TargetUnavailableError."""
        ...

    async def prepare(self) -> None:
        """
        Make bucket space, table, trigger, preloaded records. Idempotent. Raises TargetUnavailableError.

        When it is cancelled, it ends after what the store has already been asked for: `tear_down` may come next.
        """
        ...

    async def ready(self) -> bool:
        """Return whether everything that `prepare` asked for is active (not yet: whether events arrive)."""
        ...

    def prepare_request(self, request: Request) -> PendingRequest:
        """
        Return a request with all done but the sending; the driver is open.

        Many may be in flight, of one client in operations one after the other: the next is prepared while the last is
        under way. What it has of the time (a signature's date) must last for a minute. Never raises for what the store
        or the network does: the request's result says it.
        """
        ...

    async def tear_down(self) -> bool:
        """Remove a part of what `prepare` and the writers made, in at most some 60 s; True when nothing is left."""
        ...

    def resource_names(self) -> tuple[str, ...]:
        """Name what `tear_down` removes, as the store's own tools call it; each name has the trial's tag in it."""
        ...

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        ...

    async def provider(self) -> str:
        """Return what serves this store, with version, as the report names it ("etcd 3.5.1", "Amazon S3")."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """A driver whose writers have connections of their own."""

    async def warm_up(self) -> None:
        """
        Make the connections of a writer's clients after `open`, so that none is made under load.

        A driver needs none where `open` makes the only one. Raises TargetUnavailableError.
        """
        ...


@runtime_checkable
class CountsConnections(Protocol):
    """A driver that knows how many connections of its load it has made, those included that replaced a dead one."""

    @property
    def connections(self) -> int:
        """Return how many."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A driver whose store's changes are pulled."""

    def watch(self, from_position: int | None) -> AsyncIterator[ChangeBatch]:
        """
        Yield the changes in the trial's namespace, from a position on (None: from now).

        The first batch is always empty: it says that the watch is established, and when. Raises TargetUnavailableError
        when the store ends the watch.
        """
        ...


@runtime_checkable
class Scalable(Protocol):
    """A driver whose store's capacity can be changed while it runs."""

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity if that has not been done; True when it is active. Idempotent."""
        ...


@runtime_checkable
class TakesValues(Protocol):
    """A driver whose preloaded records may be rows of the user's own."""

    def use_values(self, values: PreparedValues) -> None:
        """Take them before `prepare`; no effect on data."""
        ...


@runtime_checkable
class Accountable(Protocol):
    """A driver whose trial removes what it makes, so that a tear-down may find nothing."""

    async def remaining(self) -> int:
        """Return how many objects of the trial are in the store. Raises TargetUnavailableError."""
        ...


@runtime_checkable
class MakesLate(Protocol):
    """A driver that has a service make things, of which one may come to be after a tear-down has found nothing."""

    late_s: float
    """How long after its request, at most: nobody awaits that where the writer is killed."""


class Tunable(Protocol):
    """What changes the configuration of the store's server, and reads it back."""

    async def effective(self) -> EffectiveConfiguration:
        """Return what the server says that it has now. Raises TargetUnavailableError."""
        ...

    async def apply(self, configuration: CassandraConfiguration | None) -> AppliedConfiguration:
        """
        Bring the server, and the trial's tables, to a configuration; None is as released. Idempotent.

        It may start the server anew, so that whoever asks first lets end what is under way. What was asked for is read
        back. Raises TargetUnavailableError, also where the server has it otherwise then.
        """
        ...


@runtime_checkable
class Substituted(Protocol):
    """A driver of several things, in place of any of which something else may be measured."""

    async def stand_ins(self) -> dict[str, str]:
        """Return what is measured in place of AWS's, by what it stands for; nothing on AWS."""
        ...


class Reading(NamedTuple):
    """
    What a meter has read so far.

    utilisation: a share of what the store can do; None where there is none yet. whole: nothing more is to come. text:
    names the metric, with the periods that were read.
    """

    utilisation: float | None
    whole: bool
    text: str


class Meter(Protocol):
    """Reads the utilisation of one store. It needs neither the store's client library nor a way to its network."""

    @property
    def period_s(self) -> int:
        """Return the period of its metric; only whole periods are read."""
        ...

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """
        Return the utilisation over the whole periods between two moments, ns since the epoch.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: AWS does not answer, or not so.
        """
        ...


BuildDriver = Callable[[TrialSpec, Settings, Clock], Driver]
BuildBlobs = Callable[[TrialSpec, Settings, Clock], "BlobStore"]


class StoreRoom(NamedTuple):
    """
    What a store's room offers; `drivers.registry` finds it by the target.

    The functions import what they need when they are called, so that a function of the stack that only asks for the
    lease or the meter needs no client library.

    lease: the name under which a trial holds the stack's own store, so that no two trials measure one at a time.
    trigger, operations, transfer: builders of the drivers, nothing connected yet; None where the store has no such
    thing. blobs: likewise, of what functions pass data through.
    tuning: None where the server's configuration cannot be changed.
    meter: None where nothing measures how busy the store is, beyond the metric that the stack's parameter may name.
    """

    lease: Callable[[TrialSpec, Settings], str]
    trigger: BuildDriver | None = None
    operations: BuildDriver | None = None
    transfer: BuildDriver | None = None
    blobs: BuildBlobs | None = None
    tuning: Callable[[TrialSpec, Settings, Clock], Tunable] | None = None
    meter: Callable[[TrialSpec, Settings, Callable[[str], Any]], Meter | None] | None = None


async def in_turn(*steps: Callable[[], Awaitable[bool]]) -> bool:
    """
    Take one step of clearing up after the other, up to the first that is not done yet; return whether all are.

    One that fails keeps none of the others from being taken: what it could not remove is no reason to leave the rest.

    Raises:
        TargetUnavailableError: what the first that failed raised, when the others have been taken.
    """
    done, failures = True, []
    for step in steps:
        try:
            done = await step()
        except TargetUnavailableError as error:
            failures.append(error)
        if not done:
            break
    if failures:
        raise failures[0]
    return done
