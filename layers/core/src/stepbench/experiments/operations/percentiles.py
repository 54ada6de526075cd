"""Service times of operations by percentile: figures, and tables with counts, published ones beside ours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import drop_setting
from stepbench.contracts.published import QUANTILE_METRICS
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.curves import curve_of, figure_parts, legend_of
from stepbench.report.run import columns, drawn_windows, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.chart_data import EcdfCurve
    from stepbench.contracts.findings import Replication
    from stepbench.contracts.measures import KindResult, PercentileRow
    from stepbench.contracts.result import TrialResult
    from stepbench.report.curves import Legend
    from stepbench.report.run import Columns, Row, WindowRow

    WindowCurve = tuple[WindowRow, EcdfCurve]


class PercentileFigure(NamedTuple):
    """It holds percentile curves that share axes; `work` is what they all did, where a figure is of one work."""

    percentiles: Columns
    legend: Legend
    work: str = ""


def percentile_figures(results: Sequence[TrialResult]) -> tuple[PercentileFigure, ...]:
    """
    Return all operations' windows, from their empirical distributions.

    Where stores did the same work, each work has a figure of its own (or several, of many curves); else a few windows
    share one.
    """
    curves = [
        (row, curve)
        for row, curve in drawn_windows(results, "ecdf")
        if row.window.operations is not None and curve.latency_ms
    ]
    return tuple(
        _percentile_figure(part, work)
        for work, same in _by_work(curves)
        for part in figure_parts(same, lambda pair: pair[0])
    )


def _by_work(curves: Sequence[WindowCurve]) -> Iterable[tuple[str, Sequence[WindowCurve]]]:
    """Yield windows that differ in their store and its TLS only; all at once where some work was one store's only."""
    works: dict[object, list[WindowCurve]] = {}
    for row, curve in curves:
        setup = drop_setting(row.trial.setup, "target.store")
        key = frozenset(pair for pair in setup if pair[0] != "target.tls"), row.window.phase, row.window.name
        works.setdefault(key, []).append((row, curve))
    if len(works) > 1 and all(len({row.trial.store for row, _ in same}) > 1 for same in works.values()):
        return [(_describe_work(same[0][0]), same) for same in works.values()]
    return [("", curves)]


def _describe_work(row: WindowRow) -> str:
    """Describe what was done: `read, 10 clients`, `insert, 10 clients that pause for 370 ms`."""
    found = row.window.operations
    kinds = " and ".join(format_kind(kind) for kind in found.kinds) if found else ""
    if found is None or found.clients is None:
        return f"{kinds}, {digits.rate(row.window.offered_per_s)}/s"
    pause_ms = row.trial.setup.get(f"phases[{row.window.phase}].closed.think_ms")
    verb = "pauses" if found.clients == 1 else "pause"
    pauses = f" that {verb} for {pause_ms:g} ms" if isinstance(pause_ms, int | float) else ""
    return f"{kinds}, {digits.counted(found.clients, 'client')}{pauses}"


def _percentile_figure(curves: Sequence[WindowCurve], work: str) -> PercentileFigure:
    points = [point for row, curve in curves for point in _curve(row.label, curve, row.window.n)]
    names = ("curve", "position", "percent", "latency_ms")
    return PercentileFigure(columns(names, points), legend_of([curve_of(row) for row, _ in curves]), work)


def _curve(label: str, curve: EcdfCurve, n: int) -> list[Row]:
    """Return a curve's points. The slowest has no 1 / (1 - q); it stands at n, as HdrHistogram has it."""
    shares = list(zip(curve.latency_ms, curve.probability, strict=True))
    points: list[Row] = [
        (label, short(1 / (1 - share)), format_percentile(_percent_below_all(share)), short(ms))
        for ms, share in shares
        if ms > 0 and share < 1 - 1.5 / n
    ]
    slowest_ms, share = shares[-1]
    return [*points, (label, float(n), format_percentile(100 * share), short(slowest_ms))]


def _percent_below_all(share: float) -> float:
    """Return per cent with three digits of what is left to 100: a rounded 99.9996 would be all of them."""
    left = 100 * (1 - share)
    return round(100 * share, max(3, 2 - math.floor(math.log10(left))))


