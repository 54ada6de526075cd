"""A run's numbers as rows: one a window for a data frame, one a number with its interval for CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from stepbench.analysis.judged import judged_over_runs
from stepbench.contracts.experiment import QUANTILES
from stepbench.errors import BLANKS, printable
from stepbench.experiments.dataflow.report.tables import dag_numbers
from stepbench.report.run import state_of, trial_labels, window_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.measures import Estimate, Latency
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.run import WindowRow

Cell = str | int | float | bool | None
Row = dict[str, Cell]
MEASURES = (
    *("latency_ms", "after_ack_ms", "to_event_ms", "from_event_ms"),
    *("response_write_ms", "response_trigger_ms", "service_ms", "lateness_ms"),
)
_HANDLER_COUNTS = (
    *("arrived", "processed", "failed_in_handler", "failed_once", "processed_twice", "given_up"),
    *("invocations", "partly_failed", "never_ended", "cold_starts", "most_at_once"),
)
_METRICS = dict.fromkeys(("invocations", "throttles", "dropped"), "count") | dict.fromkeys(
    ("oldest_event_ms", "most_at_once"), "max"
)
JUDGED = "judged"
"""What CSV calls the measure that the run is judged by; which one it is stands in place of the statistic."""
POINTS = ("min", "mean", "max")
"""Of the sample itself: they have no interval."""
_TRIAL: dict[str, type] = {"trial": int, "name": str, "store": str, "provider": str, "emulated": bool, "state": str}
_WINDOW: dict[str, type] = (
    dict.fromkeys(("phase", "window"), str)
    | dict.fromkeys(("n", "sent", "failed", "unknown", "lost"), int)
    | dict.fromkeys(("offered_per_s", "achieved_per_s"), float)
)
_NUMBER = ("kind", "measure", "statistic", "value", "low", "high", "reason")
CSV_COLUMNS = (*_TRIAL, *_WINDOW, *_NUMBER)
_FORMULA = tuple("=+-@\t\r")
"""A spreadsheet takes a text that begins so for a formula."""
_ESTIMATE: dict[str, type] = {"": float, "_low": float, "_high": float, "_reason": str}
WINDOW_COLUMNS = (
    _TRIAL
    | _WINDOW
    | {f"{measure}_missing": int for measure in MEASURES}
    | {
        f"{measure}_{name}{part}": type_
        for measure in MEASURES
        for name in QUANTILES
        for part, type_ in _ESTIMATE.items()
    }
    | {f"{measure}_{name}": float for measure in MEASURES for name in POINTS}
)
"""Types by name, each null where there is nothing."""


def window_table(summary: RunSummary) -> Iterator[Row]:
    """Yield a row for each window, with all columns of `WINDOW_COLUMNS`."""
    for row in window_rows(summary.trials):
        cells = _window_cells(row)
        for measure in MEASURES:
            times: Latency | None = getattr(row.window, measure)
            if times is not None:
                cells.update(_measure_cells(measure, times))
        yield {name: cells.get(name) for name in WINDOW_COLUMNS}


def accounting_table(summary: RunSummary) -> Iterator[Row]:
    """Yield a row for each trial's measured phases, and one for its warm-up; none of what never began."""
    for trial in summary.trials:
        for measured, found in ((True, trial.accounting), (False, trial.warm_up)):
            if found is not None:
                yield {"trial": trial.index, "name": trial.name, "measured": measured, **found.model_dump()}


def render_csv(summary: RunSummary) -> str:
    """
    Render one row for each window, measure and statistic, in milliseconds and not rounded; two for each trial's cost.

    A window's first row is what the run is judged by, if it is: of shares as such, of a cost in dollars for a million.
    A trial without a window has one row, whose reason says what became of it.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in _csv_rows(summary))
    return file.getvalue()


def _csv_cell(value: object) -> object:
    """Return a cell; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    return ("'" if value.startswith(_FORMULA) else "") + printable(value, BLANKS)


def _csv_rows(summary: RunSummary) -> Iterator[Row]:
    for row in window_rows(summary.trials, summary.judge):
        cells = _window_cells(row)
        if row.judge is not None:
            judged = judged_over_runs(row.judge, [(row.trial, row.window)])
            yield {**cells, "kind": "", "measure": JUDGED, "statistic": row.judge.name, **judged.model_dump()}
        for kind, measure, times in _all_measures(row):
            of: Row = {**cells, "kind": kind, "measure": measure}
            for statistic in QUANTILES:
                yield {**of, "statistic": statistic, **getattr(times, statistic).model_dump()}
            for statistic in POINTS:
                yield {**of, "statistic": statistic, "value": getattr(times, statistic)}
        yield from _handler_rows(row)
        yield from _invocation_rows(row)
    yield from _dataflow_rows(summary)
    yield from _metrics_rows(summary)
    yield from _cost_rows(summary)
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        if not trial.windows:
            reason = f"{trial.failure.error}: {trial.failure.cause}" if trial.failure else state_of(trial)
            yield {**_trial_cells(trial), "name": label, "reason": reason}


