"""
A run on a terminal: its progress while it goes on, and its headline at the end.

Progress is live lines that fit into the terminal, elsewhere a line now and then. The headline is for any width: no
number and no name is cut, and what is left out is named.
"""

from __future__ import annotations

import contextlib
import textwrap
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from stepbench import digits
from stepbench.contracts.experiment import HEADLINE_QUANTILES
from stepbench.experiments.report.headline import describe_choices, describe_functions, headline_tables
from stepbench.planning.wall_time import Overheads
from stepbench.progress import Snapshot, activity, fitted_lines, line, share_done
from stepbench.report.costs import cost_sentences
from stepbench.report.numbers import BARE_TRIGGER
from stepbench.report.thresholds import threshold_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepbench.contracts.result import RunSummary
    from stepbench.report.document import Row as TableRow
    from stepbench.report.document import Table

    Row = dict[str, str]
    from collections.abc import Callable

    from rich.console import Console

    Show = Callable[[Snapshot], None]

_NAMES, _CAVEATS = ("trial", "provider"), "caveats"
_LEFT_OUT_FIRST = (BARE_TRIGGER, "p95", "p90")
_QUANTILES = frozenset({*HEADLINE_QUANTILES, BARE_TRIGGER})
_INDENT = 2
_GAP = "   "


def headline(summary: RunSummary, width: int) -> Group:
    """
    Return which thresholds were missed, a line each, a table for each experiment with one row for each window, costs.

    Where the terminal is too narrow for all of a row, its name stands on a line of its own. Then p90, p95 and the
    bare trigger are left out until the rest fits, and the last line says so; on a still narrower one each number has
    its name.
    """
    parts: list[RenderableType] = [Text(f"{summary.run_id}: {summary.status}", style="italic")]
    parts += [Padding(Text(line), (0, 0, 0, _INDENT), expand=False) for line in threshold_lines(summary)]
    parts += [Padding(Text(line), (0, 0, 0, _INDENT), expand=False) for line in describe_choices(summary)]
    everything, missing = "", set[str]()
    for table in headline_tables(summary):
        headings, rows = table.headings("terminal"), [_row(table, row) for row in table.rows]
        columns = _columns(headings, rows, width)
        parts += ["", *_table(headings, columns, rows, width)]
        missing |= set(_LEFT_OUT_FIRST) & set(headings) - set(columns or headings)
        everything += " ".join(cell for row in rows for cell in row.values())
    parts += [Padding(Text(line), (0, 0, 0, _INDENT), expand=False) for line in describe_functions(summary)]
    if digits.UNSURE in everything:
        parts.append(_note(f"{digits.UNSURE} has no interval: the caveats say why"))
    if missing:
        named = ", ".join(heading for heading in reversed(_LEFT_OUT_FIRST) if heading in missing)
        parts.append(_note(f"left out at {width} columns: {named}; the report has them, and so has a wider terminal"))
    parts += map(_note, cost_sentences(summary))
    return Group(*parts)


def _row(table: Table, row: TableRow) -> Row:
    """Return a row's cells; what is no number is a dash, except where a trial without events has its reason."""
    found = dict(zip(table.headings("terminal"), map(str, table.cells(row, "terminal")), strict=True))
    return {heading: _cell(cell, heading, found["n"]) for heading, cell in found.items()}


def _cell(cell: str, heading: str, n: str) -> str:
    if heading not in _QUANTILES or n == "0":
        return cell
    return cell if cell[:1].isdigit() or cell[:1] in {digits.MINUS, digits.UNSURE, ">"} else digits.NONE


def _columns(headings: Sequence[str], rows: Sequence[Row], width: int) -> tuple[str, ...]:
    """Choose the columns: as many as fit, with names if they fit, too; none where not even the needed ones do."""
    numbers = tuple(heading for heading in headings if heading not in {*_NAMES, _CAVEATS})
    choices = [(*_NAMES, *numbers), numbers]
    for dropped in _LEFT_OUT_FIRST:
        choices.append(tuple(heading for heading in choices[-1] if heading != dropped))
    return next((choice for choice in choices if sum(_widths(choice, rows)) <= width), ())


