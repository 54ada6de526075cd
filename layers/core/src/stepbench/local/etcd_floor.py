"""etcd's own floor: put until the watch delivers it, by synchronous gRPC in one process."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from stepbench.drivers import etcd_pb2 as pb
from stepbench.errors import LocalEnvironmentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock

KEY_BYTES, VALUE_BYTES = 59, 889
_LIMIT_S = 10
_WARM_UP = 10
_CHANNEL = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))


@dataclass
class WatchProbe:
    """Puts from one thread, and stamps what the watch delivers in another."""

    channel: grpc.Channel
    prefix: bytes
    events: int
    t1_ns: dict[bytes, int] = field(default_factory=dict)
    t4_ns: dict[bytes, int] = field(default_factory=dict)
    _watching: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def open(cls, endpoint: str, prefix: str, events: int) -> WatchProbe:
        """
        Connect and watch the prefix. `events` are measured, numbered from 0; any after them are warm-up.

        Raises:
            LocalEnvironmentError: etcd does not say in time that it watches.
        """
        probe = cls(grpc.insecure_channel(endpoint, options=_CHANNEL), prefix.encode(), events)
        threading.Thread(target=probe._collect, daemon=True, name="etcd-floor").start()
        if not probe._watching.wait(_LIMIT_S):
            probe.close()
            message = f"etcd at {endpoint} did not start to watch within {_LIMIT_S} s"
            raise LocalEnvironmentError(message)
        return probe

    def send(self, sequence: int) -> None:
        """One put, until it is acknowledged."""
        key = (self.prefix + b"%08d" % sequence).ljust(KEY_BYTES, b"x")
        request = pb.PutRequest(key=key, value=b"x" * VALUE_BYTES)
        put = self.channel.unary_unary(
            "/etcdserverpb.KV/Put", pb.PutRequest.SerializeToString, pb.PutResponse.FromString
        )
        self.t1_ns[key] = time.time_ns()
        try:
            put(request, timeout=_LIMIT_S)
        except grpc.RpcError as error:
            message = f"etcd refused a put: {error}"
            raise LocalEnvironmentError(message) from error

    def warm_up(self, _clock: Clock) -> None:
        """A few puts, for the connection's sake; they have numbers after those of the measured ones."""
        for sequence in range(self.events, self.events + _WARM_UP):
            self.send(sequence)

    def latencies_ns(self, clock: Clock) -> list[int]:
        """t4 - t1 of the measured events, in the order of sending."""
        deadline_ns = clock.now_ns() + _LIMIT_S * 10**9
        while len(self.t4_ns) < len(self.t1_ns) and clock.now_ns() < deadline_ns:
            clock.sleep(0.01)
        measured = [key for key in sorted(self.t1_ns)[: self.events] if key in self.t4_ns]
        return [self.t4_ns[key] - self.t1_ns[key] for key in measured]

    def close(self) -> None:
        """End the watch, remove the keys, close."""
        self._closing.set()
        delete = self.channel.unary_unary(
            "/etcdserverpb.KV/DeleteRange", pb.DeleteRangeRequest.SerializeToString, pb.DeleteRangeResponse.FromString
        )
        with contextlib.suppress(grpc.RpcError):  # the server goes down with the environment, and its keys with it
            delete(pb.DeleteRangeRequest(key=self.prefix, range_end=self._end()), timeout=_LIMIT_S)
        self.channel.close()

    def _end(self) -> bytes:
        return self.prefix[:-1] + bytes([self.prefix[-1] + 1])

    def _requests(self) -> Iterator[pb.WatchRequest]:
        """Ask to watch, and keep the request stream open: etcd ends the watch with it."""
        create = pb.WatchCreateRequest(key=self.prefix, range_end=self._end())
        yield pb.WatchRequest(create_request=create)
        self._closing.wait()

    def _collect(self) -> None:
        watch = self.channel.stream_stream(
            "/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString
        )
        with contextlib.suppress(grpc.RpcError, ValueError):  # closing the channel ends the measurement
            for answer in watch(self._requests()):
                now_ns = time.time_ns()
                for event in answer.events:
                    self.t4_ns[event.kv.key] = now_ns
                self._watching.set()
