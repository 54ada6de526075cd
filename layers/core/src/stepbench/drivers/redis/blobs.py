"""
Blobs in Redis and Valkey: each is one string, written by SET and read by GET.

A string may have 512 MB there. In a cluster, MOVED and ASK are followed at once, and counted as requests. Strings go
from where they lie to where they are wanted, one command at a time over a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.contracts.target import RedisTarget
from stepbench.drivers.access import ServerLimits, unavailable
from stepbench.drivers.blobs import StreamPool, TimedBlobs, TransferTimes
from stepbench.drivers.redis.access import DEFAULT_LIMITS, RedisAccess, RedisNodes, describe, server_name
from stepbench.model.errors import GARBAGE, NOT_FOUND
from stepbench.model.request import Outcome
from stepbench.wire.resp import BULK, SCALARS, ErrorReply, MalformedReplyError, Reply, read_length
from stepbench.wire.resp.connection import RespAnswer
from stepbench.wire.resp.requests import CRLF, command_head, string_head
from stepbench.wire.stream import ByteStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.blobs import Verdict
    from stepbench.drivers.redis.keys import RedisKeys
    from stepbench.settings import Settings
    from stepbench.wire.resp import Node, Reply
    from stepbench.wire.stream import Piece


OVERSIZED = "oversized-answer"
_LINE_BYTES = 64 * 1024


class RespStream(ByteStream):
    """What it takes beyond `ByteStream`. Of replies it knows lines and strings, as GET, SET and ASKING have them."""

    async def command(self, name: bytes, *arguments: bytes, payload: Piece | None = None) -> None:
        """Send a command; the payload is its last argument."""
        parts = [command_head(name, len(arguments) + (payload is not None))]
        for argument in arguments:
            parts += (string_head(len(argument)), argument, CRLF)
        if payload is None:
            await self.send(b"".join(parts))
        else:
            await self.send(b"".join([*parts, string_head(len(payload))]), payload, CRLF)

    async def reply(self, most_bytes: int) -> Reply | bytearray:
        """Receive the next reply; a string has no more than so many bytes, and is a bytearray."""
        while (end := self.received.find(CRLF)) < 0:
            if len(self.received) > _LINE_BYTES:
                raise self.end(GARBAGE)
            await self.receive()
        kind, line = self.received[0], self.received[1:end]
        self.received = self.received[end + len(CRLF) :]
        try:
            if kind != BULK:
                return SCALARS[kind](line)
            length = read_length(line, nullable=True)
        except (MalformedReplyError, KeyError) as error:
            raise self.end(GARBAGE) from error
        return None if length < 0 else await self._string(length, most_bytes)

    async def _string(self, length: int, most_bytes: int) -> bytearray:
        if length > most_bytes:
            raise self.end(OVERSIZED)
        data = bytearray(length + len(CRLF))  # the line's end comes along, which saves a system call
        with memoryview(data) as view:
            await self.fill(view)
        if not data.endswith(CRLF):
            raise self.end(GARBAGE)
        del data[length:]
        return data


_REDIRECTIONS = 5


class RedisBlobs(TimedBlobs):
    """`BlobStore` for Redis."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        target = spec.offered.target
        self._tag = spec.tag
        self._clock = clock
        self._stall_s = limits.operate_s
        self._access = RedisAccess(spec, settings, clock, limits)
        self._is_cluster = isinstance(target, RedisTarget) and target.cluster
        self._nodes = RedisNodes(self._access, is_cluster=self._is_cluster)
        self._streams = StreamPool(self._connect)

    async def open(self) -> None:
        """Connect to the server that was named; learn a cluster's nodes."""
        if self._is_cluster:
            await self._nodes.learn()
            await self._access.addresses.learn(self._nodes.all)
        try:
            async with self._streams.use(self._access.seed):
                pass
        except OSError as error:
            raise unavailable(describe(self._access.seed), error) from error

    async def prepare(self) -> None:
        """Check that the server answers, and is what the plan says; there is nothing to make."""
        await self._nodes.learn()

    async def ready(self) -> bool:
        """See `BlobStore`."""
        await self._nodes.learn()
        return True

    async def delete(self, keys: Sequence[str]) -> int:
        """See `BlobStore`."""
        async with self._keys() as trial_keys:
            return await trial_keys.delete([key.encode() for key in keys])

    async def keys(self) -> tuple[str, ...]:
        """See `BlobStore`."""
        async with self._keys() as trial_keys:
            return tuple(sorted(key.decode() for key in await trial_keys.find()))

    async def tear_down(self) -> bool:
        """Delete all keys of the trial on every node, for some 20 s a call."""
        async with self._keys() as trial_keys:
            return await trial_keys.clear()

    def resource_names(self) -> tuple[str, ...]:
        """See `BlobStore`."""
        return (f"keys {self._tag}*",)

    async def close(self) -> None:
        """See `BlobStore`."""
        await self._nodes.close()
        self._streams.close()

    async def provider(self) -> str:
        """See `BlobStore`: "Valkey 9.1.2"."""
        return await server_name(self._access)

    async def _connect(self, node: Node) -> RespStream:
        connected = await self._access.connect(node)
        return RespStream(*connected.connection.detach(), stall_s=self._stall_s)

    async def _put(self, key: str, view: memoryview, times: TransferTimes) -> Verdict:
        reply = await self._call(key.encode(), times, b"SET", view)
        return _refusal(reply) or ((Outcome.OK, "") if reply == "OK" else (Outcome.UNKNOWN, GARBAGE))

    async def _get(self, key: str, times: TransferTimes, found: list[bytearray]) -> Verdict:
        reply = await self._call(key.encode(), times, b"GET")
        if isinstance(reply, bytearray):
            found.append(reply)
            return Outcome.OK, ""
        return _refusal(reply) or (Outcome.FAILED, NOT_FOUND if reply is None else GARBAGE)

    async def _call(
        self, key: bytes, times: TransferTimes, name: bytes, payload: memoryview | None = None
    ) -> Reply | bytearray:
        """Send a command to the node that has the key, and follow redirections; return the last reply."""
        node, asking = self._nodes.find(key), False
        for _ in range(1 + _REDIRECTIONS):
            async with self._streams.use(node) as stream:
                reply = await _exchange(stream, times, (name, key), payload, asking=asking)
            if not isinstance(reply, ErrorReply):
                return reply
            now_ns = self._clock.now_ns()
            redirect = self._nodes.redirect(RespAnswer(now_ns, now_ns, reply), node)
            if redirect is None:
                break
            times.redirected()
            node, asking = redirect.node, redirect.ask
        return reply

    def _keys(self) -> RedisKeys:
        """Return what finds and removes keys; it is for control, and brings libraries that no transfer needs."""
        from stepbench.drivers.redis.keys import RedisKeys  # noqa: PLC0415

        return RedisKeys(self._tag, self._access, self._nodes, self._clock)


async def _exchange(
    stream: RespStream, times: TransferTimes, parts: tuple[bytes, bytes], payload: memoryview | None, *, asking: bool
) -> Reply | bytearray:
    if asking:
        await stream.command(b"ASKING")
        await stream.reply(0)
    times.begin()
    await stream.command(*parts, payload=payload)
    if payload is not None:
        times.hand_over()
    await stream.receive()
    if payload is None:
        times.first_byte()
    return await stream.reply(MAX_OBJECT_BYTES)


def _refusal(reply: Reply | bytearray) -> Verdict | None:
    return (Outcome.FAILED, reply.code) if isinstance(reply, ErrorReply) else None
