"""
Numbers as cells of a table, and the headline's table of windows.

A cell has what is written, with unit and interval or why there is none, and the raw values. The headline has a row for
each window of an experiment's trials, and for each trial that has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.judged import judged_over_runs, unit_of
from stepbench.contracts.experiment import HEADLINE_QUANTILES, QUANTILES
from stepbench.report import document as doc
from stepbench.report.run import name_caveat_kind, state_of, trial_labels, window_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import Caveat, RunSummary, TrialSummary
    from stepbench.contracts.thresholds import Judge
    from stepbench.report.run import WindowRow

BEYOND = "> drain limit"
UNITS: Mapping[str, digits.Unit | None] = {
    "ms": None,
    "ratio": digits.TIMES,
    "s": digits.SECONDS_AS_SUCH,
    "per_minute": digits.PER_MINUTE,
    "d": digits.PLAIN,
    "clients": digits.Unit("clients", 1.0),
    "per_s": digits.PER_S,
    "share": digits.PER_CENT,
    "points": digits.POINTS,
    "usd_per_million": digits.USD_PER_MILLION,
    "mib_per_s": digits.MIB_PER_S,
    "mib": digits.Unit("MiB", 1.0),
    "number": digits.PLAIN,
}
"""Units of raw estimates, by the names that scripts read, and how they are shown: None for the fitting unit of time."""


def raw_unit(measure: str) -> str:
    """Return the name of the unit of what an effect or a judge names."""
    return next(name for name, unit in UNITS.items() if unit == unit_of(measure))


def estimate(
    metric: str, value: Estimate | None, unit: str = "ms", *, shown: digits.Shown | None = None, **data: doc.Value
) -> doc.Cell:
    """
    Return a number with its unit and its interval, or why it has none; a dash for None.

    Args:
        metric: what scripts call it.
        value: in `unit`.
        unit: one of `UNITS`.
        shown: how it is written, if not as numbers of that unit are.
        data: further raw values.
    """
    if value is None:
        return doc.Cell(digits.NONE)
    words = shown or digits.shown(value, UNITS[unit])
    unsure = shown is None and bool(words.value and words.note)
    text = _estimate_text(words, unsure=unsure)
    return doc.Cell(text, _estimate_data(metric, value, unit) | data, "unsure" if unsure else "", str(words))


def _estimate_data(metric: str, value: Estimate, unit: str) -> dict[str, doc.Value]:
    ends = {"value": value.value, "low": value.low, "high": value.high, "reason": value.reason or None}
    return {"metric": metric, **ends, "unit": unit}


def _estimate_text(words: digits.Shown, *, unsure: bool) -> doc.Text:
    shown: list[doc.Text] = []
    if words.value:
        shown.append(
            doc.Span((words.value, doc.Span(f"{digits.NBSP}{words.unit}", "unit") if words.unit else ""), "value")
        )
    if words.interval:
        shown.append(doc.Span(words.interval, "interval"))
    if words.note:
        brief = digits.brief(words.note)
        lead = doc.Span("no interval: ", "more") if unsure else ""
        shown.append(doc.Span((lead, brief), "note", title=words.note if brief != words.note else ""))
    return tuple(shown)


def value(metric: str, raw: doc.Value, text: doc.Text, **data: doc.Value) -> doc.Cell:
    """Return a raw value as it is written."""
    return doc.Cell(text, {"metric": metric, "value": raw, **data})


def number(metric: str, raw: int | None, style: str = "") -> doc.Cell:
    """Return a whole number."""
    return doc.Cell(digits.count(raw), {"metric": metric, "value": raw}, style)


def harm(metric: str, raw: int | None, style: str = "") -> doc.Cell:
    """Return a whole number of what should not have happened; in the `style` where it has not."""
    return number(metric, raw, "bad" if raw else style)


def time(metric: str, value_ms: float | None) -> doc.Cell:
    """Return a time without an interval."""
    return value(metric, value_ms, digits.latency(value_ms), unit="ms")


def p_value(p: float | None) -> doc.Cell:
    """Return a test's probability."""
    return doc.Cell(digits.NONE if p is None else digits.p_value(p), {"metric": "p_value", "value": p})


BARE_TRIGGER = "bare trigger p50"
"""Of an invocation without a store (etcd: a put and its watch), before the trials; no lower bound of their latency."""


def _dash(_: TrialSummary) -> doc.Cell:
    return doc.Cell(digits.NONE)


class Field(NamedTuple):
    """A column, and how its cell is made of a window, or of a trial without any."""

    column: doc.Column
    of_window: Callable[[WindowRow], doc.Cell]
    of_trial: Callable[[TrialSummary], doc.Cell] = _dash


def _provider(trial: TrialSummary) -> doc.Cell:
    return doc.Cell(f"{trial.sides} (emulated)" if trial.emulated else trial.sides)


def off_page(field: Field) -> Field:
    """Return the field for Markdown and a terminal alone."""
    outputs = tuple(output for output in field.column.outputs if output != "page")
    return field._replace(column=field.column._replace(outputs=outputs))


PROVIDER = Field(
    doc.words("Provider", outputs=doc.NOT_ON_PAGES),
    lambda row: _provider(row.trial),
    _provider,
)
COUNT = Field(
    doc.more("n"),
    lambda row: number("n", row.window.n),
    lambda _: number("n", 0),
)


def _caveat_links(caveats: Sequence[Caveat]) -> doc.Cell:
    """Return the kinds of caveats, each once, as links to where they are explained."""
    kinds = {caveat.kind: caveat for caveat in reversed(caveats)}
    links = [
        doc.Span(name_caveat_kind(kind), "caveat", f"#caveat-{kind}", f"{kinds[kind].text} {kinds[kind].remedy}")
        for kind in dict.fromkeys(caveat.kind for caveat in caveats)
    ]
    line = ", ".join(dict.fromkeys(doc.plain(link) for link in links))
    return doc.Cell(doc.joined(links, " ") if links else doc.Span("none", "note"), line=line)