def format_kind(kind: KindResult) -> str:
    """Format a kind's name: `read-modify-write`."""
    return kind.kind.replace("_", "-")


def format_percentile(value: float) -> str:
    """Format a percentile with all its nines: `99.90234375 %`."""
    return "max" if value >= 100 else f"{value:.10g} %"  # noqa: PLR2004 -- all


def percentile_nodes(rows: Sequence[WindowRow], *, emulated: bool) -> Iterator[doc.Node]:
    """Yield the table, and where published ones stand, each once."""
    tables = [row.window.operations.percentiles for row in rows if row.window.operations]
    levels = tuple(each.percentile for each in max(tables, key=len, default=()))
    caption = (
        "Service time by percentile, and how many operations took at most so long. Each column halves what is left to "
        f"100{digits.NBSP}%, or more. A dash: no operation came so far."
    )
    columns = doc.columns("Operations", *map(format_percentile, levels))
    bodies = (
        doc.Body(tuple(_percentile_rows(row, levels)), (row.label, doc.badges(row.trial)), doc.of_window(row))
        for row in rows
    )
    yield doc.Table("percentile-table", caption, columns, tuple(bodies), "reference")
    found = dict.fromkeys(each.source for row in rows for each in _published_rows(row).values())
    if found:
        machine = " None of the ratios replicates a number of AWS's: this run was made on one machine."
        text = f"Published percentiles and counts: {'; '.join(found)}.{machine if emulated else ''}"
        yield doc.Sentence(text, "note")


def _percentile_rows(row: WindowRow, levels: Sequence[float]) -> Iterator[doc.Row]:
    for name, table in _tables(row):
        cells = [*map(_percentile, table), *(doc.Cell(digits.NONE) for _ in range(len(levels) - len(table)))]
        yield doc.Row(doc.Cell(name), tuple(cells), {"kind": name})
    published = _published_rows(row)
    if published:
        found = [published.get(level) for level in levels]
        cells = [_published(level, each) for level, each in zip(levels, found, strict=True)]
        yield doc.Row(doc.Cell("published", style="sub"), tuple(cells), {"kind": "published"})
        ratios = tuple(numbers.estimate("ratio", each.ratio if each else None, "ratio") for each in found)
        yield doc.Row(doc.Cell("ours over it", style="sub"), ratios, {"kind": "ratio"})


def _tables(row: WindowRow) -> Iterator[tuple[str, tuple[PercentileRow, ...]]]:
    """Yield the table of each kind where there are several, then of all."""
    found = row.window.operations
    if found is None:
        return
    if len(found.kinds) > 1:
        yield from ((format_kind(kind), kind.percentiles) for kind in found.kinds)
    yield ("all" if len(found.kinds) != 1 else format_kind(found.kinds[0])), found.percentiles


def _published_rows(row: WindowRow) -> dict[float, Replication]:
    """Return the rows of a published table of percentiles that are of this window, by per cent."""
    return {
        round(100 * QUANTILE_METRICS.get(each.metric, 1.0), 9): each
        for each in row.trial.replication
        if each.published_count is not None and (each.phase, each.window) == (row.window.phase, row.window.name)
    }


def _percentile(each: PercentileRow) -> doc.Cell:
    known = each.value_ms is not None
    data: doc.Data = {"metric": "percentile", "percentile": each.percentile, "value": each.value_ms, "unit": "ms"}
    count = doc.Span(digits.count(each.count), "interval") if known else ""
    return doc.Cell(
        (doc.Span(digits.latency(each.value_ms), "value"), count), {**data, "count": each.count if known else None}
    )


def _published(level: float, each: Replication | None) -> doc.Cell:
    if each is None:
        return doc.Cell(digits.NONE)
    data: doc.Data = {
        "metric": "published",
        "percentile": level,
        "value": each.published,
        "count": each.published_count,
    }
    count = doc.Span(digits.count(each.published_count), "interval")
    return doc.Cell((doc.Span(digits.latency(each.published), "value"), count), {**data, "unit": "ms"})
