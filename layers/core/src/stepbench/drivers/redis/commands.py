"""Operations as commands of Redis, and what its answers say. Pure.

A blob is a string (GET, SET), a product a hash with a field for each of its fields (HGETALL, HSET). An overwrite of a
product sets all its fields, an update those that change, and both would make the record if it were not there. A
read-modify-write is a read and then a write, without a transaction, as YCSB's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.model.errors import NOT_FOUND
from stepbench.model.request import Outcome
from stepbench.wire.resp.requests import CRLF, command_head, encode_command, string_head
from stepbench.wire.resp.values import ErrorReply
from stepbench.workload.products import hash_fields

if TYPE_CHECKING:
    from stepbench.model.request import Request
    from stepbench.wire.resp.connection import RespAnswer
    from stepbench.wire.resp.values import Reply
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
