"""What the etcd driver decides without a server."""

from __future__ import annotations

import grpc
import pytest

from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.etcd import EtcdDriver, parse_watch
from stepbench.drivers.etcd_cluster import outcome_of
from stepbench.drivers.protocol import Change, ChangeBatch, Outcome
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.settings import Settings
from stepbench.testing.driver_contract import contract_spec
from stepbench.testing.fake_clock import FakeClock


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (grpc.StatusCode.UNAVAILABLE, Outcome.UNKNOWN),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Outcome.UNKNOWN),
        (grpc.StatusCode.CANCELLED, Outcome.UNKNOWN),
        (grpc.StatusCode.INTERNAL, Outcome.UNKNOWN),
        (grpc.StatusCode.UNKNOWN, Outcome.UNKNOWN),
        (grpc.StatusCode.DATA_LOSS, Outcome.UNKNOWN),
        (grpc.StatusCode.INVALID_ARGUMENT, Outcome.FAILED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Outcome.FAILED),
        (grpc.StatusCode.PERMISSION_DENIED, Outcome.FAILED),
        (grpc.StatusCode.UNAUTHENTICATED, Outcome.FAILED),
    ],
)
def test_only_a_certain_refusal_is_failed(code: grpc.StatusCode, outcome: Outcome) -> None:
    """A write that may have happened, counted as failed, would turn its arrival into a contradiction."""
    assert outcome_of(code) is outcome


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


def test_no_endpoint_is_refused_with_the_remedy() -> None:
    """The stack may come without etcd; the plan's author is told what to give."""
    settings = Settings(results_table="t", results_bucket="b")
    with pytest.raises(PlanError, match="EtcdEndpoint"):
        EtcdDriver(contract_spec({"store": "etcd"}), settings, FakeClock())


def test_the_plans_endpoint_goes_before_the_stacks() -> None:
    """It is the more specific one; the stack's, which would be refused, is not even looked at."""
    settings = Settings(results_table="t", results_bucket="b", etcd_endpoint="host:port")
    EtcdDriver(contract_spec({"store": "etcd", "endpoint": "127.0.0.1:2379"}), settings, FakeClock())
    with pytest.raises(PlanError, match="is not an address"):
        EtcdDriver(contract_spec({"store": "etcd"}), settings, FakeClock())
