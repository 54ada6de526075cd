"""A trial's keys in Redis, written by the thousand before the load, and removed after it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Self

from stepbench.drivers.access import unavailable
from stepbench.drivers.redis.access import describe
from stepbench.drivers.redis.commands import judge, write_command
from stepbench.errors import StepbenchError, TargetUnavailableError
from stepbench.wire.link import Links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.redis.access import RedisAccess, RedisNodes
    from stepbench.drivers.redis.commands import Command
    from stepbench.model.request import Request
    from stepbench.wire.resp import Node
    from stepbench.wire.resp.connection import RespAnswer, RespConnection

CLEAR_LIMIT_S = 20.0
FIND_LIMIT_S = 60.0
_SCANNED_AT_ONCE = 10_000
"""A scan of so many keys takes some 2 ms of the server's one thread."""


class RedisKeys:
    """
    Writes, finds and removes a trial's keys, over control connections made as they are needed.

    It is for a block, `async with`, at whose begin it learns the nodes; raises as `RedisNodes.learn`.
    """

    def __init__(self, tag: str, access: RedisAccess, nodes: RedisNodes, clock: Clock) -> None:
        self._pattern = f"{tag}/*".encode()
        self._access = access
        self._nodes = nodes
        self._clock = clock
        self._links: Links[Node, RespConnection] = Links(self._connect, clock)

    async def __aenter__(self) -> Self:
        """See above."""
        await self._nodes.learn()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the connections."""
        self._links.close()

    async def write(self, records: Sequence[Request]) -> str:
        """Write records, whether they are there or not, each node's in one piece; return "" or an error's code."""
        commands: defaultdict[Node, list[Command]] = defaultdict(list)
        for each in records:
            command = write_command(each.key.encode(), each)
            commands[self._nodes.find(command[1])].append(command)
        errors = await asyncio.gather(*(self._write(node, some) for node, some in commands.items()))
        return next(filter(None, errors), "")

    async def exists(self, key: str) -> bool:
        """Return whether the key is there. Raises TargetUnavailableError."""
        node = self._nodes.find(key.encode())
        connection = await self._connection(node)
        answered = await connection.call(b"EXISTS", key.encode())
        _check(answered, node)
        return answered.reply == 1

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove keys; return how many were there. Raises TargetUnavailableError."""
        places: defaultdict[Node, list[bytes]] = defaultdict(list)
        for key in keys:
            places[self._nodes.find(key)].append(key)
        return sum(await asyncio.gather(*(self._unlink(node, some) for node, some in places.items())))

    async def find(self) -> list[bytes]:
        """Return all keys of the trial, each once. Raises TargetUnavailableError."""
        found = await asyncio.gather(*map(self._scan, self._nodes.all))
        return sorted(set().union(*found))

    async def clear(self, limit_s: float = CLEAR_LIMIT_S) -> bool:
        """
        Remove the keys from all nodes for at most so long; return whether each was scanned to the end and had none.

        One scan is not enough: SCAN need not show what is written while it goes on, and what an ended connection has
        left with a server may be written then. Each call scans all of a server's keys anew, some millions a second,
        so that it ends only where strangers' keys are fewer than that.

        Raises:
            TargetUnavailableError: a node does not answer, or not so.
        """
        deadline_ns = self._clock.now_ns() + int(limit_s * 1e9)
        return all(await asyncio.gather(*(self._sweep(node, deadline_ns) for node in self._nodes.all)))

    async def _write(self, node: Node, commands: Sequence[Command]) -> str:
        try:
            connection = await self._connection(node)
        except StepbenchError as error:
            return str(error)
        answers = await asyncio.gather(*connection.pipeline(commands))
        for answered in answers:
            self._nodes.redirect(answered, node)
        return next((code for answered in answers if (code := judge(answered)[1])), "")

    async def _sweep(self, node: Node, deadline_ns: int) -> bool:
        connection, cursor, is_clean = await self._connection(node), b"0", True
        while self._clock.now_ns() < deadline_ns:
            cursor, keys = await self._scan_on(connection, node, cursor)
            await self._unlink(node, keys)
            is_clean = is_clean and not keys
            if cursor == b"0":
                if is_clean:
                    return True
                is_clean = True
        return False

    async def _unlink(self, node: Node, keys: Sequence[bytes]) -> int:
        """Remove keys of a node, one a command: a cluster refuses to remove keys of several slots at once."""
        connection = await self._connection(node)
        answers = await asyncio.gather(*connection.pipeline([(b"UNLINK", key) for key in keys]))
        for answered in answers:
            _check(answered, node)
        return sum(answered.reply == 1 for answered in answers)

    async def _scan(self, node: Node) -> set[bytes]:
        connection, cursor, found = await self._connection(node), b"", set[bytes]()
        until_ns = self._clock.now_ns() + int(FIND_LIMIT_S * 1e9)
        while cursor != b"0":
            if self._clock.now_ns() >= until_ns:
                message = f"{describe(node)}: its keys were not listed within {FIND_LIMIT_S:g} s"
                raise TargetUnavailableError(message)
            cursor, keys = await self._scan_on(connection, node, cursor or b"0")
            found.update(keys)
        return found

    async def _scan_on(self, connection: RespConnection, node: Node, cursor: bytes) -> tuple[bytes, list[bytes]]:
        scanned = await connection.call(b"SCAN", cursor, b"MATCH", self._pattern, b"COUNT", b"%d" % _SCANNED_AT_ONCE)
        _check(scanned, node)
        return _read_scan(scanned)

    async def _connection(self, node: Node) -> RespConnection:
        link = self._links[node]
        reached = await link.reach()
        if isinstance(reached, str):
            raise unavailable(describe(node), link.failure_text or reached)
        return reached

    async def _connect(self, node: Node) -> RespConnection:
        return (await self._access.connect_for_control(node)).connection


def _check(answered: RespAnswer, node: Node) -> None:
    if error := judge(answered)[1]:
        raise unavailable(describe(node), error)


def _read_scan(scanned: RespAnswer) -> tuple[bytes, list[bytes]]:
    match scanned.reply:
        case [bytes(cursor), list(keys)]:
            return cursor, [key for key in keys if isinstance(key, bytes)]
    message = f"{str(scanned.reply)[:60]!r} is no answer to SCAN"
    raise TargetUnavailableError(message)
