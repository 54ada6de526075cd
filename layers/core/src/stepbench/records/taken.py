"""Rows on their way from a recorder to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.records.columns import empty_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.records.columns import Rows


class Taken:
    """
    Rows that a recorder has given away, and that nobody has put together yet.

    To give them away takes no time on the loop that measures; to sort 200,000 and copy them into columns takes a tenth
    of a second, by which every answer that comes meanwhile would be late. `rows` is for a thread on the side.
    """

    def __init__(self, size: int, build: Callable[[], Rows]) -> None:
        """`build` is called once, by the first `rows`, and is to hold all that it needs."""
        self.size = size
        self._build: Callable[[], Rows] | None = build
        self._rows = empty_rows()

    def rows(self) -> Rows:
        """The rows; of several callers at once, only one may be the first."""
        if self._build is not None:
            self._rows, self._build = self._build(), None
        return self._rows
