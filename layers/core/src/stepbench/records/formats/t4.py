"""
Arrivals as they are stored: packed entries, many to an item.

Packing needs the standard library only, because receivers start without numpy; `records.formats.t4_items` reads what
is packed here. An item's attributes:

    n                 how many entries
    entries           `ENTRY` structs, one after the other; more than a few as `pack_planes` packs them
    tokens            the store's names of the changes, one an entry ("" = none); absent if there are none at all
    sandbox           which receiver
    cold, init_ns     whether the invocation was its sandbox's first, soon after its init; how long that took
    batch             how many records were delivered together (a watcher's item: the largest batch in it)
    source            "receiver" or "watcher#<lane>"
    t3_resolution_ns  how finely the store reports t3; 0 = it does not
    ignored           removals that came along, which are no arrivals
    t5_ns             of a measured function (source "function"): when its handler returned or raised; 0 = never seen
    failed_from       likewise: index in the batch of the first record that was not processed, and comes again
    error             likewise: type of the handler's error; "" = none, or it never ended
    called_ns         likewise: when its handler was called, at t4 or behind what the layer does first
    t4_resolution_ns  likewise: how fine its clock is

The entries of one delivery share their t4, mostly their t3, phase, slice and attempt; their sequences and places in the
batch count up. So the k-th bytes of many entries are written side by side (a plane), planes of one value are left out,
and if that is not little enough yet, zlib finds the rest. 10,000 entries take some 12 kB instead of 360: a table counts
every kB that is written.

    magic · count u32 · bit k set: plane k is written, u64 · first entry · planes      all but the magic in zlib, or not
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.identity import EVENT_ID_CHARS, TAG_CHARS
from stepbench.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RECEIVER, FUNCTION = "receiver", "function"
"""What `source` is where a store's trigger invoked them: a receiver of ours, a measured function."""
PUSHED = frozenset({RECEIVER, FUNCTION})
ENTRY = struct.Struct("<BBHHHIqqq")
PLAIN, ZLIB = b"T4\0\0\xff\xff", b"T4\1\0\xff\xff"
"""No entry begins so: its slice would be 0xFFFF, and there are no more than `MAX_SLICES`."""
_LITTLE_BYTES = 720
"""With the other attributes, an item of so many bytes is still one write unit."""
_HEAD = struct.Struct("<IQ")
_LEVEL = 3
"""6 takes twice the time, and saves a tenth."""


class Planes(NamedTuple):
    """
    Packed entries, opened and checked.

    rows: how many entries. places: which planes are written; the others are of one value. data: the first entry, then
    the planes.
    """

    rows: int
    places: tuple[int, ...]
    data: bytes


def split_planes(entries: bytes, entry_bytes: int = ENTRY.size) -> list[bytes]:
    """Return the k-th bytes of all entries, for each k."""
    return [entries[place::entry_bytes] for place in range(entry_bytes)]


def pack_planes(planes: Sequence[bytes]) -> bytes:
    """Pack at least one entry by its planes, which are equally long."""
    count, written, mask = len(planes[0]), [], 0
    for place, plane in enumerate(planes):
        if plane != plane[:1] * count:
            mask |= 1 << place
            written.append(plane)
    first = b"".join(plane[:1] for plane in planes)
    data = b"".join([_HEAD.pack(count, mask), first, *written])
    return PLAIN + data if len(data) <= _LITTLE_BYTES else ZLIB + zlib.compress(data, _LEVEL)


def is_planes(packed: bytes) -> bool:
    """Return whether these are planes; else they are entries as they are."""
    return packed.startswith((PLAIN, ZLIB))


def open_planes(packed: bytes, key: str) -> Planes:
    """
    Open packed planes, of which nothing is left to check.

    Raises:
        CorruptRecordsError: `packed` is cut or garbled; names `key`.
    """
    try:
        data = packed[len(PLAIN) :] if packed.startswith(PLAIN) else zlib.decompress(packed[len(ZLIB) :])
        count, mask = _HEAD.unpack_from(data)
    except (zlib.error, struct.error) as error:
        message = f"t4 item {key}: {error}"
        raise CorruptRecordsError(message) from error
    places = _places(mask)
    if mask >> ENTRY.size or len(data) != _HEAD.size + ENTRY.size + len(places) * count:
        message = f"t4 item {key}: {len(packed)} bytes hold no {count} entries"
        raise CorruptRecordsError(message)
    return Planes(count, places, data[_HEAD.size :])


@lru_cache(maxsize=1_024)
def _places(mask: int) -> tuple[int, ...]:
    """Return the planes that are written; a trial's items have few kinds of masks."""
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)


