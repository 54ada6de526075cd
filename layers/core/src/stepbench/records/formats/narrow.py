"""
Columns of integers as narrow as what they hold.

Of ten million events, a column of 8 bytes is 80 MB; times since the event before them, or since the schedule's, fit
into 4 bytes as long as they are below two seconds. Where one does not, the whole column is made wider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ints = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
_KINDS = (np.int8, np.int16, np.int32, np.int64)


class Narrow:
    """
    A column of so many integers, 0 to begin with.

    Pages that nobody has written to take no memory: a column of rare things costs what is rare.
    """

    def __init__(self, size: int, kind: type[np.signedinteger[Any]] = np.int32) -> None:
        self.values: Ints = np.zeros(size, kind)

    def put(self, at: slice | NDArray[np.integer[Any]], values: NDArray[np.integer[Any]]) -> None:
        """Set some of them, in the wider column that they need if there is none yet."""
        self.values = hold(self.values, values)
        self.values[at] = values


def hold(column: Ints, values: NDArray[np.integer[Any]]) -> Ints:
    """Return the column, or its values in a wider one if it cannot hold these."""
    if values.size == 0 or values.dtype == column.dtype:
        return column
    low, high = int(values.min()), int(values.max())
    limits = np.iinfo(column.dtype)
    if limits.min <= low and high <= limits.max:
        return column
    kinds = (kind for kind in _KINDS if np.dtype(kind).itemsize >= column.dtype.itemsize)
    return column.astype(next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


class NarrowTimes:
    """
    A column of times, the largest number of its type = none; to begin with, of 4 bytes.

    Args:
        size: how many; or a column of 4 bytes that is to become one of times in the same memory, from anywhere.
    """

    def __init__(self, size: int | NDArray[np.int32]) -> None:
        self.values: Ints = np.empty(size, np.int32) if isinstance(size, int) else size

    def put(self, at: slice, times_ns: NDArray[np.int64], has: NDArray[np.bool_] | None = None) -> None:
        """Set some of them; `has` says which there are, None = all."""
        every = has is None or bool(has.all())
        known_ns = times_ns if every else times_ns[has]
        limits = np.iinfo(self.values.dtype)
        if known_ns.size and (int(known_ns.min()) < limits.min or int(known_ns.max()) >= limits.max):
            self._widen()
        self.values[at] = times_ns if every or has is None else np.where(has, times_ns, none_of(self.values))

    def _widen(self) -> None:
        if self.values.dtype == np.int64:
            return
        wider = self.values.astype(np.int64)
        wider[self.values == none_of(self.values)] = none_of(wider)
        self.values = wider


def none_of(column: Ints) -> int:
    """Return what stands in a column of times for none."""
    return int(np.iinfo(column.dtype).max)
