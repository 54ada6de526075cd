"""Commands that are made ahead of their time, sent without a task, and judged in the turn in which the answer comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.drivers.operations.redis_commands import judge, judge_reply
from stepbench.drivers.protocol import WITHDRAWN, Operated, Outcome
from stepbench.drivers.tasked import NO_ANSWER, Tasked
from stepbench.wire.byte_socket import Shipment
from stepbench.wire.resp_connection import Answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.drivers.operations.redis_connections import Connections
    from stepbench.wire.resp_cluster import Node
    from stepbench.wire.resp_connection import RespConnection
    from stepbench.wire.resp_values import Reply

_OK, _PLAIN = Outcome.OK, frozenset({str, bytes, int})
"""Replies that are neither errors nor nulls, whatever was asked, and need no judging."""
_NEW = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes."""


class PromptClient:
    """A client of one server."""

    __slots__ = ("_connections", "_node", "clock", "latest")

    def __init__(self, connections: Connections, node: Node, clock: Clock) -> None:
        self._connections = connections
        self._node = node
        self.clock = clock
        self.latest: RespConnection | None = None
        """The connection used last, which may have ended."""

    def look_up(self) -> RespConnection | None:
        """The open connection, if there is one."""
        self.latest = self._connections.find(self._node)
        return self.latest

    async def connect_and_ask(self, command: bytes, *, is_reading: bool) -> Operated:
        """What has broken is made anew, outside the operation's time."""
        connection = await self._connections.reach(self._node)
        answered = connection if isinstance(connection, Answered) else await connection.call_encoded(command)
        outcome, error = judge(answered, reading=is_reading)
        return Operated(answered.t1_ns, answered.t2_ns, outcome, "", error)


class PromptCommand(Shipment):
    """
    `Made` of an operation that is one command.

    It holds its bytes until they are sent and no longer: the next command's are then put where they were, which is
    still in the processor's cache.
    """

    __slots__ = ("_client", "_command", "_done", "_is_reading", "_under_way")

    def __init__(self, client: PromptClient, command: bytes, is_reading: bool) -> None:  # noqa: FBT001 -- a name takes time
        self.t1_ns = 0
        self._client = client
        self._command = command
        self._is_reading = is_reading
        self._under_way: RespConnection | Tasked[Operated] | None = None
        self._done: Callable[[Operated], None] | None = None

    def send(self, done: Callable[[Operated], None]) -> None:
        """See `Made`."""
        command, self._command = self._command, b""
        connection = self._client.latest
        if connection is None or not connection.is_open:
            connection = self._client.look_up()
        if connection is None:
            asking = partial(self._client.connect_and_ask, command, is_reading=self._is_reading)
            self._under_way = tasked = Tasked(asking, self._client.clock)
            tasked.send(done)
        else:
            self._done, self._under_way = done, connection
            connection.send(command, self, self._told)

    def abandon(self) -> None:
        """See `Made`."""
        done, self._done = self._done, None
        if isinstance(self._under_way, Tasked):
            self._under_way.abandon()
        elif done is not None and self._under_way is not None:
            now_ns = self._client.clock.now_ns()
            if self._under_way.withdraw(self):
                done(Operated(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN))
            else:
                done(Operated(self.t1_ns or now_ns, now_ns, Outcome.UNKNOWN, error=NO_ANSWER))

    def _told(self, t2_ns: int, reply: Reply, error: str) -> None:
        done, self._done = self._done, None
        if done is not None:
            t1_ns, outcome = self.t1_ns, _OK
            if reply.__class__ not in _PLAIN:
                outcome, error = judge_reply(reply, error, sent=t1_ns != 0, reading=self._is_reading)
            done(_NEW(Operated, (t1_ns or t2_ns, t2_ns, outcome, "", error, 0, None)))
