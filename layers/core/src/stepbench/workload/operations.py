"""Operations as they are offered: a choice of what to do on which record, with key and content. Pure."""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.workload import ROW_DATA, Kind
from stepbench.model.request import Request
from stepbench.workload.choices import BLOCK, DIGITS, KINDS, MAX_ATTEMPTS, Choices
from stepbench.workload.payloads import FILLER
from stepbench.workload.products import Products, json_blob, mix_all_bits, mix_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.workload import Workload
    from stepbench.workload.choices import BlockColumns, ClientStream

_READING = frozenset({Kind.READ, Kind.SCAN})
_CHANGING = frozenset({Kind.UPDATE, Kind.READ_MODIFY_WRITE})
_NEW = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes."""
HEAD_BYTES = 2 * DIGITS
"""A blob begins with the digits of its key and those of its stamp."""
STAMP_PRIME = 65_521
"""The largest prime of 16 bits: with a version of 48, a stamp has 64."""


class RecordKeys:
    """
    The keys of a trial's records, of the length that the workload asks for: head, digits, tail.

    With hashed order, the digits are a bijection of the number: no two records share a key.
    """

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag` is the trial's namespace."""
        if workload.record.shape == "row":  # the digits of a UUID; the tag is in its second half
            self.head, self.tail = "", hashlib.blake2b(tag.encode(), digest_size=DIGITS // 2).hexdigest()
        else:
            self.head = f"{tag}/rec-"
            self.tail = "/".ljust(workload.record.key_bytes - len(self.head) - DIGITS, "x")
        self._hashed = workload.key_order == "hashed"

    def of(self, number: int) -> str:
        """Return the key of the record with this number."""
        return self.with_digits(f"{mix_bits(number) if self._hashed else number:016x}")

    def with_digits(self, digits: str) -> str:
        """Return the key with these digits."""
        return f"{self.head}{digits}{self.tail}"

    def digits_of(self, key: str) -> str:
        """Return the digits in a key, which are its record's alone."""
        return key[len(self.head) : len(self.head) + DIGITS]

    def codes(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return what the digits of these records' keys say as numbers; same shape."""
        unsigned = numbers.astype(np.uint64)
        return mix_all_bits(unsigned) if self._hashed else unsigned


def hexadecimal(numbers: NDArray[np.uint64]) -> str:
    """Return the digits of all, one after the other: for a thousand it takes as long as for three by themselves."""
    return numbers.astype(">u8").tobytes().hex()


class Texts(NamedTuple):
    """
    The texts that a block's operations are cut out of.

    Made a thousand at a time, each costs a tenth of what it would by itself.

    version: of each. digits: of the keys, one after the other. heads: of the blobs; empty if records are products.
    """

    columns: BlockColumns
    version: array[int]
    digits: str
    heads: bytes


class Contents:
    """
    Keys and contents of a trial's records.

    A blob begins with its key's digits and a stamp of its version, as far as there is room, so that no two are alike
    and that each says whose it is (`workload.checks`); the rest is text that no store can compress away, of characters
    that need no escape in JSON or SQL. A row's data are all alike.
    """

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag` is the trial's namespace."""
        self._keys = RecordKeys(workload, tag)
        self._products = Products(workload.seed) if workload.record.shape == "product" else None
        is_row = workload.record.shape == "row"
        self._head_bytes = 0 if is_row else min(HEAD_BYTES, workload.record.value_bytes)
        self._key_head, self._key_tail = self._keys.head, self._keys.tail
        self._filler = ROW_DATA if is_row else filler_of(workload)

    def operation(self, kind: Kind, record: int, version: int, rows: int = 0, client: int = 0) -> Request:
        """
        Make one operation. `version`: what an overwrite or update writes differs by it; an insert's is 0.

        A read-modify-write of a blob overwrites it, of a product it updates some fields.
        """
        key = self._keys.of(record)
        if kind in _READING:
            return Request(kind, key, b"", None, rows, client)
        if self._products is None:
            digits = self._keys.digits_of(key)
            head = f"{digits}{stamp(int(digits, 16), version):016x}".encode()
            return Request(kind, key, head[: self._head_bytes] + self._filler, None, 0, client)
        changes = kind in _CHANGING
        fields = (self._products.changes if changes else self._products.product)(record, version)
        return Request(kind, key, json_blob(fields), fields, 0, client)

    def preloaded(self, record: int) -> Request:
        """Make the insertion of one of the records that are there before the load, numbered from 0."""
        return self.operation(Kind.INSERT, record, 0)

    def texts(self, columns: BlockColumns, version: NDArray[np.int64]) -> Texts:
        """Make the texts of a block whose operations have these versions."""
        codes = self._keys.codes(np.array(columns.record, dtype=np.int64))
        heads = ""
        if self._products is None:
            remainder = codes % np.uint64(STAMP_PRIME) * (version != 0)
            stamps = version.astype(np.uint64) * np.uint64(STAMP_PRIME) + remainder
            heads = hexadecimal(np.stack([codes, stamps], axis=1))
        return Texts(columns, array("q", version.tobytes()), hexadecimal(codes), heads.encode())

    def cut(self, texts: Texts, row: int, client: int) -> Request:
        """Cut out a block's operation in this row; `operation` makes an equal one."""
        (kinds, record, rows), version, digits, heads = texts
        kind, at = KINDS[kinds[row]], DIGITS * row
        key = f"{self._key_head}{digits[at : at + DIGITS]}{self._key_tail}"
        if kind in _READING:
            return _NEW(Request, (kind, key, b"", None, rows[row], client, ()))
        if heads:
            value = heads[at + at : at + at + self._head_bytes] + self._filler
            return _NEW(Request, (kind, key, value, None, 0, client, ()))
        return self.operation(kind, record[row], version[row], 0, client)


def stamp(code: int, version: int) -> int:
    """
    Return what a blob says of its version: 0 as inserted, else a number that is as its key's digits, modulo a prime.

    Whoever knows the key can check it, whichever version it is of: no single digit can change unseen, since no power of
    16 is a multiple of `STAMP_PRIME`; of all else 1 in 65,521 would. It has 64 bits.

    Args:
        code: the key's digits as a number.
        version: below 2^48.
    """
    return version * STAMP_PRIME + code % STAMP_PRIME if version else 0


def filler_of(workload: Workload) -> bytes:
    """Return what stands behind the head of each of a trial's blobs."""
    drawn = np.random.default_rng([workload.seed]).choice(FILLER, workload.record.value_bytes)
    return drawn.tobytes()[HEAD_BYTES:]


class ClientOperations:
    """The operations that one client offers, by its sequence number, in ascending order (see `Choices`)."""

    def __init__(self, workload: Workload, contents: Contents, stream: ClientStream, first: int = 0) -> None:
        self._contents = contents
        self._client = stream.client
        self._choices = Choices(workload, stream, first)
        self._versions = (stream.phase << 41 | stream.slice << 30 | stream.attempt % MAX_ATTEMPTS << 26) + 1
        """Versions of what is written: neither 0, which is as inserted, nor the same in two slices of a client."""
        self._first = first // BLOCK * BLOCK
        self._texts = self._texts_of(self._first)

    def prepare(self, operations: int) -> None:
        """Make the choices below this sequence number now, before the clock starts."""
        self._choices.prepare(operations)

    def at(self, sequence: int, client: int | None = None) -> Request:
        """Return the operation with this number; on `client`'s connection, if that is another than the stream's own."""
        row = sequence - self._first
        if not 0 <= row < BLOCK:
            self._first, row = sequence - sequence % BLOCK, sequence % BLOCK
            self._texts = self._texts_of(self._first)
        return self._contents.cut(self._texts, row, self._client if client is None else client)

    def _texts_of(self, first: int) -> Texts:
        """Make the texts of the block that begins with this number."""
        columns = self._choices.block(first // BLOCK)
        version = self._versions + first + np.arange(BLOCK)
        is_insert = np.frombuffer(columns.kind, np.uint8) == Kind.INSERT
        return self._contents.texts(columns, np.where(is_insert, 0, version))
