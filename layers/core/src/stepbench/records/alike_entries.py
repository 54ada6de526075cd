"""
Entries that differ in their numbers only, packed a column at a time: in a tenth of the time that they take one by one.

What makes them alike is that each has an identity of the same trial. Nearly every batch is so, of a stream and of a
watch; the caller takes whatever is not one by one, and tests hold the two ways equal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.identity import EVENT_ID_CHARS, TAG_CHARS
from stepbench.records.t4_planes import pack_planes, split_planes

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD_CHARS = TAG_CHARS + 1
_NUMBERS_CHARS = EVENT_ID_CHARS - _HEAD_CHARS
_HYPHENS = tuple(place for place, char in enumerate("pp-wwww-ssss-aa-nnnnnnnn") if char == "-")
_NUMBERS_BYTES = 10
_BEFORE_INDEX, _AFTER_INDEX = (0, 5, 2, 1, 4, 3), (9, 8, 7, 6)
"""Where an entry's bytes are among an identity's: phase, attempt, writer and slice; sequence. Lowest byte first."""


class Beside(NamedTuple):
    """What an entry has besides its identity; columns of equal length."""

    batch_index: Sequence[int]
    t4_ns: Sequence[int]
    t3_ns: Sequence[int]
    position: Sequence[int]


def pack_alike(tag: str, texts: Sequence[str], beside: Beside) -> bytes:
    """
    As `records.t4.pack` packs many.

    Args:
        tag: of the trial.
        texts: each begins with an identity; at least one.
        beside: the rest.

    Raises:
        ValueError: a text is none of the trial's, or a number is too large for an entry.
    """
    if not {text[:_HEAD_CHARS] for text in texts} <= {f"{tag}/", f"{tag}."}:
        message = f"not all of {tag}"
        raise ValueError(message)
    numbers = _numbers(texts)
    before, sequence = (
        [numbers[place::_NUMBERS_BYTES] for place in places] for places in (_BEFORE_INDEX, _AFTER_INDEX)
    )
    count = len(texts)
    try:
        index = struct.pack(f"<{count}H", *beside.batch_index)
        times = [struct.pack(f"<{count}q", *column) for column in beside[1:]]
    except struct.error as error:
        raise ValueError(str(error)) from error
    wide = (plane for column in times for plane in split_planes(column, 8))
    return pack_planes([*before, *split_planes(index, 2), *sequence, *wide])


def _numbers(texts: Sequence[str]) -> bytes:
    """The numbers in the identities, ten bytes each. Raises ValueError: not as identities are written."""
    joined = "".join([text[_HEAD_CHARS:EVENT_ID_CHARS] for text in texts])
    digits = joined.replace("-", "")
    numbers = bytes.fromhex(digits)
    hyphens = "-" * len(texts)
    as_written = all(joined[place::_NUMBERS_CHARS] == hyphens for place in _HYPHENS) and numbers.hex() == digits
    if not as_written or len(numbers) != _NUMBERS_BYTES * len(texts):
        message = "not as identities are written"
        raise ValueError(message)
    return numbers
