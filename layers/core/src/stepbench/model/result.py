"""What a store made of a request."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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
