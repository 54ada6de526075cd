"""
The CQL statements that make a keyspace and perform requests, their values, what the answers mean; and requests.

A blob is a row of key and value, a product one of key and a column of text for each field. An overwrite sets all
columns and an update those that change; both would make the row if it were not there, since to Cassandra every write is
an upsert. A scan takes rows in the order of the keys' tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.workload import Kind
from stepbench.drivers.cassandra.access import create_keyspace, keyspace_of
from stepbench.model.errors import GARBAGE, NOT_FOUND, connect_error
from stepbench.model.request import Outcome, Result
from stepbench.wire import cql
from stepbench.wire.cql import CqlFrame, CqlRequest, MalformedCqlError
from stepbench.wire.cql.answers import PERHAPS_DONE, refusal, rows
from stepbench.wire.cql.connection import CqlAnswer, CqlConnection, CqlRefusedError
from stepbench.wire.link import LinkedRequest
from stepbench.workload.products import FIELD_BYTES, UPDATED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.contracts.target import CassandraTarget
    from stepbench.model.request import Request
    from stepbench.wire.cql.answers import Row
    from stepbench.wire.link import Link
    from stepbench.workload.checks import RecordCheck

_INT_BYTES = 4


class Statements(NamedTuple):
    """CQL texts, the same for the whole trial."""

    read: str
    write: str
    update: str
    scan: str


def create_statements(tag: str, target: CassandraTarget, *, product: bool) -> tuple[str, str]:
    """Return what makes keyspace and table, unless they are there."""
    columns = ", ".join(f'"{name}" text' for name in FIELD_BYTES) if product else "value blob"
    table = f"CREATE TABLE IF NOT EXISTS {keyspace_of(tag)}.records (key text PRIMARY KEY, {columns})"
    return create_keyspace(tag, target), table


def statements_of(tag: str, *, product: bool) -> Statements:
    """Return a statement for each kind of request."""
    table = f"{keyspace_of(tag)}.records"
    names = [f'"{name}"' for name in FIELD_BYTES] if product else ["value"]
    listed, placeholders = ", ".join(names), ", ".join("?" for _ in names)
    changed = ", ".join(f'"{name}" = ?' for name in UPDATED) if product else "value = ?"
    return Statements(  # names are ours, values stand beside the text
        read=f"SELECT {listed} FROM {table} WHERE key = ?",  # noqa: S608
        write=f"INSERT INTO {table} (key, {listed}) VALUES (?, {placeholders})",  # noqa: S608
        update=f"UPDATE {table} SET {changed} WHERE key = ?",  # noqa: S608
        scan=f"SELECT key, {listed} FROM {table} WHERE token(key) >= token(?) LIMIT ?",  # noqa: S608
    )


def steps_of(request: Request, statements: Statements) -> list[tuple[str, tuple[bytes, ...]]]:
    """Return one statement with its values, or for a read-modify-write two."""
    key = request.key.encode()
    match request.kind:
        case Kind.READ:
            return [(statements.read, (key,))]
        case Kind.SCAN:
            return [(statements.scan, (key, request.rows.to_bytes(_INT_BYTES)))]
        case Kind.READ_MODIFY_WRITE:
            return [(statements.read, (key,)), _writing_step(request, key, statements)]
        case _:
            return [_writing_step(request, key, statements)]


def values_of(request: Request, key: bytes) -> tuple[bytes, ...]:
    """Return the values of `Statements.write`."""
    if request.fields is None:
        return (key, request.value)
    return (key, *[request.fields[name].encode() for name in FIELD_BYTES])


def _writing_step(request: Request, key: bytes, statements: Statements) -> tuple[str, tuple[bytes, ...]]:
    if request.fields is not None and len(request.fields) == len(UPDATED):
        return statements.update, (*[request.fields[name].encode() for name in UPDATED], key)
    return statements.write, values_of(request, key)


def judge(answered: CqlAnswer, request: Request, check: RecordCheck | None) -> tuple[Outcome, str]:
    """
    Return what the answer to a step of a request means, and the error's code. `check`: of what it reads, if it does.

    A request of which the kernel got nothing certainly had no effect; one without an answer may have had. So may a
    write of which the server says that it does not know (`PERHAPS_DONE`); a read of that kind has changed nothing.
    """
    if answered.error:
        return Outcome.UNKNOWN if answered.sent else Outcome.FAILED, answered.error
    try:
        error = refusal(answered.frame)
        if error is not None:
            unsure = error.name in PERHAPS_DONE and check is None
            return Outcome.UNKNOWN if unsure else Outcome.FAILED, error.name
        wrong = "" if check is None else _judge_rows(rows(answered.frame), request, check)
    except MalformedCqlError:
        return Outcome.UNKNOWN, GARBAGE
    return (Outcome.FAILED, wrong) if wrong else (Outcome.OK, "")


def _judge_rows(found: list[Row], request: Request, check: RecordCheck) -> str:
    """
    Return the error of what was read; a scan has to begin with its record.

    Of a row without values nothing but the key was ever written; Cassandra shows it all the same.
    """
    if request.kind == Kind.SCAN:
        if not found or found[0][0] != request.key.encode():
            return NOT_FOUND
        return check.scan(
            request, [((key or b"").decode("utf-8", "replace"), _found(values)) for key, *values in found]
        )
    if not found or found[0][0] is None:
        return NOT_FOUND
    return check.read(request.key, _found(found[0]))


def _found(values: Sequence[bytes | None]) -> bytes | dict[str, bytes]:
    """Return a row's one value, or of a product its fields."""
    if len(values) != len(FIELD_BYTES):
        return values[0] or b""
    return {name: value or b"" for name, value in zip(FIELD_BYTES, values, strict=True)}


