"""How Redis is connected to and asked: a link for each client and node, and requests that go out on it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.redis.commands import judge_reply
from stepbench.model.errors import connect_error
from stepbench.model.request import Outcome, Result
from stepbench.wire.connect import ConnectTimes
from stepbench.wire.link import LinkedRequest, Links
from stepbench.wire.resp.connection import LoginRefusedError, RespAnswer, RespConnection
from stepbench.wire.resp.values import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.redis.access import RedisAccess
    from stepbench.drivers.redis.commands import Command
    from stepbench.wire.link import Link
    from stepbench.wire.resp.cluster import Node
    from stepbench.workload.checks import RecordCheck

_OK, _FAILED = Outcome.OK, Outcome.FAILED
_PLAIN, _RECORDS = frozenset({str, bytes, int}), frozenset({bytes, list})
"""Replies that are neither errors nor nulls, so that to a write they need no judging; what answers a read."""
_NEW = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes."""


class NodeConnector:
    """
    Connects clients to nodes; with `single_use` for one operation.

    times: what that has taken so far, each part added up.
    """

    def __init__(self, access: RedisAccess, *, single_use: bool = False) -> None:
        self.times = ConnectTimes(0, 0, 0)
        self._access = access
        self._single_use = single_use

    async def connect(self, key: tuple[int, Node]) -> RespConnection:
        """Connect to a node. Raises as `RedisAccess.connect`."""
        connected = await self._access.connect(key[1], single_use=self._single_use)
        self.times = ConnectTimes(*(before + more for before, more in zip(self.times, connected.times, strict=True)))
        return connected.connection


class NodeLinks(Links[tuple[int, "Node"], RespConnection]):
    """Links to nodes, one for each client and node."""

    def __init__(self, connector: NodeConnector, clock: Clock) -> None:
        super().__init__(connector.connect, clock, _describe_failure)

    def call(self, client: int, node: Node, *commands: Command) -> Awaitable[RespAnswer]:
        """
        Send commands in one piece, and await the answer to the last; connect first if need be, before t1.

        Never raises for what the network or the server does: without a connection nothing is sent.
        """
        link = self[client, node]
        connection = link.find()
        if connection is None or len(commands) > 1:
            return _connect_and_call(link, commands)
        return connection.call(*commands[0])


async def _connect_and_call(link: Link[RespConnection], commands: Sequence[Command]) -> RespAnswer:
    started_ns = link.clock.now_ns()
    reached = await link.reach()
    if isinstance(reached, str):
        return RespAnswer(started_ns, link.clock.now_ns(), None, reached, sent=False)
    return await reached.pipeline(commands)[-1]


def _describe_failure(error: BaseException) -> str:
    """Return why there is no connection: the server's code where it refused us, else as `connect_error`."""
    return error.reply.code if isinstance(error, LoginRefusedError) else connect_error(error)


class CommandRequest(LinkedRequest[bytes, Reply]):
    """`PendingRequest` of one command to the one server there is, with no Python call that it can do without."""

    __slots__ = ("_check", "_key")

    def __init__(self, link: Link[RespConnection], command: bytes, check: RecordCheck | None, key: str) -> None:
        self.t1_ns = 0
        self._link = link
        self._data = command
        self._check = check
        self._key = key
        self._carrier = None
        self._done = None

    def _receive(self, t2_ns: int, answer: Reply, error: str) -> None:
        done, self._done = self._done, None
        if done is not None:
            t1_ns, outcome = self.t1_ns, _OK
            check = self._check
            if check is not None and answer and answer.__class__ in _RECORDS:
                if error := check.read(self._key, answer):
                    outcome = _FAILED
            elif check is not None or answer.__class__ not in _PLAIN:
                outcome, error = judge_reply(answer, error, check, self._key, sent=t1_ns != 0)
            done(_NEW(Result, (t1_ns or t2_ns, t2_ns, outcome, "", error, 0, None)))
