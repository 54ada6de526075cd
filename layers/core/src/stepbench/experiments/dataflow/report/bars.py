"""Bars of stores: end-to-end time and performance per dollar, repeats of a trial together (figures 4 to 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measures import Estimate
from stepbench.experiments.dataflow.report.figures import Bar, bar_figure
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepbench.contracts.dataflow.media import Medium, MediumAnswer
    from stepbench.contracts.dataflow.result import DagWindow, DataflowCost
    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.dataflow.report.trials import FlowTrial
    from stepbench.report import document as doc

    Rows = Sequence[tuple[FlowTrial, DagWindow]]
    Prices = tuple[str, bool]

IDLE = {True: "with idle hours", False: "while executions run"}


def end_to_end_bars(anchor: str, summary: RunSummary, rows: Rows) -> doc.Chart | None:
    """Return the stores' medians of end-to-end times."""
    ranked = _ranked(summary, rows, lambda answer: answer.measure == "end_to_end")
    bars = _bars(rows, ranked, lambda _, window: window.end_to_end_ms.p50)
    return bar_figure(f"dag-times-{anchor}", "dataflow-end-to-end", "End-to-end time", bars)


def per_dollar_bars(anchor: str, summary: RunSummary, rows: Rows) -> Iterator[doc.Chart]:
    """Yield the stores' performance per dollar, by price table, without and with idle hours."""
    tables = dict.fromkeys((each.prices, each.idle) for trial, window in rows for each in trial.costs(window))
    for number, prices in enumerate(tables):
        found = _per_dollar(f"{anchor}-{number}", summary, rows, prices)
        if found is not None:
            yield found


def _per_dollar(anchor: str, summary: RunSummary, rows: Rows, prices: Prices) -> doc.Chart | None:
    def own(trial: FlowTrial, window: DagWindow) -> Estimate:
        cost = _cost(trial.costs(window), prices)
        return Estimate(value=None, reason="its dollars are not known") if cost is None else cost.perf_per_usd

    ranked = _ranked(
        summary, rows, lambda answer: answer.measure == "perf_per_usd" and (answer.prices, answer.idle) == prices
    )
    title = f"Performance per dollar {IDLE[prices[1]]}, prices of {prices[0]}"
    return bar_figure(f"dag-dollars-{anchor}", "dataflow-per-dollar", title, _bars(rows, ranked, own))


def _cost(costs: Sequence[DataflowCost], prices: Prices) -> DataflowCost | None:
    return next((each for each in costs if (each.prices, each.idle) == prices), None)


def _ranked(summary: RunSummary, rows: Rows, matches: Callable[[MediumAnswer], bool]) -> dict[str, Medium]:
    """Return the numbers over all repeats, by group, of this window's stores."""
    if not rows:
        return {}
    window = rows[0][1]
    key = (window.dag, window.phase, window.window)
    return {
        medium.group: medium
        for answer in summary.media
        if (answer.dag, answer.phase, answer.window) == key and matches(answer)
        for medium in answer.ranked
    }


def _bars(rows: Rows, ranked: Mapping[str, Medium], own: Callable[[FlowTrial, DagWindow], Estimate]) -> tuple[Bar, ...]:
    """Return a bar for each group: its number over all repeats where it is ranked, else what its runs have."""
    grouped: dict[str, list[tuple[FlowTrial, DagWindow]]] = {}
    for trial, window in rows:
        grouped.setdefault(trial.group, []).append((trial, window))
    return tuple(_bar(name, runs, ranked.get(name), own) for name, runs in grouped.items())


def _bar(name: str, runs: Rows, medium: Medium | None, own: Callable[[FlowTrial, DagWindow], Estimate]) -> Bar:
    caption = f"{name} (emulated, not ranked)" if runs[0][0].summary.emulated else name
    if medium is not None:
        return Bar(name, caption, medium.value, digits.counted(medium.runs, "run"))
    found = [own(trial, window) for trial, window in runs]
    value = found[0] if len(found) == 1 else mean_over_runs(found)
    executions = sum(window.completed for _, window in runs)
    return Bar(name, caption, value, digits.counted(executions, "execution"))