NEEDS_NEW_CONNECTION = frozenset({cql.UNPREPARED, GARBAGE})
"""The node has forgotten its statements, or we misunderstand it: a new connection prepares them anew."""


def failure_name(error: BaseException) -> str:
    """Return why there is no connection: the server's code where it refused us, else as `connect_error`."""
    refused = next((each for each in (error, error.__cause__) if isinstance(each, CqlRefusedError)), None)
    return connect_error(error) if refused is None else refused.error.name


class StatementRequest(LinkedRequest[CqlRequest, CqlFrame]):
    """
    `PendingRequest` of one prepared statement, on the connection for whose node it was prepared.

    Where that has ended by the time it is sent, `encode` returns what to send over the client's next.
    """

    __slots__ = ("_check", "_connection", "_encode", "_request")

    def __init__(  # noqa: PLR0913, PLR0917 -- names take time
        self,
        link: Link[CqlConnection],
        connection: CqlConnection,
        execution: CqlRequest,
        request: Request,
        encode: Callable[[CqlConnection, Request], CqlRequest],
        check: RecordCheck | None,
    ) -> None:
        self.t1_ns = 0
        self._link = link
        self._connection = connection
        self._data = execution
        self._request = request
        self._encode = encode
        self._check = check
        self._carrier = None
        self._done = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`. What has broken is made anew, outside the operation's time."""
        connection = self._connection
        if connection.is_open:
            self._done, self._carrier = done, connection
            connection.send(self._data, self, self._receive)
        else:
            self._send_once_connected(done)

    def _encode_for(self, connection: CqlConnection) -> CqlRequest:
        self._connection = connection
        return self._encode(connection, self._request)

    def _receive(self, t2_ns: int, answer: CqlFrame, error: str) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        answered = CqlAnswer(self.t1_ns or t2_ns, t2_ns, answer, error, sent=self.t1_ns != 0)
        outcome, error = judge(answered, self._request, self._check)
        if error in NEEDS_NEW_CONNECTION:
            self._connection.close()
        done(Result(answered.t1_ns, t2_ns, outcome, "", error))
