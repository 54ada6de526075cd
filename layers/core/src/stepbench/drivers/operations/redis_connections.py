"""Connections to Redis: those that a client keeps, and those that one operation makes for itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.errors import StepbenchError
from stepbench.wire.reaching import ConnectTimes
from stepbench.wire.resp_connect import LoginRefusedError
from stepbench.wire.resp_connection import Answered

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.operations.redis_access import RedisAccess
    from stepbench.drivers.operations.redis_commands import Command
    from stepbench.wire.resp_cluster import Node
    from stepbench.wire.resp_connection import RespConnection

_AT_ONCE = 64


class Connections:
    """
    One connection a node.

    times: what making them has taken so far, each part added up.
    """

    def __init__(self, access: RedisAccess, clock: Clock, *, passing: bool = False) -> None:
        """`passing`: they serve one operation."""
        self._access = access
        self._clock = clock
        self._passing = passing
        self._open: dict[Node, RespConnection] = {}
        self.times = ConnectTimes(0, 0, 0)

    def find(self, node: Node) -> RespConnection | None:
        """The open connection to a node, if there is one."""
        connection = self._open.get(node)
        return connection if connection is not None and connection.is_open else None

    async def ask(self, node: Node, *commands: Command) -> Answered:
        """
        The answer to the last of these commands, sent in one piece; connects first if need be, before t1.

        Never raises for what the network or the server does: without a connection nothing is sent.
        """
        connection = self.find(node) or await self.reach(node)
        if isinstance(connection, Answered):
            return connection
        if len(commands) == 1:
            return await connection.call(*commands[0])
        return await connection.pipeline(commands)[-1]

    async def reach(self, node: Node) -> RespConnection | Answered:
        """A connection to a node, or what to say of a command that would have gone there."""
        began_ns = self._clock.now_ns()
        try:
            return await self.connect(node)
        except LoginRefusedError as refused:
            return Answered(began_ns, self._clock.now_ns(), refused.reply, sent=False)
        except (OSError, StepbenchError) as error:
            return Answered(began_ns, self._clock.now_ns(), None, error_code(error), sent=False)

    async def connect(self, node: Node) -> RespConnection:
        """
        A connection to a node, made if there is none.

        Raises:
            OSError, StepbenchError: as `RedisAccess.connect`.
        """
        connected = await self._access.connect(node, passing=self._passing)
        self.times = ConnectTimes(*(before + more for before, more in zip(self.times, connected.times, strict=True)))
        other = self._open.get(node)
        if other is not None and other.is_open:  # two operations of a client at once
            connected.connection.close()
            return other
        self._open[node] = connected.connection
        return connected.connection

    def close(self) -> None:
        """End them; operations under way have no answer then."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()


async def connect_all(clients: Sequence[Connections], nodes: Sequence[Node]) -> None:
    """
    Connect each of them to every node, some at a time. Where the server lets us have no more, those there are do.

    Raises:
        OSError, StepbenchError: there is none.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def connect(client: Connections, node: Node) -> None:
        async with turns:
            await client.connect(node)

    wanted = [connect(client, node) for client in clients for node in nodes]
    ended = await asyncio.gather(*wanted, return_exceptions=True)
    failures = [each for each in ended if isinstance(each, BaseException)]
    if failures and len(failures) == len(ended):
        raise failures[0]


def error_code(error: OSError | StepbenchError | ssl.SSLError) -> str:
    """Why there is no connection, in few words that are the same each time."""
    if isinstance(error, TimeoutError):
        return "connect-timeout"
    reason = getattr(error, "reason", "")
    return f"tls: {reason}" if reason else type(error).__name__