def _handler_rows(row: WindowRow) -> Iterator[Row]:
    """Yield what only a measured function has: counts, errors by type, and tries; `kind` says which of them."""
    if (found := row.window.handler) is None:
        return
    counts: list[tuple[str, str, float]] = [("", name, getattr(found, name)) for name in _HANDLER_COUNTS]
    counts += [(name, "handler_errors", number) for name, number in found.errors.items()]
    for each in found.redelivered:
        counts += [(f"try {each.at_try}", "redelivered", each.events)]
        counts += [(f"try {each.at_try}", "redelivered_after_s", each.after_s_p50)]
    for kind, measure, value in counts:
        statistic = "p50" if measure.endswith("_s") else "count"
        yield {**_window_cells(row), "kind": kind, "measure": measure, "statistic": statistic, "value": value}


def _metrics_rows(summary: RunSummary) -> Iterator[Row]:
    """Yield what CloudWatch had of measured functions; the reason is up to when, or why there is nothing."""
    for trial in summary.trials:
        if (found := trial.function_metrics) is None:
            continue
        reason = f"until {found.until}" if found.until else found.reason or "no value yet"
        of: Row = {**_trial_cells(trial), "kind": "cloudwatch", "reason": reason}
        for measure, statistic in _METRICS.items():
            yield {**of, "measure": measure, "statistic": statistic, "value": getattr(found, measure)}


def _invocation_rows(row: WindowRow) -> Iterator[Row]:
    """Yield what only a phase with `invoked` has: its counts, times and rates, each as `summary.json` names it."""
    operations = row.window.operations
    if operations is None or (found := operations.invocations) is None:
        return
    values = {**found.model_dump(exclude={"map"}), "per_wall_s": operations.per_wall_s}
    for measure, value in values.items():
        statistic = "value" if measure.endswith(("_s", "_ms")) else "count"
        yield {**_window_cells(row), "kind": found.map, "measure": measure, "statistic": statistic, "value": value}


def _dataflow_rows(summary: RunSummary) -> Iterator[Row]:
    """Yield what only DAGs have: times by stage and edge, shares, performance per dollar; `kind` says whose it is."""
    for row in window_rows(summary.trials):
        found = row.trial.dataflow
        for window in found.windows if found else ():
            if (window.phase, window.window) == (row.window.phase, row.window.name):
                for kind, measure, statistic, estimate in dag_numbers(window, found.costs if found else ()):
                    cells = {"kind": kind, "measure": measure, "statistic": statistic}
                    yield {**_window_cells(row), **cells, **estimate.model_dump()}


def _cost_rows(summary: RunSummary) -> Iterator[Row]:
    """Yield each window's performance per dollar, where it has one, then what each trial cost, where that is known."""
    windows = {(row.trial.index, row.window.phase, row.window.name): row for row in window_rows(summary.trials)}
    for found in summary.per_dollar:
        cells = _window_cells(windows[found.trial, found.phase, found.window])
        interval = {"value": found.value, "low": found.low, "high": found.high}
        yield {**cells, "kind": "", "measure": "per_dollar", "statistic": "p50", **interval}
    for trial in summary.trials:
        if trial.cost_usd.actual is not None:
            for name in ("estimate", "actual"):
                usd = getattr(trial.cost_usd, name)
                yield {**_trial_cells(trial), "measure": "cost_usd", "statistic": name, "value": usd}


def _all_measures(row: WindowRow) -> Iterator[tuple[str, str, Latency]]:
    """Yield the measures of a window, then those of each kind of operation in it."""
    for measure in MEASURES:
        if (times := getattr(row.window, measure)) is not None:
            yield "", measure, times
    if (handler := row.window.handler) is not None:
        yield "", "handler_ms", handler.handler_ms
        yield "", "to_processed_ms", handler.to_processed_ms
        yield from (("", "init_ms", handler.init_ms),) if handler.init_ms else ()
    for kind in row.window.operations.kinds if row.window.operations else ():
        yield kind.kind, "service_ms", kind.service_ms
        yield kind.kind, "response_write_ms", kind.response_ms


def _trial_cells(trial: TrialSummary) -> Row:
    named = {name: getattr(trial, name) for name in ("name", "store", "provider", "emulated")}
    return {"trial": trial.index, **named, "state": state_of(trial)}


def _window_cells(row: WindowRow) -> Row:
    window = row.window
    own = {name: getattr(window, name) for name in _WINDOW if name not in {"window", "lost"}}
    return {**_trial_cells(row.trial), **own, "window": window.name, "lost": row.lost}


def _measure_cells(measure: str, times: Latency) -> Row:
    cells: Row = {f"{measure}_missing": times.missing}
    for name in QUANTILES:
        estimate: Estimate = getattr(times, name)
        parts = (estimate.value, estimate.low, estimate.high, estimate.reason)
        cells.update({f"{measure}_{name}{part}": cell for part, cell in zip(_ESTIMATE, parts, strict=True)})
    return cells | {f"{measure}_{name}": getattr(times, name) for name in POINTS}
