"""Progress for people, on stderr: on a terminal live lines that fit into it, elsewhere a line now and then."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from stepbench.planning.wall_time import Overheads
from stepbench.progress import Snapshot, activity, fitted_lines, line, share_done

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    Show = Callable[[Snapshot], None]

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
