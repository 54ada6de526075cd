"""Operations as they are offered: a choice of what to do on which record, with key and content. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Operation
from stepbench.load.payloads import FILLER
from stepbench.load.products import Products, json_blob
from stepbench.load.workload import MAX_ATTEMPTS, Choices, RecordKeys

if TYPE_CHECKING:
    from stepbench.contracts.workload import Workload
    from stepbench.load.workload import Stream

_READING = frozenset({Kind.READ, Kind.SCAN})
_CHANGING = frozenset({Kind.UPDATE, Kind.READ_MODIFY_WRITE})
_INSERT = Kind.INSERT
_KEYS_KEPT = 16_384
"""Those used last: finding one takes a tenth of the time that making it does."""
_HEAD_BYTES = 32
"""Of a blob: 16 hexadecimal digits for the record's number, and as many for its version."""


class Contents:
    """
    Keys and contents of a trial's records.

    A blob begins with its record's number and version, as far as there is room, so that no two are alike; the rest is
    text that no store can compress away, of characters that need no escape in JSON or SQL.
    """

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag`: the trial's namespace."""
        self._key_of = lru_cache(_KEYS_KEPT)(RecordKeys(workload, tag).of)
        self._products = Products(workload.seed) if workload.record.shape == "product" else None
        self._size = workload.record.value_bytes
        self._filler = np.random.default_rng([workload.seed]).choice(FILLER, self._size).tobytes()[_HEAD_BYTES:]

    def operation(self, kind: Kind, record: int, version: int, rows: int = 0, client: int = 0) -> Operation:
        """
        One operation. `version`: what an overwrite or update writes differs by it; an insert's is 0.

        A read-modify-write of a blob overwrites it, of a product it updates some fields.
        """
        key = self._key_of(record)
        if kind in _READING:
            return Operation(kind, key, b"", None, rows, client)
        if self._products is None:
            value = b"%016x%016x%b" % (record, version, self._filler)
            return Operation(kind, key, value[: self._size], None, 0, client)
        changes = kind in _CHANGING
        fields = (self._products.changes if changes else self._products.product)(record, version)
        return Operation(kind, key, json_blob(fields), fields, 0, client)

    def preloaded(self, record: int) -> Operation:
        """The insertion of one of the records that are there before the load, numbered from 0."""
        return self.operation(Kind.INSERT, record, 0)


class ClientOperations:
    """What one client offers, by its sequence number, in ascending order (see `Choices`)."""

    def __init__(self, workload: Workload, contents: Contents, stream: Stream, first: int = 0) -> None:
        self._contents = contents
        self._client = stream.client
        self._choices = Choices(workload, stream, first)
        self._versions = (stream.phase << 48 | stream.slice << 32 | stream.attempt % MAX_ATTEMPTS << 26) + 1
        """Versions of what is written: neither 0, which is as inserted, nor the same in two slices of a client."""

    def prepare(self, operations: int) -> None:
        """Make the choices below this sequence number now, before the clock starts."""
        self._choices.prepare(operations)

    def at(self, sequence: int, client: int | None = None) -> Operation:
        """The operation with this number; on `client`'s connection, if that is another than the stream's own."""
        kind, record, rows = self._choices.at(sequence)
        version = 0 if kind is _INSERT else self._versions + sequence
        return self._contents.operation(kind, record, version, rows, self._client if client is None else client)
