"""What the etcd driver decides without a server."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from unittest.mock import create_autospec

import pytest
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.channels import ABANDONED, read_error, read_outcome
from stepbench.drivers.etcd.cluster import DEFAULT_LIMITS, EtcdCluster
from stepbench.drivers.etcd.trigger import parse_watch
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Change, ChangeBatch, Outcome
from stepbench.settings import Settings
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.wire.http2.grpc_connection import GrpcConnected, GrpcConnection

if TYPE_CHECKING:
    from stepbench.drivers.access import Endpoint


def _answer(status: GrpcStatus, *, is_answered: bool = True, is_untouched: bool = False) -> GrpcAnswer:
    return GrpcAnswer(1, 2, status, "said", is_answered=is_answered, is_untouched=is_untouched)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (GrpcStatus.OK, Outcome.OK),
        (GrpcStatus.UNAVAILABLE, Outcome.UNKNOWN),
        (GrpcStatus.DEADLINE_EXCEEDED, Outcome.UNKNOWN),
        (GrpcStatus.CANCELLED, Outcome.UNKNOWN),
        (GrpcStatus.INTERNAL, Outcome.UNKNOWN),
        (GrpcStatus.UNKNOWN, Outcome.UNKNOWN),
        (GrpcStatus.DATA_LOSS, Outcome.UNKNOWN),
        (GrpcStatus.INVALID_ARGUMENT, Outcome.FAILED),
        (GrpcStatus.RESOURCE_EXHAUSTED, Outcome.FAILED),
        (GrpcStatus.PERMISSION_DENIED, Outcome.FAILED),
        (GrpcStatus.UNAUTHENTICATED, Outcome.FAILED),
    ],
)
def test_only_a_certain_refusal_is_failed(status: GrpcStatus, outcome: Outcome) -> None:
    """A write that may have happened, counted as failed, would turn its arrival into a contradiction."""
    assert read_outcome(_answer(status)) is outcome


def test_a_refusal_that_the_server_has_not_spoken_is_unknown() -> None:
    """A proxy's 403, or a stream that was reset "to calm down": the write may have gone through before that."""
    assert read_outcome(_answer(GrpcStatus.PERMISSION_DENIED, is_answered=False)) is Outcome.UNKNOWN


def test_what_never_left_or_was_not_looked_at_is_failed() -> None:
    """A refused stream, or a connection that was gone before: nothing can have happened."""
    untouched = _answer(GrpcStatus.UNAVAILABLE, is_answered=False, is_untouched=True)
    assert (read_outcome(untouched), read_error(untouched)) == (Outcome.FAILED, "UNAVAILABLE")


@pytest.mark.parametrize(("is_untouched", "error"), [(True, WITHDRAWN), (False, NO_ANSWER)])
def test_what_the_generator_abandons_says_so(is_untouched: bool, error: str) -> None:  # noqa: FBT001 -- a case
    """The engines count what never left as withdrawn, and everything else as without an answer."""
    abandoned = GrpcAnswer(1, 2, GrpcStatus.CANCELLED, ABANDONED, is_answered=False, is_untouched=is_untouched)
    assert read_error(abandoned) == error


def test_the_first_answer_is_an_empty_batch() -> None:
    """It tells the watcher that from here on nothing is missed."""
    assert parse_watch(5, pb.WatchResponse(created=True).SerializeToString()) == ChangeBatch(5, [])


def test_a_batch_holds_the_changes_of_one_answer() -> None:
    """Etcd sends several in one message; all share its arrival, each has its own revision. A deletion is a key."""
    put, other = pb.KeyValue(key=b"k", value=b"v", mod_revision=7), pb.KeyValue(key=b"l", value=b"w", mod_revision=9)
    deleted = pb.Event(type=pb.Event.DELETE, kv=pb.KeyValue(key=b"k", mod_revision=8))
    answer = pb.WatchResponse(events=[pb.Event(kv=put), deleted, pb.Event(kv=other)])
    changes = [Change(b"v", 7), Change(b"k", 8), Change(b"w", 9)]
    assert parse_watch(5, answer.SerializeToString()) == ChangeBatch(5, changes)


def test_an_answer_without_news_is_no_batch() -> None:
    """An empty batch means "established"; a progress report in between must not look like another beginning."""
    assert parse_watch(5, pb.WatchResponse().SerializeToString()) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (pb.WatchResponse(canceled=True, compact_revision=12), r"no reason given \(compacted up to revision 12\)"),
        (pb.WatchResponse(canceled=True, cancel_reason="permission denied"), "permission denied"),
    ],
)
def test_a_cancelled_watch_says_why(answer: pb.WatchResponse, message: str) -> None:
    """The message is what the user of a failed trial gets to see."""
    with pytest.raises(TargetUnavailableError, match=message):
        parse_watch(5, answer.SerializeToString())


def test_an_answer_that_is_none_ends_the_watch_with_a_reason() -> None:
    """The state machine knows this error, and retries; protobuf's own it does not."""
    with pytest.raises(TargetUnavailableError, match="cannot be read"):
        parse_watch(5, b"\xff")


async def test_an_answer_that_is_none_makes_the_cluster_unavailable() -> None:
    """The stages that prepare, ask and clear up know that error."""
    settings = Settings(results_table="t", results_bucket="b", etcd_endpoint="127.0.0.1:2379")
    cluster = _Garbling(contract_spec({"store": "etcd"}), settings, FakeClock(), DEFAULT_LIMITS)
    with pytest.raises(TargetUnavailableError, match=r"etcd at 127\.0\.0\.1:2379"):
        await cluster.provider()


class _Garbling(EtcdCluster):
    """Every call is answered OK, with bytes that are no protobuf."""

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> GrpcConnected:
        """See `EtcdCluster`."""
        del endpoint, address, answer_s, passing
        connection = create_autospec(GrpcConnection, instance=True)
        connection.call_and_wait.return_value = GrpcAnswer(1, 2, GrpcStatus.OK, data=b"\xff")
        return GrpcConnected(connection, 1, 0)


async def test_who_answered_last_is_asked_first() -> None:
    """A frozen member costs its time-out once, not at each of a trial's calls."""
    settings = Settings(results_table="t", results_bucket="b", etcd_endpoint="127.0.0.1:1,127.0.0.1:2")
    cluster = _FirstIsFrozen(contract_spec({"store": "etcd"}), settings, FakeClock(), DEFAULT_LIMITS)
    for _ in range(2):
        assert await cluster.provider() == "etcd  (2 members)"
    assert cluster.dialled == [1, 2, 2]


class _FirstIsFrozen(EtcdCluster):
    """Nobody answers at port 1; elsewhere every call is answered with an empty message."""

    @cached_property
    def dialled(self) -> list[int]:
        """Return the ports at which it was looked for, in order."""
        return []

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> GrpcConnected:
        """See `EtcdCluster`."""
        del address, answer_s, passing
        self.dialled.append(endpoint.port)
        if endpoint.port == 1:
            raise TimeoutError
        connection = create_autospec(GrpcConnection, instance=True)
        connection.call_and_wait.return_value = GrpcAnswer(1, 2, GrpcStatus.OK, data=b"")
        return GrpcConnected(connection, 1, 0)
