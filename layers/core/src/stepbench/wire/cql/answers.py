"""
The contents of CQL's answers: refusals, rows, ids of prepared statements. Pure.

Source:
    Apache Cassandra, doc/native_protocol_v4.spec, sections 4.2 and 9.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from stepbench.wire.cql import CqlFrame, MalformedCqlError, Opcode

_INT, _SHORT = struct.Struct("!i"), struct.Struct("!H")
ROWS, _PREPARED = 2, 4
GLOBAL_TABLE, _MORE_PAGES, NO_METADATA = 0x01, 0x02, 0x04
_CUSTOM, _LIST, _MAP, _SET, _USER_TYPE, _TUPLE = 0x00, 0x20, 0x21, 0x22, 0x30, 0x31

Row = tuple[bytes | None, ...]

ERRORS = {
    0x0000: "ServerError",
    0x000A: "ProtocolError",
    0x0100: "BadCredentials",
    0x1000: "Unavailable",
    0x1001: "Overloaded",
    0x1002: "IsBootstrapping",
    0x1003: "TruncateError",
    0x1100: "WriteTimeout",
    0x1200: "ReadTimeout",
    0x1300: "ReadFailure",
    0x1400: "FunctionFailure",
    0x1500: "WriteFailure",
    0x1600: "CdcWriteFailure",
    0x1700: "CasWriteUnknown",
    0x2000: "SyntaxError",
    0x2100: "Unauthorized",
    0x2200: "Invalid",
    0x2300: "ConfigError",
    0x2400: "AlreadyExists",
    0x2500: "Unprepared",
}
PERHAPS_DONE = frozenset({"ServerError", "WriteTimeout", "WriteFailure", "CdcWriteFailure", "CasWriteUnknown"})
"""After these errors some replicas may have the write, and will give it to the others."""


class CqlError(NamedTuple):
    """The server's refusal: the name of its code, and what it says."""

    name: str
    message: str


class BodyReader:
    """Takes values off the front of a body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left_bytes(self) -> int:
        """Return how much has not been taken."""
        return len(self._body) - self._at

    def number(self) -> int:
        """Take a signed number of four bytes."""
        return self._unpack(_INT)

    def short(self) -> int:
        """Take an unsigned number of two bytes."""
        return self._unpack(_SHORT)

    def short_bytes(self) -> bytes:
        """Take bytes with their length before them, in two bytes."""
        return self._take(self.short())

    def string(self) -> str:
        """Take text with its length before it, in two bytes."""
        return self.short_bytes().decode("utf-8", "replace")

    def value(self) -> bytes | None:
        """Take a column's value; None is null."""
        size = self.number()
        return None if size < 0 else self._take(size)

    def skip_type(self) -> None:
        """Skip a column's type, with those of which it is made."""
        types = 1
        while types:
            types -= 1
            kind = self.short()
            if kind == _CUSTOM:
                self.string()
            elif kind in {_LIST, _SET}:
                types += 1
            elif kind == _MAP:
                types += 2
            elif kind in {_USER_TYPE, _TUPLE}:
                message = "a column of a type that no table of ours has"
                raise MalformedCqlError(message)

    def _unpack(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        if len(taken) != size:
            message = f"an answer of {len(self._body):,} bytes is shorter than it says"
            raise MalformedCqlError(message)
        self._at += size
        return taken


def refusal(frame: CqlFrame) -> CqlError | None:
    """Return the refusal that an answer is; None: it is none."""
    if frame.opcode != Opcode.ERROR:
        return None
    reader = BodyReader(frame.body)
    code = reader.number()
    return CqlError(ERRORS.get(code, f"error {code:#06x}"), reader.string())


def rows(frame: CqlFrame) -> list[Row]:
    """
    Return the rows that came, none for an answer that has none by its nature.

    Raises:
        MalformedCqlError: it is no result, or not the whole of one.
    """
    reader = _result(frame)
    if reader.number() != ROWS:
        return []
    flags, columns = reader.number(), reader.number()
    if flags & _MORE_PAGES:
        message = "an answer has more pages, though no paging was requested"
        raise MalformedCqlError(message)
    if not flags & NO_METADATA:
        _skip_columns(reader, flags, columns)
    count = reader.number()
    least_bytes = count * columns * _INT.size  # each value has its length before it
    if count and (columns <= 0 or not 0 < least_bytes <= reader.left_bytes):
        message = f"{count:,} rows of {columns:,} columns in {reader.left_bytes:,} bytes"
        raise MalformedCqlError(message)
    return [tuple([reader.value() for _ in range(columns)]) for _ in range(count)]


def prepared_id(frame: CqlFrame) -> bytes:
    """
    Return the id by which a prepared statement is executed.

    Raises:
        MalformedCqlError: it is no answer to PREPARE.
    """
    reader = _result(frame)
    if reader.number() != _PREPARED:
        message = "PREPARE was not answered with an id"
        raise MalformedCqlError(message)
    return reader.short_bytes()


def supported(frame: CqlFrame) -> dict[str, list[str]]:
    """Return the server's options."""
    reader = BodyReader(frame.body)
    return {reader.string(): [reader.string() for _ in range(reader.short())] for _ in range(reader.short())}


def _result(frame: CqlFrame) -> BodyReader:
    if frame.opcode != Opcode.RESULT:
        message = f"opcode {frame.opcode:#04x} came where a result was due"
        raise MalformedCqlError(message)
    return BodyReader(frame.body)


def _skip_columns(reader: BodyReader, flags: int, columns: int) -> None:
    if flags & GLOBAL_TABLE:
        reader.string()
        reader.string()
    for _ in range(columns):
        if not flags & GLOBAL_TABLE:
            reader.string()
            reader.string()
        reader.string()
        reader.skip_type()
