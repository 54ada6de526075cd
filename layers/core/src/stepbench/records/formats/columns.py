"""
A writer's records as they are stored: one compact column file per flush.

    magic "SBC2" · header length u32 · header JSON · per column and byte plane: deflate stream · CRC-32 of all before

A plane of one value is that byte alone: no deflate stream is so short.

Operations have columns more (`Rows.extras`), named in the header as the others are; a file without them has none.

Columns hold small differences (sequence and t0 against the row before, t1 against t0, t2 against
t1), each in the narrowest integers that fit, in byte planes, from the lowest up. Each plane is a stream of its own:
those at the bottom look random and those at the top do not, and one code for all would suit neither. Integers are
little-endian.
"""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from stepbench.contracts.base import Contract
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.plan import TrialRef
from stepbench.errors import CorruptRecordsError
from stepbench.model.request import Outcome
from stepbench.workload.payloads import matching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

MAGIC = b"SBC2"
UNSENT = 3
"""Outcome of a row whose event was never handed to the store; it has no t1 and no t2 (both 0)."""
NO_EXTRAS: Mapping[str, NDArray[np.int64]] = MappingProxyType({})
_OWN_COLUMNS = frozenset({"sequence", "t0", "t1", "t2", "outcome", "error"})
_LENGTH = struct.Struct("<I")
_LEVEL = 6
_RAW = -zlib.MAX_WBITS
"""Deflate without a header and check sum: the file has its own."""
_WIDTHS = ("<i1", "<i2", "<i4", "<i8")


class InvocationNote(Contract):
    """
    What one invocation of a phase with `invoked` took beside its operations; times by its own clock.

    sandbox: its process. cold: whether it is the process's first. connections: made before its operations.
    acknowledged: of its operations. operating_ns: from its first send to its last answer.
    """

    sandbox: str
    cold: bool
    acknowledged: int = Field(ge=0)
    operating_ns: int = Field(ge=0)
    begin_ns: int
    end_ns: int = Field(description="Where its rows were packed; storing them comes after it.")
    connections: int = Field(ge=0)
    connecting_ns: int = Field(ge=0)
    marking_ns: int = Field(ge=0, description="Of recording: what it took to mark it as begun, before its operations.")
    stored_ns: int | None = Field(
        ge=0, description="Of recording: what it took to store the rows of the process's invocation before this one."
    )


class ColumnHeader(Contract):
    """The origin of a file's records. `errors[row.error]` is the store's error code; `errors[0]` is "" (none)."""

    ref: TrialRef
    phase: int = Field(ge=0, le=0xFF)
    writer: int = Field(ge=0, le=0xFFFF)
    slice: int = Field(ge=0, le=0xFFFF)
    attempt: int = Field(ge=0, le=0xFF)
    flush: int = Field(ge=0)
    errors: tuple[str, ...] = ("",)
    last: bool = False
    """The attempt ended in good order with this file."""
    drift_ns: int | None = None
    """CLOCK_REALTIME minus the writer's clock at the end of the slice; last file only."""
    cpu_share: float | None = None
    """CPU that the writer used under load, of what a thread of it can get; last file only."""
    slow_spells: SlowSpells | None = Field(default=None, exclude_if=lambda found: found is None)
    """Of the writer's sandbox, before the slice; not there where writers share a machine."""
    connecting_ns: int = Field(default=0, ge=0, exclude_if=lambda found: not found)
    """How long the writer was still connecting when its load was due."""
    invocation: InvocationNote | None = Field(default=None, exclude_if=lambda found: found is None)
    """Of a phase with `invoked`, where an attempt is one invocation with one file."""