def _widths(columns: Sequence[str], rows: Sequence[Row]) -> list[int]:
    """Return how wide each column is, with what stands before it."""
    widths = [max(cell_len(heading), *(cell_len(row[heading]) for row in rows)) for heading in columns]
    return [width + (len(_GAP) if place else _INDENT) for place, width in enumerate(widths)]


def _table(
    headings: Sequence[str], columns: Sequence[str], rows: Sequence[Row], width: int
) -> Iterator[RenderableType]:
    widths = _widths(columns, rows)
    if columns:
        yield Text(_line(columns, columns, widths), style="bold")
        yield Text("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * sum(widths))
    for row in rows:
        if _NAMES[0] not in columns:
            yield Text(f"{row['trial']} \N{MIDDLE DOT} {row['provider']}", style="bold", overflow="fold")
        if columns:
            yield Text(_line([row[heading] for heading in columns], columns, widths))
        else:
            yield from (
                Padding(Text(line), (0, 0, 0, _INDENT), expand=False) for line in _named_numbers(headings, row, width)
            )
        if row[_CAVEATS]:
            yield Padding(Text(row[_CAVEATS], style="yellow"), (0, 0, 0, 2 * _INDENT), expand=False)


def _line(cells: Sequence[str], columns: Sequence[str], widths: Sequence[int]) -> str:
    """Align the cells, names to the left and numbers to the right."""
    parts = []
    for place, (cell, heading, width) in enumerate(zip(cells, columns, widths, strict=True)):
        before = len(_GAP) if place else _INDENT
        room = " " * (width - before - cell_len(cell))
        parts.append(" " * before + (cell + room if heading in _NAMES else room + cell))
    return "".join(parts).rstrip()


def _named_numbers(headings: Sequence[str], row: Row, width: int) -> list[str]:
    """Return all numbers, each behind its name, on as many lines as they need; none is broken in two."""
    shown = [heading for heading in headings if heading not in {*_NAMES, _CAVEATS}]
    pairs = (f"{heading} {row[heading]}".replace(" ", digits.NBSP) for heading in shown)
    lines = textwrap.wrap(_GAP.join(pairs), max(1, width - _INDENT), break_long_words=False, break_on_hyphens=False)
    return [line.replace(digits.NBSP, " ") for line in lines]


def _note(text: str) -> Text:
    return Text(text, style="dim italic")


REDRAWS_PER_S = 2
"""Drawing costs time on the machine that is being measured."""
EVERY_NS = 15 * 10**9
_BAR_WIDTH, _ELAPSED_WIDTH = 20, 7


@contextlib.contextmanager
def progress_display(console: Console, overheads: Overheads) -> Iterator[Show]:
    """Yield the function to call with each snapshot."""
    if not console.is_terminal:
        yield PlainLines(console, overheads)
        return
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    bar_width = min(_BAR_WIDTH, console.width // 8)
    bars = Progress(BarColumn(bar_width=bar_width), text, TimeElapsedColumn(), console=console, auto_refresh=False)
    task: TaskID = bars.add_task("starting", total=1.0)
    with Live(bars, console=console, refresh_per_second=REDRAWS_PER_S, transient=True) as live:

        def show(snapshot: Snapshot) -> None:
            room = console.width - bar_width - _ELAPSED_WIDTH - 2
            first, *others = fitted_lines(snapshot, overheads, room, console.width)
            bars.update(task, completed=share_done(snapshot, overheads), description=first)
            live.update(Group(bars, *map(Text, others)))

        yield show


class PlainLines:
    """The display prints a line whenever something else happens, and every 15 s while nothing does."""

    def __init__(self, console: Console, overheads: Overheads) -> None:
        self._console = console
        self._overheads = overheads
        self._last: tuple[int | None, str] | None = None
        self._at_ns = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Print the snapshot, if it is time for a line."""
        what = (snapshot.trial, activity(snapshot))
        if what == self._last and snapshot.now_ns - self._at_ns < EVERY_NS:
            return
        self._last, self._at_ns = what, snapshot.now_ns
        self._console.print(line(snapshot, self._overheads), markup=False, highlight=False, soft_wrap=True)
