"""What only operations have beside a write's row: retries, and what making a connection took. Kept by sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.drivers.protocol import Connecting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.drivers.protocol import Operated

_AT_ONCE = 1_000


def integers(column: NDArray[np.int64]) -> Iterator[int]:
    """
    A column as Python's integers.

    `tolist` would keep the interpreter for milliseconds; other threads get their turn between steps of this.
    """
    for at in range(0, column.size, _AT_ONCE):
        yield from column[at : at + _AT_ONCE].tolist()


class Notes:
    """Of most operations there is nothing to note, so that this holds only what there is."""

    def __init__(self) -> None:
        self._retries: dict[int, int] = {}
        self._connecting: dict[int, Connecting] = {}

    def add(self, sequence: int, operated: Operated) -> None:
        """Note what an operation has."""
        if operated.retries:
            self._retries[sequence] = operated.retries
        if operated.connecting is not None:
            self._connecting[sequence] = operated.connecting

    def take(self, sequence: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """
        Columns of these operations, as `Rows.extras` has them; they are forgotten here.

        On any thread; others may be noted meanwhile.
        """
        columns: dict[str, NDArray[np.int64]] = {}
        if self._retries:
            retries = (self._retries.pop(each, 0) for each in integers(sequence))
            columns["retries"] = np.fromiter(retries, np.int64, sequence.size)
        if self._connecting:
            none = Connecting(0, 0, 0, 0)
            parts = (part for each in integers(sequence) for part in self._connecting.pop(each, none))
            table = np.fromiter(parts, np.int64, sequence.size * len(none)).reshape(-1, len(none))
            columns.update(zip(Connecting._fields, table.T.copy(), strict=True))
        return {name: column for name, column in columns.items() if column.any()}
