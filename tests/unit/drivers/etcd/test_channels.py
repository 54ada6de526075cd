"""An etcd driver's connection, which many share: an answer that is none ends it, and costs no other request."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.drivers.access import AddressBook
from stepbench.drivers.etcd.channels import ChannelCall, ClientChannel, write_result
from stepbench.drivers.etcd.cluster import DEFAULT_LIMITS, PUT, EtcdCluster
from stepbench.model.errors import GARBAGE
from stepbench.model.request import Outcome, Result
from stepbench.settings import Settings
from stepbench.wire.http2 import DATA, END_HEADERS, END_STREAM, HEADERS, encode_frame
from stepbench.wire.http2.grpc_answer import prefixed
from stepbench.wire.http2.grpc_connection import GrpcConnected, GrpcConnection, GrpcLimits

if TYPE_CHECKING:
    from stepbench.drivers.access import Endpoint

FIELDS, TRAILERS = b"\x88\x00\x0ccontent-type\x10application/grpc", b"\x00\x0bgrpc-status\x010"


class _Cluster(EtcdCluster):
    """A server at the other end of a pair of sockets."""

    def __init__(self, clock: FakeClock) -> None:
        settings = Settings(results_table="t", results_bucket="b", etcd_endpoint="127.0.0.1:2379")
        super().__init__(contract_spec({"store": "etcd"}), settings, clock, DEFAULT_LIMITS)
        self._time = clock

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> GrpcConnected:
        """See `EtcdCluster`."""
        del endpoint, address, answer_s, passing
        ours, self.server = socket.socketpair()
        ours.settimeout(0)
        return GrpcConnected(GrpcConnection(ours, self._time, "host:1", GrpcLimits()), 1, 0)

    def channel(self) -> ClientChannel:
        """To it."""
        return ClientChannel(self, self.endpoints[0], AddressBook())


def _answer(stream: int, message: bytes) -> bytes:
    return b"".join(
        (
            encode_frame(HEADERS, END_HEADERS, stream, FIELDS),
            encode_frame(DATA, 0, stream, prefixed(message)),
            encode_frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS),
        )
    )


def test_an_ok_that_is_no_protobuf_is_unknown_and_spoils_no_other_answer() -> None:
    """Untold it would wait for ever, and the answers behind it in the segment with it."""
    clock = FakeClock()
    cluster = _Cluster(clock)
    results: list[Result] = []

    async def scenario() -> None:
        channel = cluster.channel()
        connection = await channel.connected()
        for _ in range(2):
            ChannelCall(channel, PUT, b"", write_result).send(results.append)
        cluster.server.send(_answer(1, b"\xff") + _answer(3, b""))
        for _ in range(3):
            await asyncio.sleep(0)
        assert channel.acquire() is None  # whoever comes next makes a new one
        assert not connection.is_open
        cluster.server.close()

    clock.run(scenario())
    assert [(each.outcome, each.error) for each in results] == [(Outcome.UNKNOWN, GARBAGE), (Outcome.OK, "")]
