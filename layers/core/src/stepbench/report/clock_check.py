"""The figures of the clock check (Fig. 4 of the TriggerPerf paper)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report.curves import Curve, legend_of
from stepbench.report.figures import Drawing
from stepbench.report.labels import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import WindowSample
    from stepbench.contracts.clock_check import ClockCheck, ClockComparison
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.report.curves import Legend
    from stepbench.report.labels import Columns

MEASURES = {
    "latency_ms": "Trigger latency (t4 − t1)",  # noqa: RUF001 -- a minus sign
    "after_ack_ms": "After acknowledgement (t4 − t2)",  # noqa: RUF001
}
_SHOWN_SHARE = 0.98
"""This share of each curve is shown: a few cold starts would press the rest against the axis."""


@dataclass(frozen=True)
class ClockFigure:
    """
    It shows two distributions of one measure, and where they are furthest apart.

    `beyond`: share of each curve that lies to the right of the axis, or never arrived, by the trial's name.
    """

    check: ClockCheck
    comparison: ClockComparison
    curves: Columns
    gap: Columns
    low_ms: float
    top_ms: float
    beyond: dict[str, float]

    @property
    def title(self) -> str:
        """Return the measure's title."""
        return MEASURES[self.comparison.measure]

    @property
    def legend(self) -> Legend:
        """Return what its two curves are called."""
        return legend_of([Curve(name, name, {"name": name}) for name in (self.check.a, self.check.b)])


def clock_figures(summary: RunSummary, results: Sequence[TrialResult]) -> tuple[ClockFigure, ...]:
    """Return one figure for each comparison that has a test."""
    samples = {
        (trial.name, sample.window): sample
        for trial, result in zip(summary.trials, results, strict=True)
        for sample in result.samples
    }
    return tuple(
        _figure(check, comparison, samples)
        for check in summary.clock_checks
        for comparison in check.comparisons
        if comparison.ks is not None
    )


def clock_drawings(figures: Sequence[ClockFigure]) -> Iterator[Drawing]:
    """Yield the figures as the page draws them."""
    for place, figure in enumerate(figures):
        legend = figure.legend
        params = {**legend.params, "low": figure.low_ms, "top": figure.top_ms}
        data = {"clocks": figure.curves, "clocks-names": legend.names, "gap": figure.gap}
        yield Drawing(f"clock-{place}", "clock", data, params)


def _figure(
    check: ClockCheck, comparison: ClockComparison, samples: dict[tuple[str, str], WindowSample]
) -> ClockFigure:
    curves = {name: _values(_sample_of(samples, name, check.window), comparison.measure) for name in (check.a, check.b)}
    arrived = {name: [value for value in values if value is not None] for name, values in curves.items()}
    top_ms = max(found[min(len(found) - 1, round(_SHOWN_SHARE * len(found)))] for found in arrived.values() if found)
    low_ms = min(found[0] for found in arrived.values() if found)
    points = [
        (name, short(value), round((place + 1) / len(curves[name]), 6))
        for name, found in arrived.items()
        for place, value in enumerate(found)
    ]
    shown = {name: bisect_right(found, top_ms) for name, found in arrived.items()}
    return ClockFigure(
        check=check,
        comparison=comparison,
        curves=columns(("curve", "latency_ms", "probability"), points),
        gap=_gap(comparison, arrived, {name: len(values) for name, values in curves.items()}),
        low_ms=short(low_ms),
        top_ms=short(top_ms if top_ms > low_ms else low_ms + 1),
        beyond={name: 1 - shown[name] / len(curves[name]) for name in curves if shown[name] < len(curves[name])},
    )


def _sample_of(samples: dict[tuple[str, str], WindowSample], name: str, window: str) -> WindowSample:
    """Find a sample by its window's name; windows of different names are each trial's first."""
    return samples.get((name, window)) or next(each for (trial, _), each in samples.items() if trial == name)


def _values(sample: WindowSample, measure: str) -> list[float | None]:
    """Return the values in order of size, what never arrived last."""
    values: tuple[float | None, ...] = getattr(sample, measure)
    return sorted(values, key=lambda value: (value is None, value or 0.0))


def _gap(comparison: ClockComparison, arrived: dict[str, list[float]], events: dict[str, int]) -> Columns:
    ks = comparison.ks
    names = ("at_ms", "low", "middle", "high", "words")
    if ks is None or ks.at_ms is None:
        return columns(names, [])
    shares = sorted(bisect_right(found, ks.at_ms) / events[name] for name, found in arrived.items())
    low, high = (round(share, 6) for share in shares)
    return columns(names, [(short(ks.at_ms), low, (low + high) / 2, high, f"D = {ks.d:.3f}")])
