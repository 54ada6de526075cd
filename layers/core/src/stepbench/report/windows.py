"""The headline's table: a row for each window of an experiment's trials, and for each trial that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.measure import HEADLINE_QUANTILES
from stepbench.report.document import (
    EVERYWHERE,
    Cell,
    Column,
    Row,
    Span,
    Table,
    badges,
    body,
    caveat_links,
    estimate,
    harm,
    number,
)
from stepbench.report.labels import trial_labels, window_rows
from stepbench.report.words import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.measure import ExperimentName
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.document import Data, Text
    from stepbench.report.labels import WindowRow

BARE_TRIGGER = "bare trigger p50"
"""Of an invocation without a store (etcd: a put and its watch), before the trials; no lower bound of their latency."""


def _dash(_: TrialSummary) -> Cell:
    return Cell(digits.NONE)


class Field(NamedTuple):
    """A column, and how its cell is made of a window, or of a trial without any."""

    column: Column
    of_window: Callable[[WindowRow], Cell]
    of_trial: Callable[[TrialSummary], Cell] = _dash


def _provider(trial: TrialSummary) -> Cell:
    return Cell(f"{trial.sides} (emulated)" if trial.emulated else trial.sides)


def off_page(field: Field) -> Field:
    """Return the field for Markdown and a terminal alone."""
    outputs = tuple(output for output in field.column.outputs if output != "page")
    return field._replace(column=field.column._replace(outputs=outputs))


PROVIDER = Field(
    Column("Provider", number=False, short="provider", outputs=("markdown", "terminal")),
    lambda row: _provider(row.trial),
    _provider,
)
COUNT = Field(
    Column("n", style="more", outputs=EVERYWHERE), lambda row: number("n", row.window.n), lambda _: number("n", 0)
)
CAVEATS = Field(
    Column("Caveats", number=False, style="caveat-cell", short="caveats", outputs=("page", "terminal")),
    lambda row: caveat_links(row.caveats),
    lambda trial: caveat_links(trial.caveats),
)


def _reason(trial: TrialSummary) -> Cell:
    """Return why there is nothing: it stands where the first number would."""
    error = trial.failure.error if trial.failure else ""
    return Cell(error or "no measured window", line=error or state_of(trial))


def quantile(name: str, heading: str = "") -> Field:
    """Return a quantile of latency; on a phone those between p50 and p99 are of the whole table."""
    column = Column(heading or name, style="" if name in {"p50", "p99"} else "more", outputs=EVERYWHERE)
    return Field(
        column,
        lambda row: estimate(f"latency_ms.{name}", getattr(row.window.latency_ms, name)),
        _reason if name == "p50" else _dash,
    )


def quantiles() -> tuple[Field, ...]:
    """Return the headline's quantiles."""
    return tuple(map(quantile, HEADLINE_QUANTILES))


def _lost(row: WindowRow) -> Cell:
    """Return the window's lost events; what a filter held back is known of the trial only."""
    accounting, cell = row.trial.accounting, harm("lost", row.lost)
    if len(row.trial.windows) > 1 or not accounting or not accounting.held_back:
        return cell
    return cell._replace(line=f"{cell} ({digits.count(accounting.held_back)} held back)")


def _trials_lost(trial: TrialSummary) -> Cell:
    return Cell(digits.count(trial.accounting.lost if trial.accounting and trial.accounting.awaited else None))


LOST = Field(Column("Lost", short="lost", outputs=EVERYWHERE), _lost, _trials_lost)


def bare_trigger(trials: Sequence[TrialSummary]) -> tuple[Field, ...]:
    """Return the column of the bare trigger, if it was measured for any of the trials."""
    column = Column("Bare trigger, p50", style="more", short=BARE_TRIGGER, outputs=("page", "terminal"))
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
    table: Table,
    summary: RunSummary,
    experiment: ExperimentName,
    fields: Sequence[Field],
    notes: Callable[[WindowRow], Sequence[str]] = lambda _: (),
) -> Table | None:
    """
    Return a table with its columns and rows; None of a run without the experiment.

    Args:
        table: what else there is to it; its first column is that of the rows' heads.
        summary: the run.
        experiment: whose trials.
        fields: the columns behind the first.
        notes: what stands below a window's name on a page, beside where it was measured.
    """
    rows: list[Row] = []
    for trial, label, windows in trials_of(summary, experiment):
        data: Data = {"trial": trial.index, "name": trial.name, "store": trial.store}
        for row in windows:
            first = _head(trial, row.label, *(Span(text, "provider more") for text in (trial.sides, *notes(row))))
            own: Data = {"window": row.window.name, "phase": row.window.phase}
            rows.append(Row(first, tuple(field.of_window(row) for field in fields), {**data, **own}))
        if not windows:
            cells = [field.of_trial(trial) for field in fields]
            rows.append(Row(_head(trial, label, Span(trial.sides, "provider")), _spread(cells, fields), data))
    columns = (*table.columns, *(field.column for field in fields))
    return table._replace(columns=columns, bodies=body(rows)) if rows else None


def _head(trial: TrialSummary, label: str, *notes: Text) -> Cell:
    state = state_of(trial)
    return Cell((label, badges(trial), *notes), line=label if state == "complete" else f"{label} ({state})")


def _spread(cells: Sequence[Cell], fields: Sequence[Field]) -> tuple[Cell, ...]:
    """Let the reason take the room of all numbers on a page: from behind the count to before the caveats."""
    reason = next(cell for cell in cells if cell.line)
    names = [field.column.heading for field in fields]
    start, end = names.index(COUNT.column.heading) + 1, names.index(CAVEATS.column.heading)
    first = cells[start]
    wide = Cell(reason.text, style="nothing", line=str(first), span=end - start)
    return (*cells[:start], wide, *cells[start + 1 :])
