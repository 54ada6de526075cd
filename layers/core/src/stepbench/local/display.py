"""Progress for people, on stderr: one live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from stepbench.local.progress import Overheads, Snapshot, activity, line, share_done

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    Show = Callable[[Snapshot], None]

REDRAWS_PER_S = 2
"""Drawing costs time on the machine that is being measured."""
EVERY_NS = 15 * 10**9


@contextlib.contextmanager
def progress_display(console: Console, overheads: Overheads) -> Iterator[Show]:
    """What to call with each snapshot."""
    if not console.is_terminal:
        yield PlainLines(console, overheads)
        return
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=REDRAWS_PER_S, transient=True) as bars:
        task: TaskID = bars.add_task("starting", total=1.0)

        def show(snapshot: Snapshot) -> None:
            bars.update(task, completed=share_done(snapshot, overheads), description=line(snapshot, overheads))

        yield show


class PlainLines:
    """A line whenever something else happens, and every 15 s while nothing does."""

    def __init__(self, console: Console, overheads: Overheads) -> None:
        self._console = console
        self._overheads = overheads
        self._last: tuple[int | None, str] | None = None
        self._at_ns = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Print it, or not."""
        what = (snapshot.trial, activity(snapshot))
        if what == self._last and snapshot.now_ns - self._at_ns < EVERY_NS:
            return
        self._last, self._at_ns = what, snapshot.now_ns
        self._console.print(line(snapshot, self._overheads), markup=False, highlight=False, soft_wrap=True)
