"""
Arrivals as they are stored: packed entries, many to an item.

Packing needs the standard library only, because receivers start without numpy; unpacking is analysis, and gives
numpy columns. An item's attributes:

    n                 how many entries
    entries           `ENTRY` structs, one after the other; more than a few as `records.t4_planes` packs them
    tokens            the store's names of the changes, one an entry ("" = none); absent if there are none at all
    sandbox           which receiver
    cold, init_ns     whether this was the sandbox's first invocation; import of the handler to its first statement
    batch             how many records were delivered together (a watcher's item: the largest batch in it)
    source            "receiver" or "watcher#<lane>"
    t3_resolution_ns  how finely the store tells t3; 0 = it does not
    ignored           removals that came along, which are no arrivals
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import CorruptRecordsError
from stepbench.records.t4_planes import Planes, is_planes, open_planes, pack_planes, split_planes, unpack_planes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

ENTRY = struct.Struct("<BBHHHIqqq")
MAX_ENTRIES = 10_000
"""Entries in one item: 360 kB of the 400 that DynamoDB takes, should there be nothing alike in them."""
FEW_ENTRIES = 16
"""So many take one write unit (1 kB) with all that is beside them, as they are."""
_EVERY_PLACE = tuple(range(ENTRY.size))
MAX_BATCH_INDEX = 0xFFFF
"""What comes later in its batch has this index."""


class Entry(NamedTuple):
    """One arrival. `t3_ns` and `position` are 0 where the store tells none."""

    phase: int
    attempt: int
    writer: int
    slice: int
    batch_index: int
    sequence: int
    t4_ns: int
    t3_ns: int = 0
    position: int = 0


class T4Item(NamedTuple):
    """One stored item, checked. Its entries stay packed, some 4 bytes each, until somebody asks for them."""

    request_id: str
    packed: Planes
    tokens: tuple[str, ...]
    sandbox: str
    cold: bool
    init_ns: int
    batch: int
    source: str
    t3_resolution_ns: int
    ignored: int

    @property
    def arrivals(self) -> int:
        """How many entries."""
        return self.packed.rows

    @property
    def entries(self) -> NDArray[np.void]:
        """A structured array with `Entry`'s fields; see `records.entries` for those of many items."""
        from stepbench.records.entries import unpack_together  # noqa: PLC0415 -- receivers pack, and have no numpy

        return unpack_together([self.packed])


def pack(entries: Iterable[Entry]) -> bytes:
    """36 bytes an entry, or some 3 if they are many and alike."""
    return pack_rows(
        b"".join(ENTRY.pack(*entry[:4], min(entry.batch_index, MAX_BATCH_INDEX), *entry[5:]) for entry in entries)
    )


def pack_rows(rows: bytes) -> bytes:
    """The same for `ENTRY` structs, one after the other."""
    return rows if len(rows) <= FEW_ENTRIES * ENTRY.size else pack_planes(split_planes(rows, ENTRY.size))


def unpack_rows(packed: bytes, key: str) -> bytes:
    """
    `ENTRY` structs, one after the other.

    Raises:
        CorruptRecordsError: the bytes are no entries; names `key`.
    """
    if is_planes(packed):
        try:
            return unpack_planes(packed, ENTRY.size)
        except ValueError as error:
            message = f"t4 item {key}: {error}"
            raise CorruptRecordsError(message) from error
    if len(packed) % ENTRY.size:
        message = f"t4 item {key}: {len(packed)} bytes are no whole number of {ENTRY.size}-byte entries"
        raise CorruptRecordsError(message)
    return packed


def unpack(packed: bytes, key: str) -> NDArray[np.void]:
    """
    A structured array with `Entry`'s fields, shape (n,).

    Raises:
        CorruptRecordsError: as `unpack_rows` does.
    """
    from stepbench.records.entries import unpack_together  # noqa: PLC0415 -- receivers pack, and have no numpy

    return unpack_together([_open(packed, key)])


def _open(packed: bytes, key: str) -> Planes:
    """As planes, however the entries are packed. Raises CorruptRecordsError as `unpack_rows` does."""
    if is_planes(packed):
        try:
            return open_planes(packed, ENTRY.size)
        except ValueError as error:
            message = f"t4 item {key}: {error}"
            raise CorruptRecordsError(message) from error
    rows = unpack_rows(packed, key)
    if len(rows) == ENTRY.size:
        return Planes(1, (), rows)
    first = rows[: ENTRY.size] or bytes(ENTRY.size)
    return Planes(len(rows) // ENTRY.size, _EVERY_PLACE, b"".join([first, *split_planes(rows, ENTRY.size)]))


def parse_item(item: Mapping[str, Any]) -> T4Item:
    """
    An item as `TrialTable.t4_items` or `decode_fallback` gives it.

    Raises:
        CorruptRecordsError: an attribute is missing, or the entries do not match the count.
    """
    key = str(item.get("sk", "without sort key"))
    try:
        packed = _open(bytes(item["entries"]), key)
        tokens = tuple(map(str, item.get("tokens", ())))
        if packed.rows != int(item["n"]) or (tokens and len(tokens) != packed.rows):
            message = f"t4 item {key}: n is {item['n']}, but it has {packed.rows} entries and {len(tokens)} tokens"
            raise CorruptRecordsError(message)
        return T4Item(
            request_id=key.rpartition("#")[0],
            packed=packed,
            tokens=tokens,
            sandbox=sys.intern(str(item["sandbox"])),
            cold=bool(item["cold"]),
            init_ns=int(item["init_ns"]),
            batch=int(item["batch"]),
            source=sys.intern(str(item["source"])),
            t3_resolution_ns=int(item.get("t3_resolution_ns", 0)),
            ignored=int(item.get("ignored", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        message = f"t4 item {key}: {type(error).__name__}: {error}"
        raise CorruptRecordsError(message) from error


def encode_fallback(sort_key: str, item: Mapping[str, Any]) -> bytes:
    """An item as a document for the bucket, with its sort key."""
    return json.dumps({"sk": sort_key, **item, "entries": base64.b64encode(item["entries"]).decode()}).encode()


def decode_fallback(key: str, body: bytes) -> dict[str, Any]:
    """
    The item of a fallback document.

    Raises:
        CorruptRecordsError: it is none; names `key`.
    """
    try:
        item: dict[str, Any] = json.loads(body)
        return {**item, "entries": base64.b64decode(item["entries"], validate=True)}
    except (KeyError, TypeError, ValueError) as error:
        message = f"t4 fallback {key}: {type(error).__name__}: {error}"
        raise CorruptRecordsError(message) from error
