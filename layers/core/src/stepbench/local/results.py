"""A run's results on this machine: fetched, read, shown."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from pydantic import ValidationError
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from stepbench.contracts.problem import Problem
from stepbench.contracts.result import RunSummary
from stepbench.errors import CorruptRecordsError, PlanError
from stepbench.records import layout
from stepbench.report import digits
from stepbench.report.headline import HEADINGS, headline_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench.records.run_store import RunStore

SUMMARY, REPORT = "summary.json", "report.html"
_DROPPED_FIRST = ("caveats", "provider", "p99", "floor p50", "p95", "p90")
_EMULATED = "(emulated)"
_WRAPPING, _CAVEATS_WIDTH = "caveats", 30
_QUANTILES = frozenset({"p50", "p90", "p95", "p99", "floor p50"})
_NUMBERS = frozenset({"n", "p50", "p90", "p95", "p99", "lost", "floor p50"})


def require_writable(out: Path) -> None:
    """
    Make the folder for results, and see that something can be written there: before a run, not after it.

    Raises:
        PlanError: nothing can (bad input).
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        message = f"cannot hold results: {error.strerror}"
        remedy = "Name a folder that you may write to."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=message, remedy=remedy)]) from error


def fetch(runs: RunStore, run_id: str, out: Path) -> Path:
    """
    Copy everything of a run from the bucket to `out/<run_id>/`.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
        CorruptRecordsError: a key points outside of the run's folder.
    """
    folder = (out / run_id).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    prefix = layout.run_key(run_id, "")
    for key in runs.keys(prefix):
        target = (folder / key.removeprefix(prefix)).resolve()
        if not target.is_relative_to(folder):
            message = f"{key} is no name for a file of run {run_id}"
            raise CorruptRecordsError(message)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(runs.get_bytes(key))
    return folder


def read_summary(folder: Path) -> RunSummary | None:
    """
    The run's summary, or None if there is none: the run ended before anything could be rendered.

    Raises:
        CorruptRecordsError: the file is no summary of this version.
    """
    path = folder / SUMMARY
    if not path.exists():
        return None
    try:
        return RunSummary.model_validate_json(path.read_bytes())
    except ValidationError as error:
        message = (
            f"{path} is no summary that this version reads: {error.error_count()} problems, {error.errors()[0]['msg']}"
        )
        raise CorruptRecordsError(message) from error


def headline(summary: RunSummary, width: int) -> Table:
    """
    The numbers that matter, one row a window.

    A number is never cut off: where the terminal is narrow, whole columns are left out, the least needed first. What is
    emulated says so without its provider, too. A reason for there being no number stands among the caveats below.
    """
    rows = [
        {heading: _cell(cell, heading, row.n) for heading, cell in zip(HEADINGS, row.cells(), strict=True)}
        for row in headline_rows(summary)
    ]
    kept = list(HEADINGS)
    for heading in _DROPPED_FIRST:
        if _needed(kept, rows) > width:
            kept.remove(heading)
            if heading == "provider":
                rows = [{**row, "trial": _with_mark(row)} for row in rows]
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=f"{summary.run_id}: {summary.status}", title_justify="left"
    )
    for heading in kept:
        wraps = heading == _WRAPPING
        table.add_column(
            heading, justify="right" if heading in _NUMBERS else "left", no_wrap=not wraps, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(row[heading]) for heading in kept))
    return table


def _with_mark(row: dict[str, str]) -> str:
    emulated = _EMULATED in row["provider"] and _EMULATED not in row["trial"]
    return f"{row['trial']} {_EMULATED}" if emulated else row["trial"]


def _needed(headings: list[str], rows: list[dict[str, str]]) -> int:
    """Columns of a terminal that the table takes, with three between two columns."""
    widths = [
        max(cell_len(heading), *(_CAVEATS_WIDTH if heading == _WRAPPING else cell_len(row[heading]) for row in rows))
        for heading in headings
        if rows
    ]
    return sum(widths) + 3 * len(headings)


def _cell(cell: str, heading: str, n: str) -> str:
    """A trial without events says there why; otherwise what is no number is a dash."""
    if heading not in _QUANTILES or n == "0":
        return cell
    is_number = digits.brief(cell) == cell and (cell[:1].isdigit() or cell[:1] in {digits.MINUS, ">"})
    return cell if is_number else digits.NONE


def remedies(summary: RunSummary) -> Iterator[str]:
    """Every caveat with its remedy, and every failure with its cause."""
    for trial in summary.trials:
        if trial.failure:
            yield f"{trial.name}: {trial.failure.error}: {trial.failure.cause}"
        for caveat in trial.caveats:
            yield f"{trial.name}: {caveat.text} {caveat.remedy}".rstrip()
