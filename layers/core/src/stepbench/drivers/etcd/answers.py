"""Answers to etcd's calls, as results: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.model.errors import (
    CONNECTION_CLOSED,
    CONNECTION_RESET,
    GARBAGE,
    NO_ANSWER,
    NOT_FOUND,
    TIMEOUT,
    WITHDRAWN,
)
from stepbench.model.request import Outcome, Result
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus

if TYPE_CHECKING:
    from stepbench.model.request import Request
    from stepbench.workload.checks import RecordCheck

ABANDONED = "abandoned by the load generator"
_CONNECTION_ENDS = {
    CONNECTION_CLOSED: CONNECTION_CLOSED,
    CONNECTION_RESET: CONNECTION_RESET,
    "the connection has ended": CONNECTION_CLOSED,
    "the server said goodbye": CONNECTION_CLOSED,
    "no answer to a ping": TIMEOUT,
}
"""Why gRPC calls a call UNAVAILABLE that no server has answered, in the words of all drivers."""
_REFUSALS = frozenset(
    {
        # etcd checks these before it proposes the write to its peers, so the write has not happened.
        GrpcStatus.INVALID_ARGUMENT,  # request too large, empty key
        GrpcStatus.RESOURCE_EXHAUSTED,  # space quota exceeded, too many requests
        GrpcStatus.FAILED_PRECONDITION,
        GrpcStatus.PERMISSION_DENIED,
        GrpcStatus.UNAUTHENTICATED,
        GrpcStatus.UNIMPLEMENTED,
        GrpcStatus.NOT_FOUND,
        GrpcStatus.OUT_OF_RANGE,
    }
)


def read_outcome(answer: GrpcAnswer) -> Outcome:
    """
    Return what an answer says about a write.

    The server's UNAVAILABLE is UNKNOWN: a lost leader and etcd's own "request timed out" give it, and then the write
    may have been committed.
    """
    if answer.status is GrpcStatus.OK:
        return Outcome.OK
    is_refused = answer.is_untouched or (answer.is_answered and answer.status in _REFUSALS)
    return Outcome.FAILED if is_refused else Outcome.UNKNOWN


def read_error(answer: GrpcAnswer) -> str:
    """Return gRPC's name for an answer, "" for OK; where no server has answered, one of `model.errors`."""
    if answer.status is GrpcStatus.OK:
        return ""
    if answer.is_answered:
        return answer.status.name
    if answer.message == ABANDONED:
        return WITHDRAWN if answer.is_untouched else NO_ANSWER
    if answer.status is GrpcStatus.DEADLINE_EXCEEDED:
        return TIMEOUT
    return _CONNECTION_ENDS.get(answer.message, answer.status.name)


def write_result(answer: GrpcAnswer) -> Result:
    """
    Return the result of a Put, DeleteRange or Txn; the token is the revision that it made.

    Their answers begin with the same header, and nothing else of them is read. An OK with a body that is no protobuf is
    UNKNOWN: what it was about may have happened.
    """
    if answer.status is not GrpcStatus.OK:
        return Result(answer.t1_ns, answer.t2_ns, read_outcome(answer), error=read_error(answer))
    try:
        revision = pb.PutResponse.FromString(answer.data).header.revision
    except DecodeError:
        return Result(answer.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE)
    return Result(answer.t1_ns, answer.t2_ns, Outcome.OK, str(revision))


def range_result(check: RecordCheck, request: Request, answer: GrpcAnswer) -> Result:
    """Return the result of the Range that reads a request's record, or scans from it on."""
    outcome, error = read_outcome(answer), read_error(answer)
    try:
        if outcome is Outcome.OK:
            error = judge_range(check, request, pb.RangeResponse.FromString(answer.data))
            outcome = Outcome.FAILED if error else Outcome.OK
    except DecodeError:
        outcome, error = Outcome.UNKNOWN, GARBAGE
    return Result(answer.t1_ns, answer.t2_ns, outcome, error=error)


def judge_range(check: RecordCheck, request: Request, found: pb.RangeResponse) -> str:
    """Return the error of what was found, "" where it is right."""
    if not found.kvs:
        return NOT_FOUND
    if request.kind is Kind.SCAN:
        return check.scan(request, [(each.key.decode("utf-8", "replace"), each.value) for each in found.kvs])
    return check.read(request.key, found.kvs[0].value)