MAX_ENTRIES = 10_000
"""Entries in one item: 360 kB of the 400 that DynamoDB takes, should no two bytes in them be equal."""
FEW_ENTRIES = 16
"""So many take one write unit (1 kB) with the item's other attributes, as they are."""
MAX_BATCH_INDEX = 0xFFFF
"""Everything later in its batch has this index."""
_HEAD_CHARS = TAG_CHARS + 1
_NUMBERS_CHARS = EVENT_ID_CHARS - _HEAD_CHARS
_HYPHENS = tuple(place for place, char in enumerate("pp-wwww-ssss-aa-nnnnnnnn") if char == "-")
_NUMBERS_BYTES = 10
_BEFORE_INDEX, _AFTER_INDEX = (0, 5, 2, 1, 4, 3), (9, 8, 7, 6)
"""Where an entry's bytes are among an identity's: phase, attempt, writer and slice; sequence. Lowest byte first."""


class Entry(NamedTuple):
    """One arrival. `t3_ns` and `position` are 0 where the store reports none."""

    phase: int
    attempt: int
    writer: int
    slice: int
    batch_index: int
    sequence: int
    t4_ns: int
    t3_ns: int = 0
    position: int = 0


class EntryColumns(NamedTuple):
    """The fields of entries that are not in an event's identity; columns of equal length."""

    batch_index: Sequence[int]
    t4_ns: Sequence[int]
    t3_ns: Sequence[int]
    position: Sequence[int]


def pack(entries: Iterable[Entry]) -> bytes:
    """Pack entries: 36 bytes each, or some 3 if they are many and differ little."""
    return pack_rows(
        b"".join(ENTRY.pack(*entry[:4], min(entry.batch_index, MAX_BATCH_INDEX), *entry[5:]) for entry in entries)
    )


def pack_rows(rows: bytes) -> bytes:
    """Pack `ENTRY` structs that stand one after the other."""
    return rows if len(rows) <= FEW_ENTRIES * ENTRY.size else pack_planes(split_planes(rows))


def pack_columns(tag: str, texts: Sequence[str], columns: EntryColumns) -> bytes:
    """
    Pack the entries of one trial a column at a time, in a tenth of the time that `pack` takes, with an equal result.

    Nearly every batch of a stream and of a watch is of one trial; the caller packs any other with `pack`.

    Args:
        tag: of the trial.
        texts: each begins with an identity; more than `FEW_ENTRIES`.
        columns: the other fields.

    Raises:
        ValueError: a text is none of the trial's, or a number is too large for an entry.
    """
    if not {text[:_HEAD_CHARS] for text in texts} <= {f"{tag}/", f"{tag}."}:
        message = f"not all of {tag}"
        raise ValueError(message)
    numbers = _identity_numbers(texts)
    before, sequence = (
        [numbers[place::_NUMBERS_BYTES] for place in places] for places in (_BEFORE_INDEX, _AFTER_INDEX)
    )
    count = len(texts)
    try:
        index = struct.pack(f"<{count}H", *columns.batch_index)
        times = [struct.pack(f"<{count}q", *column) for column in columns[1:]]
    except struct.error as error:
        raise ValueError(str(error)) from error
    wide = (plane for column in times for plane in split_planes(column, 8))
    return pack_planes([*before, *split_planes(index, 2), *sequence, *wide])


def unpack_rows(packed: bytes, key: str) -> bytes:
    """
    Unpack to `ENTRY` structs, one after the other.

    Raises:
        CorruptRecordsError: the bytes are no entries; names `key`.
    """
    if is_planes(packed):
        count, places, data = open_planes(packed, key)
        entries, at = bytearray(data[: ENTRY.size] * count), ENTRY.size
        for place in places:
            entries[place :: ENTRY.size] = data[at : at + count]
            at += count
        return bytes(entries)
    if len(packed) % ENTRY.size:
        message = f"t4 item {key}: {len(packed)} bytes are no whole number of {ENTRY.size}-byte entries"
        raise CorruptRecordsError(message)
    return packed


def encode_fallback(sort_key: str, item: Mapping[str, Any]) -> bytes:
    """Encode an item as a document for the bucket, with its sort key."""
    return json.dumps({"sk": sort_key, **item, "entries": base64.b64encode(item["entries"]).decode()}).encode()


def decode_fallback(key: str, body: bytes) -> dict[str, Any]:
    """
    Decode the item of a fallback document.

    Raises:
        CorruptRecordsError: it is none; names `key`.
    """
    try:
        item: dict[str, Any] = json.loads(body)
        return {**item, "entries": base64.b64decode(item["entries"], validate=True)}
    except (KeyError, TypeError, ValueError) as error:
        message = f"t4 fallback {key}: {type(error).__name__}: {error}"
        raise CorruptRecordsError(message) from error


def _identity_numbers(texts: Sequence[str]) -> bytes:
    """Return the numbers in the identities, ten bytes each. Raises ValueError: they are not written as identities."""
    joined = "".join([text[_HEAD_CHARS:EVENT_ID_CHARS] for text in texts])
    digits = joined.replace("-", "")
    numbers = bytes.fromhex(digits)
    hyphens = "-" * len(texts)
    as_written = all(joined[place::_NUMBERS_CHARS] == hyphens for place in _HYPHENS) and numbers.hex() == digits
    if not as_written or len(numbers) != _NUMBERS_BYTES * len(texts):
        message = "not as identities are written"
        raise ValueError(message)
    return numbers
