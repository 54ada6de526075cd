"""
What a store has to offer to be measured.

Life cycle: `prepare` (once, by PrepareTarget, idempotent) · `ready` (polled) · in each writer `open` → `write` …, or
`open` → `warm_up` → `operate` … → `close` · `tear_down` (until it says done; idempotent, resumable). Watching and
scaling are separate Protocols: a driver has those that its store can do. A store that offers triggers and operations
has a driver for each. A driver of which much is asked can be `Prompt` besides: what it offers is made ahead of its
time, and sent and answered without a task.

A store's answer is never an exception: `write` and `operate` return an `Outcome`. What a driver may raise is
`TargetUnavailableError` (and `PlanError` for a target that can never work), from the control methods only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from stepbench.contracts.plan import Scale
from stepbench.contracts.workload import Kind


class Outcome(IntEnum):
    """
    How a write ended.

    OK: acknowledged. FAILED: the store said no, the write has not happened. UNKNOWN: no answer (time-out, connection
    cut, undecodable answer), so it may have happened.
    """

    OK = 0
    FAILED = 1
    UNKNOWN = 2


class Write(NamedTuple):
    """One write to offer. `value` begins with the event's identity; of a deletion it is empty, and the key has it."""

    key: str
    value: bytes
    delete: bool = False


class Written(NamedTuple):
    """
    What came of it. Times are ns since the epoch by the writer's clock.

    t1_ns: the request is handed to the kernel (the last statement before the send).
    t2_ns: the answer is in hand (the first statement after it), refusals too; for UNKNOWN the moment of giving up.
    token: the store's own name for the change (S3 version id, etcd revision), "" where it has none.
    error: the store's error code for FAILED and UNKNOWN ("ThrottlingException", "timeout"), else "".
    """

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    token: str = ""
    error: str = ""


PROBED = frozenset({Kind.READ, Kind.INSERT})
"""Operations by which a store is asked whether it is ready, whatever the workload's mix."""


class Operation(NamedTuple):
    """
    One operation to offer, on the record with this key.

    value: what is written, of a blob; of a product the JSON of `fields`. fields: of a product, what is written: all, or
    those that an update changes. rows: how many records a scan asks for. client: whose connection is used. A read, and
    the reading part of a read-modify-write, has neither value nor fields to send; the latter's are written afterwards.
    """

    kind: Kind
    key: str
    value: bytes = b""
    fields: Mapping[str, str] | None = None
    rows: int = 0
    client: int = 0


class Connecting(NamedTuple):
    """What an operation on a connection of its own was made of, in ns; 0 where there is no TLS or authentication."""

    connect_ns: int
    tls_ns: int
    authenticate_ns: int
    operate_ns: int


class Operated(NamedTuple):
    """
    What came of an operation: as `Written`, and what only operations have.

    t1_ns and t2_ns enclose all of it: the connection's making, where it has one of its own, and retries. A read that
    finds no record is FAILED with error "not_found": what is read was written before.
    retries: after conflicts, by the driver, as the store's documentation demands.
    """

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    token: str = ""
    error: str = ""
    retries: int = 0
    connecting: Connecting | None = None


Answer = Written | Operated


WITHDRAWN = "withdrawn"
"""The error of what never left because its task was cancelled first."""


class WithdrawnError(asyncio.CancelledError):
    """
    The task of a write or operation was cancelled, at a moment when it was known what had come of it.

    It had not left us, or all that had was answered. Still a cancellation, so that whoever is cancelled goes home;
    any other one leaves it open whether the store has done something.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Store(Protocol):
    """One store under test, for one trial: what is done to it before and after the load."""

    async def open(self) -> None:
        """Connect; no effect on data. Raises TargetUnavailableError."""
        ...

    async def prepare(self) -> None:
        """
        Make bucket space, table, trigger, preloaded keys. Idempotent. Raises TargetUnavailableError.

        When it is cancelled, it ends after what the store has already been asked for: `tear_down` may come next.
        """
        ...

    async def ready(self) -> bool:
        """Whether everything that `prepare` asked for is active (not yet: whether events arrive)."""
        ...

    async def tear_down(self) -> bool:
        """Remove a part of what `prepare` and the writers made, in at most some 30 s; True when nothing is left."""
        ...

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        ...

    async def provider(self) -> str:
        """What serves this store, with version, as the report names it ("etcd 3.5.1", "Amazon S3")."""
        ...


class Driver(Store, Protocol):
    """A store whose trigger is measured."""

    async def write(self, write: Write) -> Written:
        """Offer one record; many may be in flight. Never raises for the store's answer."""
        ...


@runtime_checkable
class Operable(Store, Protocol):
    """
    A store whose operations are measured.

    Its `open` makes one connection at most. The stages that prepare, ask and clear up open it too, and a server may
    have no more places than the load has clients.
    """

    async def warm_up(self) -> None:
        """
        After `open`: make the connections of a writer's clients, so that none is made under load.

        Without it each is made when an operation needs it, before t1. Raises TargetUnavailableError.
        """
        ...

    async def operate(self, operation: Operation) -> Operated:
        """
        Offer one operation, of a kind of the mix or of `PROBED`; one a client may be in flight.

        Never raises for the store's answer.
        """
        ...


AnswerT = TypeVar("AnswerT", bound=Answer)
AnswerT_co = TypeVar("AnswerT_co", bound=Answer, covariant=True)


class Made(Protocol[AnswerT_co]):
    """A write or an operation of which all is done that can be done before it is sent; for one use."""

    def send(self, done: Callable[[AnswerT_co], None]) -> None:
        """
        Hand it to the kernel now, or where nothing can be sent now as soon as possible.

        Never raises for what the store or the network does. `done` is called once, on the loop, with what came of it;
        from within this call only if nothing was sent, and so never with OK.
        """
        ...

    def abandon(self) -> None:
        """
        Await the answer no longer, once it was sent: `done` is called in one of the loop's next turns at the latest.

        With UNKNOWN, or with what is known: FAILED and `WITHDRAWN` where nothing of it has left us. Nothing happens
        where `done` has been called.
        """
        ...


@runtime_checkable
class Prompt(Protocol):
    """A driver whose writes take no task each. `write` is the same, for whoever wants to wait."""

    def make(self, write: Write) -> Made[Written]:
        """
        All but the sending; the driver is open. What it has of the time (a signature's date) must last for a minute.

        Never raises for the store's or the network's doings: what there is to say is said to `done`.
        """
        ...


@runtime_checkable
class PromptOperable(Protocol):
    """A driver whose operations take no task each; otherwise as `Prompt`."""

    def make(self, operation: Operation) -> Made[Operated]:
        """All but the sending; the client's operation before it may still be under way."""
        ...


class Change(NamedTuple):
    """
    One change that a watch has seen; of a deletion `value` is the key.

    `position` orders changes and names one (etcd: mod_revision).
    """

    value: bytes
    position: int


class ChangeBatch(NamedTuple):
    """Changes that arrived together, stamped before anything of them was parsed."""

    t4_ns: int
    changes: Sequence[Change]


@runtime_checkable
class Watchable(Protocol):
    """A store whose changes are pulled."""

    def watch(self, from_position: int | None) -> AsyncIterator[ChangeBatch]:
        """
        Changes in the trial's namespace, from a position on (None: from now).

        The first batch is always empty: it says that the watch is established. Raises TargetUnavailableError when
        the store ends the watch.
        """
        ...


@runtime_checkable
class Scalable(Protocol):
    """A store whose capacity can be changed while it runs."""

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity if that has not been done; True when it is active. Idempotent."""
        ...
