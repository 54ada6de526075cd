"""The etcd drivers' connections: who makes one, who shares its fate, and answers that are none."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from stepbench.drivers.addresses import Addresses
from stepbench.drivers.etcd import _written
from stepbench.drivers.etcd_channels import ClientChannel, MadeCall
from stepbench.drivers.etcd_cluster import DEFAULT_LIMITS, GARBAGE, PUT, EtcdCluster
from stepbench.drivers.protocol import Outcome, Written
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec
from stepbench.testing.fake_clock import START_NS, FakeClock
from stepbench.wire.grpc_answer import prefixed
from stepbench.wire.grpc_connect import Connected
from stepbench.wire.grpc_connection import GrpcConnection, GrpcLimits
from stepbench.wire.http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, encode_frame

if TYPE_CHECKING:
    from stepbench.drivers.addresses import Endpoint
    from stepbench.drivers.protocol import Made

DIAL_S = 5
FIELDS, TRAILERS = b"\x88\x00\x0ccontent-type\x10application/grpc", b"\x00\x0bgrpc-status\x010"


class _Cluster(EtcdCluster):
    """A server at the other end of a pair of sockets, or none."""

    def __init__(self, clock: FakeClock, *, is_there: bool) -> None:
        settings = Settings(results_table="t", results_bucket="b", etcd_endpoint="127.0.0.1:2379")
        super().__init__(contract_spec({"store": "etcd"}), settings, clock, DEFAULT_LIMITS)
        self._is_there = is_there
        self._time = clock
        self.dials = 0

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> Connected:
        """See `EtcdCluster`."""
        del endpoint, address, answer_s, passing
        self.dials += 1
        if not self._is_there:
            await asyncio.sleep(DIAL_S)
            raise TimeoutError
        ours, self.server = socket.socketpair()
        ours.settimeout(0)
        return Connected(GrpcConnection(ours, self._time, "host:1", GrpcLimits()), 1, 0)

    def channel(self) -> ClientChannel:
        """To it."""
        return ClientChannel(self, self.endpoints[0], Addresses())


def _answer(stream: int, message: bytes) -> bytes:
    return b"".join(
        (
            encode_frame(HEADERS, END_HEADERS, stream, FIELDS),
            encode_frame(DATA, 0, stream, prefixed(message)),
            encode_frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS),
        )
    )


def _never() -> Made[Written]:
    raise AssertionError


def test_an_ok_that_is_no_protobuf_is_unknown_and_spoils_no_other_answer() -> None:
    """Untold it would wait for ever, and the answers behind it in the segment with it."""
    clock = FakeClock()
    cluster = _Cluster(clock, is_there=True)
    told: list[Written] = []

    async def scenario() -> None:
        channel = cluster.channel()
        connection = await channel.connected()
        for _ in range(2):
            MadeCall(channel, PUT, b"", _written, _never).send(told.append)
        cluster.server.send(_answer(1, b"\xff") + _answer(3, b""))
        for _ in range(3):
            await asyncio.sleep(0)
        assert channel.enter_now() is None  # whoever comes next makes a new one
        assert not connection.is_open
        cluster.server.close()

    clock.run(scenario())
    assert [(each.outcome, each.error) for each in told] == [(Outcome.UNKNOWN, GARBAGE), (Outcome.OK, "")]


def test_all_who_wait_for_a_dial_share_its_failure() -> None:
    """In turn, 64 writes to a host that has vanished would take more than five minutes to fail."""
    clock = FakeClock()
    cluster = _Cluster(clock, is_there=False)

    async def scenario() -> None:
        channel = cluster.channel()
        failures = await asyncio.gather(*(channel.connected() for _ in range(64)), return_exceptions=True)
        assert {type(each) for each in failures} == {TimeoutError}
        assert len({id(each) for each in failures}) == len(failures)  # tracebacks of their own
        assert (cluster.dials, clock.now_ns() - START_NS) == (1, DIAL_S * 10**9)
        (later,) = await asyncio.gather(channel.connected(), return_exceptions=True)
        assert (type(later), cluster.dials) == (TimeoutError, 2)

    clock.run(scenario())


def test_who_is_cancelled_at_a_dial_leaves_it_to_the_next() -> None:
    """What the generator abandons says nothing about the server."""
    clock = FakeClock()
    cluster = _Cluster(clock, is_there=False)

    async def scenario() -> None:
        channel = cluster.channel()
        first, second = (asyncio.create_task(channel.connected()) for _ in range(2))
        await asyncio.sleep(DIAL_S / 2)
        first.cancel()
        _, failed = await asyncio.gather(first, second, return_exceptions=True)
        assert (type(failed), cluster.dials) == (TimeoutError, 2)

    clock.run(scenario())
