"""
Operations as commands of Redis, what its answers say, and the requests that go out on a client's links.

A blob is a string (GET, SET), a product a hash with a field for each of its fields (HGETALL, HSET). An overwrite of a
product sets all its fields, an update those that change, and both would make the record if it were not there. A
read-modify-write is a read and then a write, without a transaction, as YCSB's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.model.errors import NOT_FOUND, connect_error
from stepbench.model.request import Outcome, Result
from stepbench.wire.connect import ConnectTimes
from stepbench.wire.link import LinkedRequest, Links
from stepbench.wire.resp import ErrorReply, Reply
from stepbench.wire.resp.connection import LoginRefusedError, RespAnswer, RespConnection
from stepbench.wire.resp.requests import CRLF, command_head, encode_command, string_head
from stepbench.workload.products import hash_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.redis.access import RedisAccess
    from stepbench.model.request import Request
    from stepbench.wire.link import Link
    from stepbench.wire.resp import Node
    from stepbench.workload.checks import RecordCheck

Command = tuple[bytes, ...]
"""A command's name, the key, the rest."""
_DONE = (Outcome.OK, "")
_GET, _SET = command_head(b"GET", 1), command_head(b"SET", 2)
_READ, _READ_MODIFY_WRITE, _SCAN = Kind.READ, Kind.READ_MODIFY_WRITE, Kind.SCAN
"""Module globals are found in a tenth of the time that the enumeration's members take."""


def read_command(key: bytes, *, product: bool) -> Command:
    """Return the command that reads a record."""
    return (b"HGETALL" if product else b"GET", key)


def write_command(key: bytes, request: Request) -> Command:
    """Return the command that writes what a request carries: a blob's value, or a product's fields."""
    if request.fields is None:
        return (b"SET", key, request.value)
    return (b"HSET", key, *hash_fields(request.fields))


def commands_of(request: Request, *, product: bool) -> tuple[Command, ...]:
    """Return one command, or for a read-modify-write two; a scan has none, and a plan with scans is refused."""
    key = request.key.encode()
    kind = request.kind
    if kind is _READ:
        return (read_command(key, product=product),)
    if kind is _READ_MODIFY_WRITE:
        return (read_command(key, product=product), write_command(key, request))
    return () if kind is _SCAN else (write_command(key, request),)


def encode_one(request: Request, *, product: bool) -> bytes:
    """Return the bytes of a request that is one command: no read-modify-write, and no scan."""
    if product:
        return encode_command(*commands_of(request, product=True)[0])
    key, value = request.key.encode(), request.value
    if request.kind is _READ:
        return b"".join((_GET, string_head(len(key)), key, CRLF))
    return b"".join((_SET, string_head(len(key)), key, CRLF, string_head(len(value)), value, CRLF))


def judge(answered: RespAnswer, check: RecordCheck | None = None, key: str = "") -> tuple[Outcome, str]:
    """Return what an answer means, and the error's code; as `judge_reply`."""
    return judge_reply(answered.reply, answered.error, check, key, sent=answered.sent)


def judge_reply(
    reply: Reply, error: str, check: RecordCheck | None = None, key: str = "", *, sent: bool
) -> tuple[Outcome, str]:
    """
    Return what a reply, or the error in its place, means; and the error's code.

    A command of which the kernel got nothing certainly had no effect; one without an answer may have had. An error
    reply is a refusal: the server checks whether it can do a command before it begins.

    Args:
        reply: what the server said.
        error: why it said nothing, or "".
        check: of what a read returned; None: the command is no read.
        key: of the record that was read.
        sent: whether the kernel got any of the command.
    """
    if error:
        return Outcome.UNKNOWN if sent else Outcome.FAILED, error
    if isinstance(reply, ErrorReply):
        return Outcome.FAILED, reply.code
    wrong = "" if check is None else _judge_read(reply, check, key)
    return (Outcome.FAILED, wrong) if wrong else _DONE


def _judge_read(reply: Reply, check: RecordCheck, key: str) -> str:
    """Return the error of a read: of a blob, or of a product's fields and values in turns."""
    if reply is None or reply == []:
        return NOT_FOUND
    return check.read(key, reply)


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
