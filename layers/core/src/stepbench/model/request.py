"""
A request on its way: asked of a store, prepared ahead of its time, sent when it is due, answered in a callback.

Every driver has one way to prepare a request, `prepare_request`; what it returns is a `PendingRequest`. A driver whose
request takes several steps returns a `CoroutineRequest`; whoever wants to wait for a result uses `perform`: both are in
`model.pending`. What a watch sees of its effect is a `Change`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.contracts.workload import Kind
from stepbench.model.errors import driver_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock


class Outcome(IntEnum):
    """
    How a request ended.

    OK: acknowledged. FAILED: the store said no, so nothing has happened. UNKNOWN: no answer (time-out, connection cut,
    undecodable answer), so it may have happened.
    """

    OK = 0
    FAILED = 1
    UNKNOWN = 2


class ConnectionParts(NamedTuple):
    """What a request on a connection of its own took, in ns; 0 where there is no TLS or authentication."""

    connect_ns: int
    tls_ns: int
    authenticate_ns: int
    operate_ns: int


class Result(NamedTuple):
    """
    The end of one request. Times are ns since the epoch by the writer's clock.

    t1_ns: the request is handed to the kernel (the last statement before the send). t2_ns: the answer is in hand (the
    first statement after it), refusals too; for UNKNOWN the moment of giving up. Both enclose the connection's making,
    where the request has one of its own, and retries.
    token: the store's own name for the change (S3 version id, etcd revision), "" where it has none.
    error: for FAILED and UNKNOWN the store's code, or one of `model.errors`. A read that finds no record is FAILED with
    "not_found": what is read was written before. So is one that returns anything but a value of its record, with
    "wrong_value" (`workload.checks`).
    retries: after conflicts, by the driver, as the store's documentation demands.
    connecting: the parts of the time, without reuse of connections.
    """

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    token: str = ""
    error: str = ""
    retries: int = 0
    connecting: ConnectionParts | None = None


PROBED = frozenset({Kind.READ, Kind.INSERT})
"""Kinds of request by which a store is asked whether it is ready, whatever the workload's mix."""


class Request(NamedTuple):
    """
    One request, on the record with this key.

    kind: triggers are fired by INSERT and DELETE; operations are of all kinds but DELETE. value: what is written: the
    blob, or a product's `fields` as JSON; a trigger's begins with the event's identity, deletions have it in the key.
    fields: of a product, what is written: all, or those that an update changes. rows: how many records a scan asks for.
    client: whose connection is used. A read has neither value nor fields; those of a read-modify-write are written
    after the read. row: of the user's own values, a row's columns as PostgreSQL takes them; None is NULL.
    """

    kind: Kind
    key: str
    value: bytes = b""
    fields: Mapping[str, str] | None = None
    rows: int = 0
    client: int = 0
    row: Sequence[bytes | None] = ()


class Change(NamedTuple):
    """
    One change that a watch has seen; of a deletion, and of a row of the user's own, `value` is the key.

    `position` orders changes and names one (etcd: mod_revision).
    """

    value: bytes
    position: int


class ChangeBatch(NamedTuple):
    """Changes that arrived together, stamped before anything of them was parsed."""

    t4_ns: int
    changes: Sequence[Change]


class PendingRequest(Protocol):
    """A request of which all is done that can be done before it is sent; for one use."""

    def send(self, done: Callable[[Result], None]) -> None:
        """
        Hand it to the kernel now, or where nothing can be sent now as soon as possible.

        Never raises for what the store or the network does. `done` is called exactly once, on the loop, with the
        result; from within this call only if nothing was sent, and so never with OK.
        """
        ...

    def abandon(self) -> None:
        """
        Stop waiting for the answer, once it was sent: `done` is called in one of the loop's next turns at the latest.

        The result is UNKNOWN, or what is known: FAILED and `WITHDRAWN` where nothing of it has left us. Nothing happens
        where `done` has been called.
        """
        ...


class FailedRequest:
    """
    `PendingRequest` of what the driver could not even prepare.

    A driver that breaks its contract must not cost the other records, so that this one is UNKNOWN.
    """

    def __init__(self, error: Exception, clock: Clock) -> None:
        self._error = error
        self._clock = clock

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        done(failed_in_driver(self._error, self._clock))

    def abandon(self) -> None:
        """See `PendingRequest`."""


def failed_in_driver(error: Exception, clock: Clock) -> Result:
    """Return what is known of a request at which the driver broke."""
    now_ns = clock.now_ns()
    return Result(now_ns, now_ns, Outcome.UNKNOWN, error=driver_error(error))
