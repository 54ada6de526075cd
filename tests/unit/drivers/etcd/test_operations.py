"""What operations on etcd make of answers that are none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.contracts.operations_subject import contents_of, operations_spec, workload_of
from tests.support.fake_clock import FakeClock

from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.channels import range_result, write_result
from stepbench.drivers.etcd.operations import EtcdOperations
from stepbench.model.errors import GARBAGE
from stepbench.model.request import Outcome, Result
from stepbench.settings import Settings
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.workload.checks import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.wire.http2.grpc_connection import GrpcConnection

SPEC = operations_spec({"store": "etcd", "endpoint": "127.0.0.1:2379"}, "product")
CHECK = RecordCheck(workload_of(SPEC), SPEC.tag)
UPDATE = contents_of(SPEC).operation(Kind.UPDATE, 1, 5)


class _Scripted(EtcdOperations):
    """Calls are answered OK, with these bodies in turn."""

    bodies: list[bytes]

    async def _call(self, connection: GrpcConnection, method: str, message: bytes, started_ns: int = 0) -> GrpcAnswer:
        del connection, method, message, started_ns
        return GrpcAnswer(1, 2, GrpcStatus.OK, data=self.bodies.pop(0))


def _found(value: bytes) -> bytes:
    return pb.RangeResponse(kvs=[pb.KeyValue(key=b"k", value=value, mod_revision=1)]).SerializeToString()


async def _operate(*bodies: bytes) -> Result:
    driver = _Scripted(SPEC, Settings(results_table="t", results_bucket="b"), FakeClock())
    driver.bodies = list(bodies)
    return await driver._perform(UPDATE, cast("GrpcConnection", None))


@pytest.mark.parametrize("read", [partial(range_result, CHECK, UPDATE), write_result])
def test_an_ok_that_is_no_protobuf_is_unknown(read: Callable[[GrpcAnswer], Result]) -> None:
    """An exception here would end in the connection's reader, and the operation never."""
    assert read(GrpcAnswer(1, 2, GrpcStatus.OK, data=b"\xff")) == Result(1, 2, Outcome.UNKNOWN, error=GARBAGE)


@pytest.mark.parametrize("body", [b"\xff", pb.TxnResponse(succeeded=False).SerializeToString()])
async def test_an_update_whose_txn_is_not_understood_is_unknown(body: bytes) -> None:
    """It may have changed the record; a Txn that failed has to say how the record is."""
    operated = await _operate(_found(contents_of(SPEC).preloaded(1).value), body)
    assert operated == Result(1, 2, Outcome.UNKNOWN, error=GARBAGE)


@pytest.mark.parametrize("found", [b"{", contents_of(SPEC).preloaded(1).value.replace(b"}", b"]")])
async def test_an_update_of_what_is_no_value_of_the_record_changes_nothing(found: bytes) -> None:
    """After a conflict the Txn's answer has the record, as somebody else has written it."""
    get = pb.ResponseOp(response_range=pb.RangeResponse.FromString(_found(found)))
    conflict = pb.TxnResponse(succeeded=False, responses=[get]).SerializeToString()
    operated = await _operate(_found(contents_of(SPEC).preloaded(1).value), conflict)
    assert operated == Result(1, 2, Outcome.FAILED, error="wrong_value", retries=1)
