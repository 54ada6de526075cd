"""Failed and unknown outcomes of the measured windows, by error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.thresholds import describe_missed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.report.run import RunView, WindowRow


def error_nodes(run: RunView) -> Iterator[doc.Node]:
    """Yield the errors of all measured windows by name, if there are any."""
    refused = [row for row in run.rows if row.window.errors]
    if not refused:
        return
    operations, writes = ("operations" if run.answered else ""), ("writes" if run.triggered else "")
    caption = (
        "Failed and unknown outcomes of the measured windows by error: the store's own code, or what happened to the "
        f"request. Percentiles are of acknowledged {' and '.join(filter(None, (writes, operations))) or 'writes'} only."
    )
    columns = doc.columns("Error", "Events", "Of those sent")
    table = doc.Table("errors", caption, columns, tuple(map(_errors_of, refused)), "reference narrow")
    plain = bool(describe_missed(run.summary)) and len(refused) <= FEW_WINDOWS
    yield doc.Fold(f"Errors by name, window by window ({len(refused)})", (table,), plain=plain)


FEW_WINDOWS = 3
"""Errors of so many windows at most are not folded where a threshold was missed."""


def _errors_of(row: WindowRow) -> doc.Body:
    window = row.window
    of = f" of {digits.count(window.sent)} sent" if window.sent else ""
    counts = f"{digits.count(window.failed)} failed, {digits.count(window.unknown)} unknown{of}"
    rows = (
        doc.Row(
            doc.Cell(name),
            (numbers.number("errors", count), doc.Cell(digits.percent(count / window.sent if window.sent else None))),
            {"error": name},
        )
        for name, count in window.errors.items()
    )
    return doc.Body(tuple(rows), (row.label, doc.badges(row.trial), " ", doc.Span(counts, "note")), doc.of_window(row))
