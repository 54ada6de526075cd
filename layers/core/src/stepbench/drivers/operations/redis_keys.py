"""A trial's keys in Redis by the thousand: written before the load, and removed after it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from stepbench.drivers.operations.redis_commands import judge, write_command
from stepbench.drivers.operations.redis_connections import error_code
from stepbench.errors import StepbenchError, TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.operations.redis_access import RedisAccess
    from stepbench.drivers.operations.redis_commands import Command
    from stepbench.drivers.operations.redis_nodes import RedisNodes
    from stepbench.drivers.protocol import Operation
    from stepbench.wire.resp_cluster import Node
    from stepbench.wire.resp_connection import Answered, RespConnection

TURN_S = 20.0
_SCANNED_AT_ONCE = 10_000
"""Some 2 ms of the server's one thread."""


class RedisKeys:
    """Control connections to all nodes, made as they are needed, and what is done over them. `close` it."""

    def __init__(self, tag: str, access: RedisAccess, nodes: RedisNodes, clock: Clock) -> None:
        self._pattern = f"{tag}/*".encode()
        self._access = access
        self._nodes = nodes
        self._clock = clock
        self._open: dict[Node, RespConnection] = {}
        self._connecting = asyncio.Lock()

    async def write(self, operations: Sequence[Operation]) -> str:
        """Write all records, whether they are there or not, each node's in one piece; "" or an error's code."""
        commands: defaultdict[Node, list[Command]] = defaultdict(list)
        for each in operations:
            command = write_command(each.key.encode(), each)
            commands[self._nodes.of(command[1])].append(command)
        errors = await asyncio.gather(*(self._write(node, some) for node, some in commands.items()))
        return next(filter(None, errors), "")

    async def exists(self, key: str) -> bool:
        """Whether the key is there; raises TargetUnavailableError."""
        node = self._nodes.of(key.encode())
        connection = await self._connection(node)
        answered = await connection.call(b"EXISTS", key.encode())
        self._admit(answered, node)
        return answered.reply == 1

    async def clear(self, turn_s: float = TURN_S) -> bool:
        """
        Remove the keys from all nodes for at most so long; True when each has been looked through and had none.

        (SCAN need not show what is written while it goes on, and what an ended connection has left with a server may
        be written then.)

        Each call looks at all of a server's keys anew, some millions a second: it comes to an end where strangers'
        keys are fewer than that.

        Raises:
            TargetUnavailableError: a node does not answer, or not so.
        """
        deadline_ns = self._clock.now_ns() + int(turn_s * 1e9)
        return all(await asyncio.gather(*(self._sweep(node, deadline_ns) for node in self._nodes.all)))

    def close(self) -> None:
        """End the connections."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    async def _write(self, node: Node, commands: Sequence[Command]) -> str:
        try:
            connection = await self._connection(node)
        except StepbenchError as error:
            return str(error)
        answers = await asyncio.gather(*connection.pipeline(commands))
        for answered in answers:
            self._nodes.redirect(answered, node)
        return next((code for answered in answers if (code := judge(answered, reading=False)[1])), "")

    async def _sweep(self, node: Node, deadline_ns: int) -> bool:
        connection, cursor, is_clean = await self._connection(node), b"0", True
        while self._clock.now_ns() < deadline_ns:
            scanned = await connection.call(
                b"SCAN", cursor, b"MATCH", self._pattern, b"COUNT", b"%d" % _SCANNED_AT_ONCE
            )
            self._admit(scanned, node)
            cursor, keys = _read_scan(scanned)
            # One key a command: a cluster refuses to remove keys of several slots at once.
            for removed in await asyncio.gather(*connection.pipeline([(b"UNLINK", key) for key in keys])):
                self._admit(removed, node)
            is_clean = is_clean and not keys
            if cursor == b"0":
                if is_clean:
                    return True
                is_clean = True
        return False

    async def _connection(self, node: Node) -> RespConnection:
        async with self._connecting:
            connection = self._open.get(node)
            if connection is None or not connection.is_open:
                try:
                    connection = (await self._access.connect(node, protocol=3)).connection
                except OSError as error:
                    message = f"Redis at {node.host}:{node.port}: {error_code(error)}"
                    raise TargetUnavailableError(message) from error
                self._open[node] = connection
        return connection

    @staticmethod
    def _admit(answered: Answered, node: Node) -> None:
        if error := judge(answered, reading=False)[1]:
            message = f"Redis at {node.host}:{node.port}: {error}"
            raise TargetUnavailableError(message)


def _read_scan(scanned: Answered) -> tuple[bytes, list[bytes]]:
    match scanned.reply:
        case [bytes(cursor), list(keys)]:
            return cursor, [key for key in keys if isinstance(key, bytes)]
    message = f"{str(scanned.reply)[:60]!r} is no answer to SCAN"
    raise TargetUnavailableError(message)
