"""The figures and sentences on triggers' share of applications' time (Fig. 2 of the TriggerPerf paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.chart_sizes import SHARE_ROW_PX
from stepbench.report.figures import Drawing
from stepbench.report.labels import columns, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import TriggerShare
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary
    from stepbench.report.labels import Columns

ROWS_PER_FIGURE = 16
_COLUMNS = ("row", "caption", "share", "low", "high", "words", "trigger", "compute")


@dataclass(frozen=True)
class ShareRow:
    """It sets one store's latency behind an application's triggers; `emulated` if that is an emulator's."""

    label: str
    share: TriggerShare
    emulated: bool


@dataclass(frozen=True)
class ShareFigure:
    """
    It holds up to `ROWS_PER_FIGURE` bars.

    `labels` are their rows in order, `description` is for those who cannot see, `top` is the axis's end.
    """

    bars: Columns
    labels: tuple[str, ...]
    description: str
    top: float


def share_rows(shares: Sequence[TriggerShare], trials: Sequence[TrialSummary]) -> tuple[ShareRow, ...]:
    """Return the rows in the order of the plan. A chain is emulated as soon as one of its stores is."""
    emulated = {trial.name for trial in trials if trial.emulated}
    labels = (f"{share.application}, {share.trial}" if share.trial else share.application for share in shares)
    return tuple(
        ShareRow(label, share, not emulated.isdisjoint(share.trials))
        for label, share in zip(labels, shares, strict=True)
    )


def share_figures(rows: Sequence[ShareRow]) -> tuple[ShareFigure, ...]:
    """Draw bars for the rows that have a share."""
    drawn = [row for row in rows if row.share.share.value is not None]
    parts = [drawn[start : start + ROWS_PER_FIGURE] for start in range(0, len(drawn), ROWS_PER_FIGURE)]
    return tuple(_figure(part) for part in parts)


def format_share(share: Estimate) -> str:
    """Format a share as `25 % (21 % to 30 %)`, or say why there is none, or no interval."""
    if share.value is None:
        return f"no value ({share.reason})"
    if share.low is None or share.high is None:
        return f"{_percent(share.value)} (no interval: {digits.brief(share.reason or '')})"
    return f"{_percent(share.value)} ({_percent(share.low)} to {_percent(share.high)})"


def _figure(rows: Sequence[ShareRow]) -> ShareFigure:
    bars = [
        (
            row.label,
            f"{row.label} (emulated)" if row.emulated else row.label,
            row.share.share.value,
            row.share.share.low,
            row.share.share.high,
            format_share(row.share.share),
            digits.latency(row.share.trigger_ms.value or 0),
            digits.latency(row.share.compute_ms),
        )
        for row in rows
    ]
    description = "; ".join(f"{row.label}: {format_share(row.share.share)}" for row in rows)
    top = min(1.0, 1.1 * max(row.share.share.high or row.share.share.value or 0 for row in rows))
    return ShareFigure(columns(_COLUMNS, bars), tuple(row.label for row in rows), description, short(top))


def _percent(share: float) -> str:
    """Format per cent with two digits, or three decimals."""
    percent = 100 * share
    decimals = 0 if percent >= 10 else 1 if percent >= 1 else 2 if percent >= 0.1 else 3  # noqa: PLR2004
    return f"{percent:.{decimals}f} %"


def share_sentences(rows: Sequence[ShareRow]) -> doc.Sentences:
    """Return the answer for each application."""
    said = (
        doc.Sentence((*_label(row, "strong"), f" Its triggers take {format_share(row.share.share)} of its time."))
        for row in rows
    )
    return doc.Sentences(tuple(said), "The other applications")


def shares_section(rows: Sequence[ShareRow]) -> doc.Section | None:
    """Return the section on triggers' share; None of a run without applications."""
    if not rows:
        return None
    caption = "The applications, with durations from the sources that the plan names."
    share, source = doc.Column("Share", style="wide"), doc.words("Source", "wide more")
    columns = doc.columns("Application", share, doc.more("Triggers"), "Trigger latency", "Functions", source)
    table = doc.Table("share-table", caption, columns, doc.body(map(_cells, rows)), phone=True)
    figures = map(_drawn, range(len(rows)), share_figures(rows))
    title = "Which share of an application's time is the trigger's?"
    return doc.Section("shares", title, (*figures, doc.Fold("The applications in a table", (table,))), link="Shares")


def _label(row: ShareRow, style: str = "") -> tuple[doc.Text, ...]:
    return (
        doc.Span(row.label, style) if style else row.label,
        " " if row.emulated else "",
        doc.EMULATED if row.emulated else "",
    )


def _cells(row: ShareRow) -> doc.Row:
    share = row.share
    cells = (
        numbers.value("share", share.share.value, format_share(share.share)),
        numbers.number("triggers", share.triggers),
        numbers.estimate("trigger_ms", share.trigger_ms),
        numbers.time("compute_ms", share.compute_ms),
        doc.Cell(share.source),
    )
    return doc.Row(doc.Cell(_label(row)), cells, {"application": share.application, "trial-name": share.trial})


def _drawn(place: int, figure: ShareFigure) -> doc.Figure:
    params = {"labels": figure.labels, "top": figure.top}
    drawing = Drawing(f"shares-{place}", "shares", {"shares": figure.bars}, params, SHARE_ROW_PX * len(figure.labels))
    caption = (
        "Trigger latency over execution time, that is over trigger latency and the functions' own durations, with "
        f"every trigger at its median in its trial's first measured window; the thick line is the {doc.NINETY_FIVE} "
        "interval that the medians' own imply."
    )
    return doc.Figure(
        (doc.Chart(drawing, f"Shares of trigger latency in execution time. {figure.description}"),), caption
    )