class Rows(NamedTuple):
    """
    Columns of equal length n, rows by ascending sequence.

    sequence, t0_ns, t1_ns, t2_ns: int64. outcome: uint8, an `Outcome` or `UNSENT`. error: uint16, index into
    `ColumnHeader.errors`. tokens: the store's names of the changes, one a row, or empty if no row has any.

    extras: what only operations have, int64 columns by name: `client` and `kind`, and where any row has another value
    than 0 `retries`, `connect_ns`, `tls_ns`, `authenticate_ns`, `operate_ns`.
    """

    sequence: NDArray[np.int64]
    t0_ns: NDArray[np.int64]
    t1_ns: NDArray[np.int64]
    t2_ns: NDArray[np.int64]
    outcome: NDArray[np.uint8]
    error: NDArray[np.uint16]
    tokens: tuple[str, ...] = ()
    extras: Mapping[str, NDArray[np.int64]] = NO_EXTRAS

    def expected(self, matching_share: float) -> int:
        """Return how many events have to arrive: acknowledged, and to pass the trigger's filter."""
        return int(np.count_nonzero((self.outcome == Outcome.OK) & matching(matching_share, self.sequence)))

    def some(self, which: NDArray[np.bool_]) -> Rows:
        """Return the rows that are chosen, without tokens."""
        extras = {name: column[which] for name, column in self.extras.items()}
        return Rows._make([*(column[which] for column in self[:6]), (), extras])

    @property
    def last_t2_ns(self) -> int:
        """Return the latest acknowledgement or refusal; 0 without one."""
        return int(self.t2_ns.max(initial=0))


class PendingRows:
    """
    Rows that a recorder has given away, and that nobody has put together yet.

    To give them away takes no time on the loop that measures; to sort 200,000 and copy them into columns takes a tenth
    of a second, by which every answer that comes meanwhile would be late. `rows` is for a thread on the side.
    """

    def __init__(self, size: int, build: Callable[[], Rows]) -> None:
        """Hold `build` back until the first `rows`, which calls it once; it is to hold all that it needs."""
        self.size = size
        self._build: Callable[[], Rows] | None = build
        self._rows = empty_rows()

    def rows(self) -> Rows:
        """Put the rows together, once; of several callers at once, only one may be the first."""
        if self._build is not None:
            self._rows, self._build = self._build(), None
        return self._rows


class ColumnFile(NamedTuple):
    """One decoded column file."""

    header: ColumnHeader
    rows: Rows


class _Column(Contract):
    kind: str
    rows: int = Field(ge=0)
    planes_bytes: tuple[int, ...]
    """Of the packed planes."""


class _Layout(Contract):
    header: ColumnHeader
    first_sequence: int = 0
    """What the differences begin from: in them, it would widen all."""
    first_t0_ns: int = 0
    columns: dict[str, _Column]
    tokens_bytes: int | None = None


def encode(header: ColumnHeader, rows: Rows) -> bytes:
    """Encode a column file."""
    packed = {name: _pack(column) for name, column in {**_differences(rows), **rows.extras}.items()}
    tokens = zlib.compress("\n".join(rows.tokens).encode(), _LEVEL) if rows.tokens else None
    layout = _Layout(
        header=header,
        first_sequence=_before(rows.sequence),
        first_t0_ns=_before(rows.t0_ns),
        columns={name: column for name, (column, _) in packed.items()},
        tokens_bytes=None if tokens is None else len(tokens),
    )
    head = layout.model_dump_json().encode()
    body = b"".join([MAGIC, _LENGTH.pack(len(head)), head, *(each for _, each in packed.values()), tokens or b""])
    return body + _LENGTH.pack(zlib.crc32(body))


def decode(key: str, data: bytes) -> ColumnFile:
    """
    Decode a column file.

    Raises:
        CorruptRecordsError: the file is cut, changed, or of another kind or version; names `key`.
    """
    try:
        return _decode(data)
    except (ValueError, KeyError, IndexError, struct.error, zlib.error, ValidationError) as error:
        message = f"column file {key}: {error}; the writer's records in it are lost"
        raise CorruptRecordsError(message) from error


def empty_rows() -> Rows:
    """Return no rows."""
    none = np.empty(0, dtype=np.int64)
    return Rows(none, none, none, none, none.astype(np.uint8), none.astype(np.uint16))


