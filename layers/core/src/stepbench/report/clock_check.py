"""The figures of the clock check (Fig. 4 of the TriggerPerf paper)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from stepbench.digits import NBSP, NONE, count, offset
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.curves import Curve, legend_of
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Sized

    from stepbench.contracts.across_trials import ClockCheck, ClockComparison
    from stepbench.contracts.chart_data import WindowSample
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.report.run import Columns

MEASURES = {
    "latency_ms": "Trigger latency (t4 − t1)",  # noqa: RUF001 -- a minus sign
    "after_ack_ms": "After acknowledgement (t4 − t2)",  # noqa: RUF001
}
_SHOWN_SHARE = 0.98
"""This share of each curve is shown: a few cold starts would press the rest against the axis."""


Samples: TypeAlias = "Mapping[tuple[str, str], WindowSample]"
"""By the trial's name and the window's."""


def clock_section(summary: RunSummary, results: Sequence[TrialResult]) -> doc.Section | None:
    """Return the section that sets one sandbox against several; None of a run without such a pair."""
    if not summary.clock_checks:
        return None
    said = (
        "In the first trial of each pair one sandbox wrote and received, so one clock stamped both ends; in the "
        "second, two sandboxes with a clock each. If the clocks disagreed, the second's distribution would lie beside "
        "the first's. It may for other reasons, too, since its events take another path."
    )
    compared = [(check, comparison) for check in summary.clock_checks for comparison in check.comparisons]
    trials = {trial.name: trial for trial in reversed(summary.trials)}
    sentences = doc.Sentences(tuple(_sentence(*each, trials) for each in compared), most=None, style="sentences")
    caption = (
        "Kolmogorov and Smirnov's test and the difference of medians (several sandboxes minus one). A D up to the "
        "critical one does not show that the two are equal."
    )
    headings = ("D", f"critical D, 5{NBSP}%", "p", "n, m", "Difference of medians", "Clocks' offset", "Same sandbox")
    columns = doc.columns("Measure", doc.words("Pair"), *headings)
    table = doc.Table("clock-check-table", caption, columns, doc.body(_cells(*each) for each in compared), phone=True)
    folds = (*clock_folds(summary, results), doc.Fold("The tests in a table", (table,)))
    return doc.Section("clock-check", "Clock check", (doc.Sentence(said), sentences, *folds), link="Clocks")


def clock_folds(summary: RunSummary, results: Sequence[TrialResult]) -> Iterator[doc.Fold]:
    """Yield a figure for each comparison that has a test."""
    samples = {
        (trial.name, sample.window): sample
        for trial, result in zip(summary.trials, results, strict=True)
        for sample in result.samples
    }
    compared = [(check, each) for check in summary.clock_checks for each in check.comparisons if each.ks is not None]
    for number, (check, comparison) in enumerate(compared):
        figure = _figure(number, check, comparison, samples)
        yield doc.Fold(_describe(check, comparison), (figure,), plain=number == 0)


def _describe(check: ClockCheck, comparison: ClockComparison) -> str:
    return f"{MEASURES[comparison.measure]} of {check.a} and {check.b}"


def _figure(number: int, check: ClockCheck, comparison: ClockComparison, samples: Samples) -> doc.Figure:
    """Return two distributions of one measure, and where they are furthest apart."""
    curves = {name: _values(_sample_of(samples, name, check.window), comparison.measure) for name in (check.a, check.b)}
    arrived = {name: [value for value in values if value is not None] for name, values in curves.items()}
    top_ms = max(found[min(len(found) - 1, round(_SHOWN_SHARE * len(found)))] for found in arrived.values() if found)
    low_ms = min(found[0] for found in arrived.values() if found)
    points = [
        (name, short(value), round((place + 1) / len(curves[name]), 6))
        for name, found in arrived.items()
        for place, value in enumerate(found)
    ]
    legend = legend_of([Curve(name, name, {"name": name}) for name in (check.a, check.b)])
    data = {
        "clocks": columns(("curve", "latency_ms", "probability"), points),
        "clocks-names": legend.names,
        "gap": _gap(comparison, arrived, {name: len(values) for name, values in curves.items()}),
    }
    params = {**legend.params, "low": short(low_ms), "top": short(top_ms if top_ms > low_ms else low_ms + 1)}
    caption = (
        f"{MEASURES[comparison.measure]}: ",
        doc.Span(check.a, "b"),
        ", one sandbox, against ",
        doc.Span(check.b, "b"),
        f". The upright line is the largest distance D between the two. {_describe_beyond(curves, arrived, top_ms)}",
    )
    drawing = Drawing(f"clock-{number}", "clock", data, params)
    return doc.Figure((doc.Chart(drawing, f"{_describe(check, comparison)}. {comparison.text}"),), caption)


def _describe_beyond(curves: Mapping[str, Sized], arrived: Mapping[str, Sequence[float]], top_ms: float) -> str:
    """Describe which share of each curve lies to the right of the axis, or never arrived."""
    beyond = {name: 1 - bisect_right(arrived[name], top_ms) / len(values) for name, values in curves.items()}
    return " ".join(
        f"Of {name}, {share * 100:.1f}{NBSP}% lie to the right of the axis or never arrived."
        for name, share in beyond.items()
        if share > 0
    )


def _sample_of(samples: Samples, name: str, window: str) -> WindowSample:
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


def _sentence(check: ClockCheck, comparison: ClockComparison, trials: Mapping[str, TrialSummary]) -> doc.Sentence:
    pair = f"{MEASURES[comparison.measure]}, {check.a} against {check.b}"
    return doc.named(pair, trials[check.b], comparison.text, {"clock-check": check.a, "measure": comparison.measure})


def _cells(check: ClockCheck, comparison: ClockComparison) -> doc.Row:
    ks = comparison.ks
    cells = (
        doc.Cell(f"{check.a} against {check.b}, {check.window}"),
        numbers.value("d", ks.d if ks else None, f"{ks.d:.3f}" if ks else NONE),
        numbers.value("critical_d", ks.critical_d if ks else None, f"{ks.critical_d:.3f}" if ks else NONE),
        numbers.p_value(ks.p_value if ks else None),
        numbers.value("n", ks.n if ks else None, f"{count(ks.n)}, {count(ks.m)}" if ks else NONE),
        numbers.estimate("median_shift_ms", comparison.median_shift_ms),
        doc.Cell(offset(check.offset_ms, check.bound_ms), {"metric": "offset_ms", "bound": check.bound_ms}),
        numbers.value("same_sandbox", check.same_sandbox, f"{count(check.same_sandbox)} of {count(check.events)}"),
    )
    data = {"clock-check": check.a, "measure": comparison.measure}
    return doc.Row(doc.Cell(MEASURES[comparison.measure]), cells, data)
