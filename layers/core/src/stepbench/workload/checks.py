"""
Whether what a read returned is a value of the record that was asked for. Pure; for every store the same.

A driver asks once the answer's time is stamped, and a read of which it is not so is FAILED with `WRONG_VALUE`.

What is compared: of every value the length, and what says whose it is (a blob's first 16 digits are its key's, a
product has its number for an id). Of every blob also all else: the text that all of a trial's blobs have in common, and
the stamp of its version (`workload.operations.stamp`). Of every `WHOLE_EVERY`th product all fields, and of every
`WHOLE_EVERY`th scan all rows; of the other scans the first row, and the lengths of the others: these take time enough
to be seen beside the operation's own.

Where the mix changes no records, a value has to be the one that was inserted. Where it does, any version that may have
been written is right: several writers overwrite a record at the same time, and none knows in which order the store took
them. So an old value is found in the former case, and not in the latter. Each changing field of a product is checked by
itself, since stores merge updates field by field. Blobs of less than 32 bytes have no room for a whole stamp, and below
16 not for all of the key's digits: what there is room for is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from stepbench.contracts.workload import PRODUCT_BYTES, ROW_DATA, Kind
from stepbench.model.errors import WRONG_VALUE
from stepbench.workload.choices import DIGITS, RecordKeys
from stepbench.workload.operations import HEAD_BYTES, STAMP_PRIME, filler_of, stamp
from stepbench.workload.products import FIELD_BYTES, FIRST_ID, Products, json_blob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.workload import Workload
    from stepbench.model.request import Request

Found: TypeAlias = "bytes | Mapping[str, str]"
"""What a store has for a record: a value (a blob, or a product as JSON), or a product's fields."""

WHOLE_EVERY = 8
_CHANGING = frozenset({Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE})
_ID = re.compile(rb'"id": ?(\d{19})\b')
_FIELDS = len(FIELD_BYTES)
_JSON_BYTES = len(json_blob({name: "x" * size for name, size in FIELD_BYTES.items()}))
_JSON_SIZES = frozenset({_JSON_BYTES, _JSON_BYTES + 2 * _FIELDS - 1})
"""As we write it, and as PostgreSQL prints jsonb: with a space behind each colon and comma."""


class RecordCheck:
    """
    The check of one trial's records; each driver has one.

    Its methods return the error of a read, "" where what came is right.
    """

    def __init__(self, workload: Workload, tag: str) -> None:
        """`tag` is the trial's namespace."""
        self._keys = RecordKeys(workload, tag)
        self._from, self._to = len(self._keys.head), len(self._keys.head) + DIGITS
        self._seed = workload.seed
        self._changing = bool(workload.mix.kinds & _CHANGING)
        self._size = workload.record.value_bytes
        self._is_blob = workload.record.shape == "blob"
        self._filler = filler_of(workload) if self._is_blob else b""
        self._turn = 0

    def read(self, key: str, found: Found) -> str:
        """Check what a read of one record returned."""
        right = self._is_blob_of(key, found) if self._is_blob else self._is_product_of(key, found, whole=self._is_due())
        return "" if right else WRONG_VALUE

    def row(self, identity: bytes, data: bytes) -> str:
        """Check a row of the shape `row`, of which a read takes whichever comes."""
        digits = identity.replace(b"-", b"").decode("ascii", "replace")
        is_ours = len(digits) == self._to + len(self._keys.tail) and digits.endswith(self._keys.tail)
        return "" if is_ours and data == ROW_DATA else WRONG_VALUE

    def scan(self, request: Request, found: Sequence[tuple[str, Found]]) -> str:
        """Check the rows that a scan returned, at least one, with their keys: the record asked for is the first."""
        keys = [key for key, _ in found]
        if keys[0] != request.key or len(keys) > request.rows or len(set(keys)) < len(keys):
            return WRONG_VALUE
        whole = self._is_due()
        right = all(self._is_record(*each) if whole else self._has_size(each[1]) for each in found[1:])
        return "" if right and self._is_record(*found[0]) else WRONG_VALUE

    def _is_due(self) -> bool:
        """Return whether this one is compared as a whole: the first, and then each `WHOLE_EVERY`th."""
        turn = self._turn
        self._turn = (turn + 1) % WHOLE_EVERY
        return turn == 0

    def _is_record(self, key: str, found: Found) -> bool:
        """Return whether a key is one of the trial's, and the value its own."""
        try:
            if key != f"{self._keys.head}{int(key[self._from : self._to], 16):016x}{self._keys.tail}":
                return False
        except ValueError:
            return False
        return self._is_blob_of(key, found) if self._is_blob else self._is_product_of(key, found, whole=True)

    def _has_size(self, found: Found) -> bool:
        if isinstance(found, bytes):
            return len(found) == self._size if self._is_blob else len(found) in _JSON_SIZES
        return len(found) == _FIELDS and sum(map(len, found.values())) == PRODUCT_BYTES

    def _is_blob_of(self, key: str, found: Found) -> bool:
        size, digits = self._size, key[self._from : self._to]
        if found.__class__ is not bytes or len(found) != size or not found.endswith(self._filler):
            return False
        code = int(digits, 16)
        as_inserted = f"{digits}{code % STAMP_PRIME:016x}".encode()
        if found.startswith(as_inserted[:size]):
            return True
        if not self._changing or not found.startswith(as_inserted[: min(size, DIGITS)]):
            return False
        return size < HEAD_BYTES or _is_stamp(found[DIGITS:HEAD_BYTES], code)

    def _is_product_of(self, key: str, found: Found, *, whole: bool) -> bool:
        if not self._has_size(found):
            return False
        number = _number_in(found)
        if number is None or self._keys.of(number) != key:
            return False
        return not whole or self._holds(number, found)

    def _holds(self, number: int, found: Found) -> bool:
        if isinstance(found, bytes):
            try:
                found = json.loads(found, parse_int=str, parse_float=str)
            except ValueError:
                return False
        if not isinstance(found, Mapping) or not all(isinstance(text, str) for text in found.values()):
            return False
        return self._products.holds(number, found, changing=self._changing)

    @cached_property
    def _products(self) -> Products:
        return Products(self._seed)


def _is_stamp(text: bytes, code: int) -> bool:
    """Return whether these digits are the stamp of any version of the record whose key's digits say `code`."""
    try:
        version, rest = divmod(int(text, 16), STAMP_PRIME)
    except ValueError:
        return False
    return rest == code % STAMP_PRIME and text == b"%016x" % stamp(code, version)


def _number_in(found: Found) -> int | None:
    """Return the number of the record that a product says it is; None: of none."""
    if isinstance(found, bytes):
        identity = _ID.search(found)
        return None if identity is None else int(identity[1]) - FIRST_ID
    text = found.get("id", "")
    return int(text) - FIRST_ID if text.isascii() and text.isdigit() else None
