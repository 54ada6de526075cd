"""
What a store has to offer to be measured.

Life cycle: `prepare` (once, by PrepareTarget, idempotent) · `ready` (polled) · in each writer `open` → `write` … →
`close` · `tear_down` (until it says done; idempotent, resumable). Delivery, watching and scaling are separate
Protocols: a driver has those that its store can do.

A store's answer is never an exception: `write` returns an `Outcome`. What a driver may raise is
`TargetUnavailableError` (and `PlanError` for a target that can never work), from the control methods only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

from stepbench.contracts.plan import Scale


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


class Driver(Protocol):
    """One store under test, for one trial."""

    async def open(self) -> None:
        """Connect; no effect on data. Raises TargetUnavailableError."""
        ...

    async def prepare(self) -> None:
        """Make bucket space, table, trigger, preloaded keys. Idempotent. Raises TargetUnavailableError."""
        ...

    async def ready(self) -> bool:
        """Whether everything that `prepare` asked for is active (not yet: whether events arrive)."""
        ...

    async def write(self, write: Write) -> Written:
        """Offer one record; many may be in flight. Never raises for the store's answer."""
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
