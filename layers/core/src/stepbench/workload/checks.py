"""
Whether what a read returned is a value of the record that was asked for. Pure; for every store the same.

A driver asks once the answer's time is stamped, and a read of which it is not so is FAILED with `WRONG_VALUE`.

What is compared: of every value the length. Of every blob also the key's digits at its head, and the text that all of a
trial's blobs have in common. All else takes time that would be seen beside an operation's own, and so is compared in
every `WHOLE_EVERY`th: the stamp of a blob that was written anew, all fields of a product, all rows of a scan.

Where the mix changes no records, a value has to be the one that was inserted. Where it does, any version that may have
been written is right: several writers overwrite a record at the same time, and none knows in which order the store took
them. So an old value is found in the former case, and not in the latter. Each changing field of a product is checked by
itself, since stores merge updates field by field. A blob of less than 32 bytes has no room for a whole stamp, and below
16 not for all of the key's digits: what there is room for is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from stepbench.contracts.workload import PRODUCT_BYTES, ROW_DATA, Kind
from stepbench.model.errors import WRONG_VALUE
from stepbench.workload.choices import DIGITS
from stepbench.workload.operations import HEAD_BYTES, STAMP_PRIME, RecordKeys, filler_of, stamp
from stepbench.workload.products import FIELD_BYTES, FIRST_ID, Products, json_blob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.workload import Workload
    from stepbench.model.request import Request

WHOLE_EVERY = 64
_CHANGING = frozenset({Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE})
_FIELDS = len(FIELD_BYTES)
_PAIRS_BYTES = PRODUCT_BYTES + sum(map(len, FIELD_BYTES))
_JSON_BYTES = len(json_blob({name: "x" * size for name, size in FIELD_BYTES.items()}))
_JSON_SIZES = frozenset({_JSON_BYTES, _JSON_BYTES + 2 * _FIELDS - 1})
"""Sizes of JSON as we write it, and as PostgreSQL prints jsonb: with a space behind each colon and comma."""


class RecordCheck:
    """
    The check of one trial's records; each driver has one.

    Its methods return the error of a read, "" where what came is right.

    read: checks what a read of the record with a key returned: a value (`bytes`: a blob, or a product as JSON) or a
    product's fields, as text or its UTF-8 (`dict`, or `list` of names and values in turns, as Redis sends them).
    Anything else is wrong.
    """

    read: Callable[[str, object], str]

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag` is the trial's namespace."""
        self._keys = RecordKeys(workload, tag)
        self._seed = workload.seed
        self._changing = bool(workload.mix.kinds & _CHANGING)
        self._is_blob = workload.record.shape == "blob"
        self.read = self._read_blob if self._is_blob else self._read_product
        self._size = size = workload.record.value_bytes
        self._from = len(self._keys.head)
        self._to = self._from + min(size, DIGITS)
        self._filler = filler_of(workload) if self._is_blob else b""
        self._as_inserted = (b"0" * (HEAD_BYTES - DIGITS) + self._filler)[: max(0, size - DIGITS)]
        """What comes behind the key's digits."""
        self._turn = 0

    def row(self, identity: bytes, data: bytes) -> str:
        """Check a row of the shape `row`, of which a read takes whichever comes."""
        digits = identity.replace(b"-", b"").decode("ascii", "replace")
        is_ours = len(digits) == DIGITS + len(self._keys.tail) and digits.endswith(self._keys.tail)
        return "" if is_ours and data == ROW_DATA else WRONG_VALUE

    def scan(self, request: Request, found: Sequence[tuple[str, object]]) -> str:
        """Check the rows that a scan returned, at least one, with their keys: the record asked for is the first."""
        keys = [key for key, _ in found]
        if keys[0] != request.key or len(keys) > request.rows or len(set(keys)) < len(keys):
            return WRONG_VALUE
        is_right = self._is_record if self._is_due() else self._has_size
        return "" if all(is_right(key, value) for key, value in found) else WRONG_VALUE

    def _read_blob(self, key: str, found: object) -> str:
        if (
            isinstance(found, bytes)
            and len(found) == self._size
            and found.endswith(self._as_inserted)
            and found.startswith(key[self._from : self._to].encode())
        ):
            return ""
        return "" if self._changing and self._is_blob_of(key, found, whole=self._is_due()) else WRONG_VALUE

    def _read_product(self, key: str, found: object) -> str:
        return "" if (self._is_record if self._is_due() else self._has_size)(key, found) else WRONG_VALUE

    def _is_due(self) -> bool:
        """Return whether this one is compared as a whole: the first, and then each `WHOLE_EVERY`th."""
        turn = self._turn
        self._turn = (turn + 1) % WHOLE_EVERY
        return turn == 0

    def _has_size(self, _key: str, found: object) -> bool:
        if isinstance(found, bytes):
            return len(found) == self._size if self._is_blob else len(found) in _JSON_SIZES
        try:
            if isinstance(found, list):
                return len(found) == 2 * _FIELDS and len(b"".join(found)) == _PAIRS_BYTES
            return isinstance(found, dict) and len(found) == _FIELDS and sum(map(len, found.values())) == PRODUCT_BYTES
        except TypeError:
            return False

    def _is_record(self, key: str, found: object) -> bool:
        """Return whether a key is one of the trial's, and the value its own."""
        if not self._has_size(key, found):
            return False
        return self._is_blob_of(key, found, whole=True) if self._is_blob else self._is_product_of(key, found)

    def _is_blob_of(self, key: str, found: object, *, whole: bool) -> bool:
        digits = self._keys.digits_of(key)
        if not isinstance(found, bytes) or len(found) != self._size or not found.endswith(self._filler):
            return False
        if not found.startswith(digits[: self._size].encode()) or key != self._keys.with_digits(digits):
            return False
        if found.endswith(self._as_inserted):
            return True
        has_stamp = self._size >= HEAD_BYTES and whole
        return self._changing and not (has_stamp and not _is_stamp(found[DIGITS:HEAD_BYTES], digits))

    def _is_product_of(self, key: str, found: object) -> bool:
        fields = _texts(found)
        identity = fields.get("id", "")
        if not (identity.isascii() and identity.isdigit()):
            return False
        number = int(identity) - FIRST_ID
        return key == self._keys.of(number) and self._products.holds(number, fields, changing=self._changing)

    @cached_property
    def _products(self) -> Products:
        return Products(self._seed)


def _is_stamp(text: bytes, digits: str) -> bool:
    """Return whether this is the stamp of any version of the record with these digits in its key."""
    try:
        code, version = int(digits, 16), int(text, 16) // STAMP_PRIME
    except ValueError:
        return False
    return text == b"%016x" % stamp(code, version)


def _texts(found: object) -> dict[str, str]:
    """Return a product's fields as text; empty where they cannot be read."""
    if isinstance(found, bytes):
        try:
            found = json.loads(found, parse_int=str, parse_float=str)
        except ValueError:
            return {}
    elif isinstance(found, list):
        found = dict(zip(map(_text, found[::2]), found[1::2], strict=True))
    return {_text(name): _text(text) for name, text in found.items()} if isinstance(found, dict) else {}


def _text(part: object) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)
