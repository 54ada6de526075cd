"""
Many packed entries in little room: byte by byte, and of what is alike in all of them one.

The entries of one delivery share their t4, mostly their t3, phase, slice and attempt; their sequences and places in the
batch count up. So the k-th bytes of all entries are written side by side (a plane), planes of one value are left out,
and if that is not little enough yet, zlib finds the rest. 10,000 entries take some 12 kB instead of 360: a table counts
every kB that is written.

    magic · count u32 · bit k set: plane k is written, u64 · first entry · planes      all but the magic in zlib, or not

Standard library only: receivers write it, and start without numpy.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN, ZLIB = b"T4\0\0\xff\xff", b"T4\1\0\xff\xff"
"""No entry begins so: its slice would be 0xFFFF, and there are no more than `MAX_SLICES`."""
_LITTLE_BYTES = 720
"""With the rest of an item still one write unit."""
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


def split_planes(entries: bytes, entry_bytes: int) -> list[bytes]:
    """The k-th bytes of all entries, for each k."""
    return [entries[place::entry_bytes] for place in range(entry_bytes)]


def pack_planes(planes: Sequence[bytes]) -> bytes:
    """At least one entry by its planes, which are equally long."""
    count, written, mask = len(planes[0]), [], 0
    for place, plane in enumerate(planes):
        if plane != plane[:1] * count:
            mask |= 1 << place
            written.append(plane)
    first = b"".join(plane[:1] for plane in planes)
    data = b"".join([_HEAD.pack(count, mask), first, *written])
    return PLAIN + data if len(data) <= _LITTLE_BYTES else ZLIB + zlib.compress(data, _LEVEL)


def is_planes(packed: bytes) -> bool:
    """Whether these are planes; else they are entries as they are."""
    return packed.startswith((PLAIN, ZLIB))


def open_planes(packed: bytes, entry_bytes: int) -> Planes:
    """
    The planes, of which nothing is left to check.

    Raises:
        ValueError: `packed` is cut or garbled.
    """
    try:
        data = packed[len(PLAIN) :] if packed.startswith(PLAIN) else zlib.decompress(packed[len(ZLIB) :])
        count, mask = _HEAD.unpack_from(data)
    except (zlib.error, struct.error) as error:
        raise ValueError(str(error)) from error
    places = _places(mask)
    if mask >> entry_bytes or len(data) != _HEAD.size + entry_bytes + len(places) * count:
        message = f"{len(packed)} bytes hold no {count} entries"
        raise ValueError(message)
    return Planes(count, places, data[_HEAD.size :])


def unpack_planes(packed: bytes, entry_bytes: int) -> bytes:
    """
    The entries, one after the other.

    Raises:
        ValueError: as `open_planes` does.
    """
    count, places, data = open_planes(packed, entry_bytes)
    entries, at = bytearray(data[:entry_bytes] * count), entry_bytes
    for place in places:
        entries[place::entry_bytes] = data[at : at + count]
        at += count
    return bytes(entries)


@lru_cache(maxsize=1_024)
def _places(mask: int) -> tuple[int, ...]:
    """The planes that are written; a trial's items have few kinds of masks."""
    return tuple(place for place in range(mask.bit_length()) if mask >> place & 1)