def _decode(data: bytes) -> ColumnFile:
    body, check = data[: -_LENGTH.size], data[-_LENGTH.size :]
    if data[: len(MAGIC)] != MAGIC:
        message = f"begins with {data[:4]!r} instead of {MAGIC!r}"
        raise ValueError(message)
    if zlib.crc32(body) != _LENGTH.unpack(check)[0]:
        message = "its checksum does not match"
        raise ValueError(message)
    at = len(MAGIC) + _LENGTH.size
    end = at + _LENGTH.unpack(body[len(MAGIC) : at])[0]
    layout = _Layout.model_validate_json(body[at:end])
    columns = {}
    for name, column in layout.columns.items():
        at, end = end, end + sum(column.planes_bytes)
        columns[name] = _unpack(column, body[at:end])
    tokens: tuple[str, ...] = ()
    if layout.tokens_bytes is not None:
        tokens = tuple(zlib.decompress(body[end:]).decode().split("\n"))
    return ColumnFile(layout.header, _restore(layout, columns, tokens))


def _differences(rows: Rows) -> dict[str, NDArray[np.int64]]:
    # An unsent row's t1 and t2 are 0, which as differences would blow the columns up to 8 bytes a row.
    sent = rows.outcome != UNSENT
    return {
        "sequence": _delta(rows.sequence),
        "t0": _delta(rows.t0_ns),
        "t1": np.where(sent, rows.t1_ns - rows.t0_ns, 0),
        "t2": np.where(sent, rows.t2_ns - rows.t1_ns, 0),
        "outcome": rows.outcome.astype(np.int64),
        "error": rows.error.astype(np.int64),
    }


def _restore(layout: _Layout, columns: dict[str, NDArray[np.int64]], tokens: tuple[str, ...]) -> Rows:
    outcome = columns["outcome"].astype(np.uint8)
    sequence, t0_ns = np.cumsum(columns["sequence"]), np.cumsum(columns["t0"])
    sequence += layout.first_sequence
    t0_ns += layout.first_t0_ns
    t1_ns = t0_ns + columns["t1"]
    t2_ns = t1_ns + columns["t2"]
    unsent = outcome == UNSENT
    if unsent.any():
        t1_ns[unsent] = t2_ns[unsent] = 0
    error = columns["error"].astype(np.uint16)
    extras = {name: column for name, column in columns.items() if name not in _OWN_COLUMNS}
    return Rows(sequence, t0_ns, t1_ns, t2_ns, outcome, error, tokens, extras)


def _delta(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row's step from the row before; the first row's is the second one's, so that even steps are equal."""
    steps = np.diff(column, prepend=column[:1])
    steps[:1] = steps[1:2] if steps.size > 1 else 0
    return steps


def _before(column: NDArray[np.int64]) -> int:
    """Return the value from which the differences begin."""
    return int((column[:1] - _delta(column)[:1])[0]) if column.size else 0


def _pack(column: NDArray[np.int64]) -> tuple[_Column, bytes]:
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    kind = next(kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    planes = column.astype(kind).view(np.uint8).reshape(column.size, np.dtype(kind).itemsize).T
    packed = [_pack_plane(plane.tobytes()) for plane in planes]
    return _Column(kind=kind, rows=column.size, planes_bytes=tuple(map(len, packed))), b"".join(packed)


def _pack_plane(plane: bytes) -> bytes:
    if plane and plane.count(plane[0]) == len(plane):
        return plane[:1]
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
    return packer.compress(plane) + packer.flush()


def _unpack(column: _Column, packed: bytes) -> NDArray[np.int64]:
    if column.kind not in _WIDTHS:
        message = f"unknown integers {column.kind!r}"
        raise ValueError(message)
    width, ends = np.dtype(column.kind).itemsize, list(accumulate(column.planes_bytes))
    if len(ends) != width:
        message = f"{len(ends)} planes of integers {column.kind!r}"
        raise ValueError(message)
    planes = [packed[end - size : end] for end, size in zip(ends, column.planes_bytes, strict=True)]
    if all(len(plane) == 1 for plane in planes):
        return np.full(column.rows, int.from_bytes(b"".join(planes), "little", signed=True), dtype=np.int64)
    own = np.empty((column.rows, width), dtype=np.uint8)
    for place, plane in enumerate(planes):
        inflated = plane if len(plane) == 1 else zlib.decompress(plane, _RAW, column.rows)
        own[:, place] = np.frombuffer(inflated, dtype=np.uint8)
    return own.view(column.kind).reshape(column.rows).astype(np.int64)