CAVEATS = Field(
    doc.words("Caveats", "caveat-cell", outputs=("page", "terminal")),
    lambda row: _caveat_links(row.caveats),
    lambda trial: _caveat_links(trial.caveats),
)


def _reason(trial: TrialSummary) -> doc.Cell:
    """Return why there is nothing: it stands where the first number would."""
    error = trial.failure.error if trial.failure else ""
    return doc.Cell(error or "no measured window", line=error or state_of(trial))


def quantile(name: str, heading: str = "") -> Field:
    """Return a quantile of latency; on a phone those between p50 and p99 are of the whole table."""
    column = doc.Column(heading or name, style="" if name in {"p50", "p99"} else "more")
    return Field(
        column,
        lambda row: estimate(f"latency_ms.{name}", getattr(row.window.latency_ms, name)),
        _reason if name == "p50" else _dash,
    )


def judged_by(judge: Judge) -> Field:
    """Return the measure that the run is judged by, which stands before all others."""

    def cell(row: WindowRow) -> doc.Cell:
        found = judged_over_runs(judge, [(row.trial, row.window)])
        metric = f"latency_ms.{judge.name}" if judge.name in QUANTILES else "judged"
        return estimate(metric, found, raw_unit(judge.statistic), judge=judge.name)

    return Field(doc.Column(judge.title), cell, _reason)


def quantiles() -> tuple[Field, ...]:
    """Return the headline's quantiles."""
    return tuple(map(quantile, HEADLINE_QUANTILES))


def _lost(row: WindowRow) -> doc.Cell:
    """Return the window's lost events; what a filter held back is known of the trial only."""
    accounting, cell = row.trial.accounting, harm("lost", row.lost)
    if len(row.trial.windows) > 1 or not accounting or not accounting.held_back:
        return cell
    return cell._replace(line=f"{cell} ({digits.count(accounting.held_back)} held back)")


def _trials_lost(trial: TrialSummary) -> doc.Cell:
    return doc.Cell(digits.count(trial.accounting.lost if trial.accounting and trial.accounting.awaited else None))


LOST = Field(doc.Column("Lost"), _lost, _trials_lost)


def bare_trigger(trials: Sequence[TrialSummary]) -> tuple[Field, ...]:
    """Return the column of the bare trigger, if it was measured for any of the trials."""
    column = doc.more("Bare trigger, p50", BARE_TRIGGER, ("page", "terminal"))
    found = Field(
        column,
        lambda row: estimate("floor_ms.p50", row.trial.floor_ms.p50 if row.trial.floor_ms else None),
    )
    return (found,) if any(trial.floor_ms for trial in trials) else ()


def trials_of(
    summary: RunSummary, experiment: ExperimentName
) -> Iterator[tuple[TrialSummary, str, tuple[WindowRow, ...]]]:
    """Yield the trials of an experiment, with their labels and windows."""
    rows = window_rows(summary.trials)
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        if trial.experiment == experiment:
            yield trial, label, tuple(row for row in rows if row.trial is trial)


def window_table(
    table: doc.Table,
    summary: RunSummary,
    experiment: ExperimentName,
    fields: Sequence[Field],
    notes: Callable[[WindowRow], Sequence[str]] = lambda _: (),
) -> doc.Table | None:
    """
    Return a table with its columns and rows; None of a run without the experiment.

    Args:
        table: what else there is to it; its first column is that of the rows' heads.
        summary: the run.
        experiment: whose trials.
        fields: the columns behind the first.
        notes: what stands below a window's name on a page, beside where it was measured.
    """
    fields = fields if summary.judge is None else _with_first(judged_by(summary.judge), fields)
    rows: list[doc.Row] = []
    for trial, label, windows in trials_of(summary, experiment):
        data: doc.Data = {"trial": trial.index, "name": trial.name, "store": trial.store}
        for row in windows:
            first = _head(trial, row.label, *(doc.Span(text, "provider more") for text in (trial.sides, *notes(row))))
            own: doc.Data = {"window": row.window.name, "phase": row.window.phase}
            rows.append(doc.Row(first, tuple(field.of_window(row) for field in fields), {**data, **own}))
        if not windows:
            cells = [field.of_trial(trial) for field in fields]
            rows.append(doc.Row(_head(trial, label, doc.Span(trial.sides, "provider")), _spread(cells, fields), data))
    columns = (*table.columns, *(field.column for field in fields))
    return table._replace(columns=columns, bodies=doc.body(rows)) if rows else None


def _with_first(own: Field, fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields with one of them, or a further one, before all other measures."""
    rest = [field for field in fields if field.column.heading != own.column.heading]
    at = [field.column.heading for field in rest].index(COUNT.column.heading) + 1
    return (*rest[:at], own, *rest[at:])


def _head(trial: TrialSummary, label: str, *notes: doc.Text) -> doc.Cell:
    state = state_of(trial)
    return doc.Cell((label, doc.badges(trial), *notes), line=label if state == "complete" else f"{label} ({state})")


def _spread(cells: Sequence[doc.Cell], fields: Sequence[Field]) -> tuple[doc.Cell, ...]:
    """Let the reason take the room of all numbers on a page: from behind the count to before the caveats."""
    reason = next(cell for cell in cells if cell.line)
    names = [field.column.heading for field in fields]
    start, end = names.index(COUNT.column.heading) + 1, names.index(CAVEATS.column.heading)
    first = cells[start]
    wide = doc.Cell(reason.text, style="nothing", line=str(first), span=end - start)
    return (*cells[:start], wide, *cells[start + 1 :])
