"""Parts of Markdown: text as it is, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.errors import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"})


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]], texts: Collection[str]) -> Iterator[str]:
    """Yield a table's lines; columns of numbers are aligned to the right."""
    yield _line(headings)
    yield _line(["---" if heading in texts else "---:" for heading in headings])
    yield from map(_line, rows)


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, since a line break would end a table's row."""
    return printable(" ".join(text.splitlines())).translate(_SPECIAL)


def code(text: str) -> str:
    """Return text that Markdown shows as code."""
    quoted = printable(text).replace("`", "'")
    return f"`{quoted}`"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
