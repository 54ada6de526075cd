"""The plan's thresholds in words, and as rows of the page's table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measures import Estimate
from stepbench.contracts.thresholds import DEFAULTS
from stepbench.report import document as doc
from stepbench.report.run import trial_labels, window_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.contracts.thresholds import ThresholdResult
    from stepbench.report.run import WindowRow

_MISSED, _UNDECIDED = "threshold missed", "threshold not decided"
_MOST_NAMED = 3
"""A line of a terminal has room for no more."""
MAX_OPEN = 12
"""More rows of thresholds that were not kept are folded: the first are the worst."""
STATES = ("failed", "undecidable", "passed")
"""As rows are ordered."""


@dataclass(frozen=True)
class ThresholdRow:
    """It shows a threshold in one window; `takes` says what an undecidable one would take to be decided."""

    result: ThresholdResult
    label: str
    value: str
    takes: str
    trial: TrialSummary | None = None

    @property
    def finding(self) -> str:
        """Return `19.2 ms [18.1, 21.0] in etcd (needs a run about 4 times longer)`."""
        where = f" in {self.label}" if self.result.window else ""
        takes = f" ({self.takes})" if self.takes and self.takes != self.value else ""
        return f"{self.value}{where}{takes}"

    def __str__(self) -> str:
        """Put the threshold before it."""
        return f"{self.result.threshold}: {self.finding}"


def threshold_rows(summary: RunSummary) -> tuple[ThresholdRow, ...]:
    """Return a row for each result: missed ones first, passed ones last."""
    windows: dict[tuple[int | None, str, str], WindowRow] = {
        (row.trial.index, row.window.phase, row.window.name): row for row in window_rows(summary.trials)
    }
    found = [_row(result, windows.get((result.trial, result.phase, result.window))) for result in summary.thresholds]
    return tuple(sorted(found, key=lambda row: STATES.index(row.result.state)))


def _row(result: ThresholdResult, window: WindowRow | None) -> ThresholdRow:
    label, trial = (window.label, window.trial) if window else (result.window, None)
    return ThresholdRow(result, label, _format_value(result), _format_takes(result), trial)


def describe_missed(summary: RunSummary) -> str:
    """Describe the windows that missed a threshold, the worst of each first; empty where none did."""
    return _describe(_MISSED, summary, "failed")


def describe_undecided(summary: RunSummary) -> str:
    """Describe the windows that were too short for a threshold to be decided, and what it would take."""
    return _describe(_UNDECIDED, summary, "undecidable")


def threshold_lines(summary: RunSummary) -> tuple[str, ...]:
    """Return a line for each threshold that windows missed, then for each that they were too short for."""
    missed = (f"{_MISSED}: {text}" for text in _by_threshold(summary, "failed"))
    return (*missed, *(f"{_UNDECIDED}: {text}" for text in _by_threshold(summary, "undecidable")))


def describe_kept(rows: Sequence[ThresholdRow], *, all_kept: bool) -> str:
    """Describe the thresholds that windows kept to, each with the one that came closest to its limit."""
    closest: dict[str, ThresholdRow] = {}
    for row in rows:
        closest.setdefault(row.result.threshold, row)
    parts = [f"{text} (closest: {row.value} in {row.label})" for text, row in closest.items()]
    return f"{'The run kept to all of its thresholds' if all_kept else 'Kept'}: {'; '.join(parts)}."


def describe_all_kept(summary: RunSummary) -> str:
    """Describe the thresholds of a run that kept to all of them; empty where its plan has none of its own."""
    rows = threshold_rows(summary)
    own = [row for row in rows if row.result.threshold not in DEFAULTS]
    whole = summary.status == "succeeded" and not any(trial.incomplete for trial in summary.trials)
    kept = whole and bool(own) and all(row.result.state == "passed" for row in rows)
    return describe_kept(own, all_kept=True) if kept else ""


def _describe(title: str, summary: RunSummary, state: str) -> str:
    """Name of each threshold the windows in a state: `TITLE: p99 < 2 ms: 3 ms in a, 4 ms in b; lost == 0: 3 in a`."""
    named = _by_threshold(summary, state)
    return f"{title}: {'; '.join(named)}" if named else ""


def _by_threshold(summary: RunSummary, state: str) -> list[str]:
    rows = [row for row in threshold_rows(summary) if row.result.state == state]
    by_text = [list(group) for _, group in groupby(rows, key=lambda row: row.result.threshold)]
    named = [f"{group[0].result.threshold}: {_join(group)}" for group in by_text[:_MOST_NAMED]]
    rest = len(by_text) - _MOST_NAMED
    return [*named, f"and {rest} more"] if rest > 0 else named


def _join(rows: Sequence[ThresholdRow]) -> str:
    text = ", ".join(row.finding for row in rows[:_MOST_NAMED])
    rest = len(rows) - _MOST_NAMED
    return f"{text} and {digits.counted(rest, 'more window')}" if rest > 0 else text


def _format_value(result: ThresholdResult) -> str:
    if result.value is None:
        return result.reason or digits.NONE
    match result.unit:
        case "ms":
            end = "" if result.state == "undecidable" else _format_end(result)
            reason = result.reason or end or None
            return f"{digits.shown(Estimate(value=result.value, low=result.low, high=result.high, reason=reason))}{end}"
        case "share":
            return digits.percent(result.value)
        case "events":
            return digits.count(round(result.value))
        case "per_s":
            return f"{digits.rate(result.value)}/s"


def _format_end(result: ThresholdResult) -> str:
    """Return what a quantile is at least or at most, where no more of its interval is known."""
    if result.low is not None and result.high is not None:
        return ""
    ends = (("at least", result.low), ("at most", result.high))
    return "".join(f", {word} {digits.latency(end)}" for word, end in ends if end is not None)


def _format_takes(result: ThresholdResult) -> str:
    """Return what an undecidable result would take, or why that is not known."""
    if result.state != "undecidable":
        return ""
    if result.times_longer and result.times_longer <= digits.MOST_TIMES_LONGER:
        return f"needs a run {digits.longer(result.times_longer)}"
    return digits.takes(str(result.reason))


def thresholds_section(summary: RunSummary, *, troubled: bool) -> doc.Section | None:
    """Return the section on thresholds, the worst first; `troubled`: some trial did not complete."""
    rows = threshold_rows(summary)
    kept = [row for row in rows if row.result.state == "passed"]
    missed = [row for row in rows if row.result.state != "passed"]
    first, others = missed[:MAX_OPEN], missed[MAX_OPEN:]
    found: list[doc.Node] = []
    if first:
        found.append(_table("threshold-table", first, (f"Thresholds {_OPEN} ", doc.Span(_RULE, "more"))))
    found += [doc.Sentence((doc.Span(label, "strong"), f" {text}"), name="ended") for label, text in _ended(summary)]
    if others:
        more = f"The others that were missed or are undecidable ({len(others)})"
        found.append(doc.Fold(more, (_table("threshold-rest", others, f"The others {_OPEN}"),)))
    if kept:
        caption = "Thresholds that were kept; of each the window that came closest to it first."
        words = describe_kept(kept, all_kept=not missed and not troubled)
        found.append(doc.Fold(words, (_table("kept-table", kept, caption),), style=""))
    title = "Did the run keep to its thresholds?"
    return doc.Section("thresholds", title, tuple(found), link="Thresholds") if found else None


def _ended(summary: RunSummary) -> list[tuple[str, str]]:
    """Return which trials were ended since they could not keep to a threshold any more, and when and why."""
    labelled = zip(trial_labels(summary.trials), summary.trials, strict=True)
    return [(label, each.text) for label, trial in labelled for each in trial.stopped if each.threshold]


_OPEN = "that were missed, or that this run is too short to decide."
_RULE = (
    "One passes where all of the 95 % interval keeps to it, and fails where none of it does. Counts, rates and maxima "
    "are what they are in this run, and have no interval."
)


def _table(name: str, rows: Sequence[ThresholdRow], caption: doc.Text) -> doc.Table:
    columns = doc.columns("Threshold", doc.words("Window"), doc.words("State"), "Measured")
    return doc.Table(name, caption, columns, doc.body(map(_cells, rows)), phone=len(rows) > doc.PHONE_ROWS)


def _cells(row: ThresholdRow) -> doc.Row:
    result = row.result
    window = {"trial": result.trial, "phase": result.phase, "window": result.window} if result.window else {}
    note = doc.Span(row.takes, "note", title=result.reason or "") if row.takes and row.takes != row.value else ""
    raw = {"metric": "value", "value": result.value, "low": result.low, "high": result.high, "unit": result.unit}
    cells = (
        doc.Cell((row.label or digits.NONE, doc.badges(row.trial) if row.trial else "")),
        doc.Cell(result.state, style=f"threshold-state {result.state}"),
        doc.Cell((row.value, note), raw),
    )
    return doc.Row(doc.Cell(result.threshold), cells, {"threshold": result.threshold, "state": result.state, **window})
