"""Data sets as columns: a third of the bytes of rows, and what `page.js` turns back into rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = float | int | str | None
Row = tuple[Value, ...]
Columns = dict[str, list[Value]]


def columns(names: Sequence[str], rows: Sequence[Row]) -> Columns:
    """Rows of so many values each, turned round."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def short(value: float) -> float:
    """Six significant digits: finer than a figure can show, a third of the bytes."""
    return float(f"{value:.6g}")
