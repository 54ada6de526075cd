"""etcd's own floor: put until the watch delivers it, by our client and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.contracts.target import EtcdTarget
from stepbench.drivers.access import parse_endpoint
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.cluster import DELETE_RANGE, PUT, WATCH, CallError, end_of, make_call
from stepbench.errors import LocalEnvironmentError
from stepbench.wire.connect import ServerAddress
from stepbench.wire.http2.grpc_answer import GrpcStatus
from stepbench.wire.http2.grpc_connection import connect_grpc

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.wire.http2.grpc_answer import GrpcAnswer
    from stepbench.wire.http2.grpc_connection import GrpcConnection

KEY_BYTES, VALUE_BYTES = 59, 889
_LIMIT_S = 10.0
_POLL_S = 0.01


@dataclass
class WatchProbe:
    """
    The probe puts, and reads what the watch delivers, over one connection.

    A trial has a connection for each. Where both answers come by one, the event is stamped when it arrives, and not
    when the put's answer before it has been taken.
    """

    connection: GrpcConnection
    prefix: bytes
    events: int
    clock: Clock
    t1_ns: dict[bytes, int] = field(default_factory=dict)
    t4_ns: dict[bytes, int] = field(default_factory=dict)
    _confirmed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: GrpcAnswer | None = None

    @classmethod
    async def open(cls, endpoint: str, prefix: str, events: int, clock: Clock) -> WatchProbe:
        """
        Connect and watch the prefix. `events` are measured, numbered from 0; any after them are warm-up.

        Raises:
            LocalEnvironmentError: etcd does not confirm in time that it watches.
        """
        _, host, port, _ = parse_endpoint(endpoint, EtcdTarget.default_port)
        try:
            server = ServerAddress(host, port)
            connection = (await connect_grpc(server, f"{host}:{port}", clock, connect_s=_LIMIT_S)).connection
            probe = cls(connection, prefix.encode(), events, clock)
            try:
                await probe._watch()
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            message = f"etcd at {endpoint} did not start to watch within {_LIMIT_S:g} s: {error or 'no answer'}"
            raise LocalEnvironmentError(message) from error
        return probe

    async def send(self, sequence: int) -> None:
        """
        Put once, and wait until it is acknowledged.

        Raises:
            LocalEnvironmentError: it is not.
        """
        key = (self.prefix + b"%08d" % sequence).ljust(KEY_BYTES, b"x")
        answer = await self.connection.call_and_wait(
            PUT, pb.PutRequest(key=key, value=b"x" * VALUE_BYTES).SerializeToString()
        )
        if answer.status is not GrpcStatus.OK:
            message = f"etcd refused a put: {CallError(answer)}"
            raise LocalEnvironmentError(message)
        self.t1_ns[key] = answer.t1_ns

    async def latencies_ns(self) -> list[int]:
        """
        Return t4 - t1 of the measured events, in the order of sending.

        Raises:
            LocalEnvironmentError: etcd has not delivered all that it has acknowledged.
        """
        deadline_ns = self.clock.now_ns() + int(_LIMIT_S * 1e9)
        while (missing := len(self.t1_ns.keys() - self.t4_ns.keys())) and self._ended is None:
            if self.clock.now_ns() > deadline_ns:
                break
            await self.clock.sleep_async(_POLL_S)
        if missing:
            reason = f"in {_LIMIT_S:g} s" if self._ended is None else f"and ended the watch: {CallError(self._ended)}"
            message = f"etcd did not deliver {missing} of {len(self.t1_ns)} puts {reason}"
            raise LocalEnvironmentError(message)
        measured = sorted(self.t1_ns)[: self.events]
        return [self.t4_ns[key] - self.t1_ns[key] for key in measured]

    async def close(self) -> None:
        """Remove the keys, and close, which ends the watch."""
        delete = pb.DeleteRangeRequest(key=self.prefix, range_end=end_of(self.prefix)).SerializeToString()
        with contextlib.suppress(CallError):  # the server goes down with the environment, and its keys with it
            await make_call(self.connection, DELETE_RANGE, delete)
        self.connection.close()

    async def _watch(self) -> None:
        """Open the watch. Raises OSError: etcd does not confirm in time that it watches."""
        create = pb.WatchCreateRequest(key=self.prefix, range_end=end_of(self.prefix))
        question = pb.WatchRequest(create_request=create).SerializeToString()
        self.connection.subscribe(WATCH, question, self._arrived, self._end)
        async with asyncio.timeout(_LIMIT_S):
            await self._confirmed.wait()
        if self._ended is not None:
            raise ConnectionAbortedError(str(CallError(self._ended)))

    def _arrived(self, t4_ns: int, raw: bytes) -> None:
        answer = pb.WatchResponse.FromString(raw)
        if answer.created:
            self._confirmed.set()
        for event in answer.events:
            self.t4_ns[event.kv.key] = t4_ns

    def _end(self, answer: GrpcAnswer) -> None:
        self._ended = answer
        self._confirmed.set()
