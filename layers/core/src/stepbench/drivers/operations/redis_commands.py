"""
Operations as commands of Redis, and what its answers say. Pure.

A blob is a string (GET, SET), a product a hash with a field for each of its fields (HGETALL, HSET). An overwrite of a
product sets all its fields, an update those that change, and both would make the record if it were not there. A
read-modify-write is a read and then a write, without a transaction, as YCSB's is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.load.products import hash_fields
from stepbench.wire.resp import CRLF, command_head, encode_command, string_head
from stepbench.wire.resp_values import ErrorReply

if TYPE_CHECKING:
    from stepbench.drivers.protocol import Operation
    from stepbench.wire.resp_connection import Answered
    from stepbench.wire.resp_values import Reply

    Command = tuple[bytes, ...]
    """Its name, the key, the rest."""

NOT_FOUND = "not_found"
_DONE = (Outcome.OK, "")
_GET, _SET = command_head(b"GET", 1), command_head(b"SET", 2)
_READ, _READ_MODIFY_WRITE, _SCAN = Kind.READ, Kind.READ_MODIFY_WRITE, Kind.SCAN
"""Looked up in a tenth of the time that the enumeration takes."""


def read_command(key: bytes, *, product: bool) -> Command:
    """The command that reads a record."""
    return (b"HGETALL" if product else b"GET", key)


def write_command(key: bytes, operation: Operation) -> Command:
    """The command that writes what the operation carries: a blob's value, or a product's fields."""
    if operation.fields is None:
        return (b"SET", key, operation.value)
    return (b"HSET", key, *hash_fields(operation.fields))


def commands_of(operation: Operation, *, product: bool) -> tuple[Command, ...]:
    """One command, or for a read-modify-write the two; a scan has none, and a plan with scans is refused."""
    key = operation.key.encode()
    kind = operation.kind
    if kind is _READ:
        return (read_command(key, product=product),)
    if kind is _READ_MODIFY_WRITE:
        return (read_command(key, product=product), write_command(key, operation))
    return () if kind is _SCAN else (write_command(key, operation),)


def encode_one(operation: Operation, *, product: bool) -> bytes:
    """The bytes of an operation that is one command: no read-modify-write, and no scan."""
    if product:
        return encode_command(*commands_of(operation, product=True)[0])
    key, value = operation.key.encode(), operation.value
    if operation.kind is _READ:
        return b"".join((_GET, string_head(len(key)), key, CRLF))
    return b"".join((_SET, string_head(len(key)), key, CRLF, string_head(len(value)), value, CRLF))


def judge(answered: Answered, *, reading: bool) -> tuple[Outcome, str]:
    """What an answer means, and the error's code; as `judge_reply`."""
    return judge_reply(answered.reply, answered.error, sent=answered.sent, reading=reading)


def judge_reply(reply: Reply, error: str, *, sent: bool, reading: bool) -> tuple[Outcome, str]:
    """
    What a reply, or the error that there is in its place, means; and the error's code.

    A command of which the kernel got nothing certainly had no effect; one without an answer may have had. An error
    reply is a refusal: the server checks whether it can do a command before it begins.
    """
    if error:
        return Outcome.UNKNOWN if sent else Outcome.FAILED, error
    if isinstance(reply, ErrorReply):
        return Outcome.FAILED, reply.code
    if reading and (reply is None or reply == []):
        return Outcome.FAILED, NOT_FOUND
    return _DONE
