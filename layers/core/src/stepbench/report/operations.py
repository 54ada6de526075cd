"""Operations: what their section draws and says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepbench.report import digits
from stepbench.report.columns import columns, short
from stepbench.report.labels import window_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.drawn import EcdfCurve
    from stepbench.contracts.measures import (
        ConnectingResult,
        Estimate,
        KindResult,
        Latency,
        OperationsResult,
        PercentileRow,
        WindowResult,
    )
    from stepbench.contracts.result import RunSummary, ScalingCurve, ScalingPoint, TrialResult
    from stepbench.report.columns import Columns, Row
    from stepbench.report.labels import WindowRow

CURVES_PER_FIGURE = 8
_LAW_POINTS = 60
_ROOM = 1.15
_SECONDS_A_MINUTE = 60
CLIENTS = digits.Unit("clients", 1.0)
LEFT_OUT = "left out"
PER_S = digits.Unit("/s", 1.0)
SHARE = digits.Unit("%", 100.0)


@dataclass(frozen=True)
class PercentileFigure:
    """Up to `CURVES_PER_FIGURE` percentile curves that share axes."""

    percentiles: Columns
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ScalingFigure:
    """One scaling curve: `data` by the chart's names, `top` where the axis ends."""

    curve: ScalingCurve
    title: str
    data: dict[str, Columns]
    params: dict[str, Any]

    @property
    def fitted(self) -> bool:
        """Whether there is a law to tell the numbers of."""
        return self.curve.rate_per_s.value is not None


@dataclass(frozen=True)
class Part:
    """One part of operations that make connections of their own; `share` of their service time, from 0 to 1."""

    name: str
    latency: Latency
    share: float | None


def percentile_figures(results: Sequence[TrialResult]) -> tuple[PercentileFigure, ...]:
    """Of all operations' windows, a few to a figure, from their empirical distributions."""
    known = {(result.summary.index, curve.phase, curve.window): curve for result in results for curve in result.ecdf}
    drawn: list[tuple[str, list[Row]]] = []
    for row in window_rows([result.summary for result in results]):
        curve = known.get((row.trial.index, row.window.phase, row.window.name))
        if row.window.operations is not None and curve is not None and curve.latency_ms:
            drawn.append((row.label, _curve(row.label, curve, row.window.n)))
    parts = [drawn[start : start + CURVES_PER_FIGURE] for start in range(0, len(drawn), CURVES_PER_FIGURE)]
    names = ("curve", "position", "percent", "latency_ms")
    return tuple(
        PercentileFigure(
            columns(names, [point for _, points in part for point in points]), tuple(label for label, _ in part)
        )
        for part in parts
    )


def _curve(label: str, curve: EcdfCurve, n: int) -> list[Row]:
    """The slowest has no 1 / (1 - q); it stands at the number of operations, as HdrHistogram has it."""
    shares = list(zip(curve.latency_ms, curve.probability, strict=True))
    points: list[Row] = [
        (label, short(1 / (1 - share)), percent(_told_from_all(share)), short(ms))
        for ms, share in shares
        if ms > 0 and share < 1 - 1.5 / n
    ]
    slowest_ms, share = shares[-1]
    return [*points, (label, float(n), percent(100 * share), short(slowest_ms))]


def _told_from_all(share: float) -> float:
    """In percent, to three digits of what is left to 100: a rounded 99.9996 would be all of them."""
    left = 100 * (1 - share)
    return round(100 * share, max(3, 2 - math.floor(math.log10(left))))


def scaling_figures(summary: RunSummary) -> tuple[ScalingFigure, ...]:
    """All curves of the run."""
    names = [curve.name for curve in summary.scaling]
    return tuple(
        _scaling_figure(curve, curve.name if names.count(curve.name) == 1 else f"{curve.name} · {curve.window}")
        for curve in summary.scaling
    )


def _scaling_figure(curve: ScalingCurve, title: str) -> ScalingFigure:
    points: list[Row] = [
        (point.clients, short(point.throughput_per_s), LEFT_OUT if point.saturated else "measured", kept_words(point))
        for point in curve.points
    ]
    law: list[Row] = [(short(at), short(per_s), "fitted law") for at, per_s in _law(curve)]
    limit = curve.generator_limit_per_s
    knee = curve.knee_clients.value
    first, last = curve.points[0].clients, curve.points[-1].clients
    highest = max([point.throughput_per_s for point in curve.points] + [per_s for _, per_s in _law(curve)])
    names = ("clients", "per_s", "kind")
    data = {
        "points": columns((*names, "runs"), points),
        "law": columns(names, law),
        "limit": columns(names, [] if limit is None else [(None, short(limit), LEFT_OUT)]),
        "knee": columns(("clients", "words"), [] if knee is None else [(short(knee), f"knee: {knee:.0f} clients")]),
    }
    return ScalingFigure(
        curve, title, data, {"top": short(_ROOM * highest), "low": first / _ROOM, "high": last * _ROOM}
    )


def _law(curve: ScalingCurve) -> Iterator[tuple[float, float]]:
    """The fitted curve, at equal distances on a logarithmic axis."""
    rate, sigma, kappa = curve.rate_per_s.value, curve.contention.value, curve.coherency.value
    if rate is None or sigma is None or kappa is None:
        return
    low, high = curve.points[0].clients, curve.points[-1].clients
    for step in range(_LAW_POINTS + 1):
        n = low * (high / low) ** (step / _LAW_POINTS)
        yield n, rate * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def scaling_sentence(figure: ScalingFigure) -> str:
    """Where more clients stop helping, or why that is not known, and what the generator had to do with it."""
    curve, knee = figure.curve, figure.curve.knee_clients
    first, last = curve.points[0], curve.points[-1]
    rates = [f"{digits.rate(point.throughput_per_s)}/s" for point in (first, last)]
    words = [f"From {first.clients} to {_clients(last.clients)}, throughput went from {rates[0]} to {rates[1]}."]
    if knee.value is not None:
        peak = _with_interval(curve.peak_per_s, PER_S)
        words.append(f"More clients stop helping at {_with_interval(knee, CLIENTS)}, with {peak}.")
    else:
        words.append(f"No knee is told: {(knee.reason or 'no fit').removeprefix('no knee: ')}.")
    return " ".join([*words, *_left_out(curve)])


def _left_out(curve: ScalingCurve) -> Iterator[str]:
    """Runs that are not in the fit, and why."""
    runs = sum(len(point.trials) for point in curve.points)
    out = runs - sum(point.kept_runs for point in curve.points)
    if out:
        which = f"{digits.count(out)} of its {digits.count(runs)} runs {'is' if out == 1 else 'are'}"
        yield f"{which} left out of the fit, because the generator held its clients back."
    if curve.generator_limit_per_s is not None:
        yield f"With the most clients it came to its own limit, of about {digits.rate(curve.generator_limit_per_s)}/s."


def kept_words(point: ScalingPoint) -> str:
    """How many of its runs are in the fit: `2 of 3`."""
    return f"{point.kept_runs} of {len(point.trials)}"


def _with_interval(estimate: Estimate, unit: digits.Unit) -> str:
    shown = digits.shown(estimate, unit)
    value = f"{shown.value}{'' if unit is PER_S else ' '}{shown.unit}"
    interval = shown.interval.strip("[]").replace(", ", " to ")
    return f"{value} ({interval})" if interval else value


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{digits.count(number)} clients"


def operation_sentence(row: WindowRow) -> str:
    """The answer for one window of operations: how long, how many a minute, how many came to nothing."""
    window, found = row.window, row.window.operations
    if window.latency_ms.p50.value is None:
        words = f"No median: {window.latency_ms.p50.reason or 'no operations'}"
    else:
        p50, p99 = digits.shown(window.latency_ms.p50), digits.shown(window.latency_ms.p99)
        words = f"Half of the operations took up to {p50.value} {p50.unit}"
        words += f", 99 in a hundred up to {p99.value} {p99.unit}" if p99.value else ""
    clients = f" with {_clients(found.clients)}" if found and found.clients else ""
    return f"{words}; {per_minute(window.achieved_per_s)} a minute{clients}; {_outcomes(found)}."


def _outcomes(found: OperationsResult | None) -> str:
    kinds = found.kinds if found else ()
    failed, unknown = sum(kind.failed for kind in kinds), sum(kind.unknown for kind in kinds)
    words = [f"{digits.count(failed)} failed"] if failed else []
    words += [f"{digits.count(unknown)} got no answer"] if unknown else []
    return ", ".join(words) or "none failed"


def per_minute(per_s: float) -> str:
    """Operations a minute, in whole ones."""
    return digits.fixed(per_s * _SECONDS_A_MINUTE, 0)


def kind_per_minute(window: WindowResult, kind: KindResult) -> float:
    """Its part of what was achieved a minute."""
    done = sum(each.ok for each in window.operations.kinds) if window.operations else 0
    return _SECONDS_A_MINUTE * window.achieved_per_s * kind.ok / done if done else 0.0


def kind_words(kind: KindResult) -> str:
    """`read-modify-write`."""
    return kind.kind.replace("_", "-")


def percent(value: float) -> str:
    """A percentile with all its nines: `99.90234375 %`."""
    return "max" if value >= 100 else f"{value:.10g} %"  # noqa: PLR2004 -- all


def levels(rows: Sequence[WindowRow]) -> tuple[float, ...]:
    """The percentiles of the table's columns."""
    tables = [row.window.operations.percentiles for row in rows if row.window.operations]
    return tuple(each.percentile for each in max(tables, key=len, default=()))


def percentile_rows(row: WindowRow) -> Iterator[tuple[str, tuple[PercentileRow, ...]]]:
    """Of each kind where there are several, then of all."""
    found = row.window.operations
    if found is None:
        return
    if len(found.kinds) > 1:
        yield from ((kind_words(kind), kind.percentiles) for kind in found.kinds)
    yield ("all" if len(found.kinds) != 1 else kind_words(found.kinds[0])), found.percentiles


def parts(found: ConnectingResult) -> tuple[Part, ...]:
    """What a service time is made of, in the order of what happens, and what is left unexplained."""
    named = (
        ("connect (TCP)", found.connect_ms),
        ("TLS handshake", found.tls_ms),
        ("authenticate", found.authenticate_ms),
        ("operate", found.operate_ms),
    )
    present = [(name, latency) for name, latency in named if latency is not None]
    sums = [latency.mean or 0.0 for _, latency in present]
    accounted = 1 - found.unaccounted_share
    return tuple(
        Part(name, latency, accounted * mean / sum(sums) if sum(sums) else None)
        for (name, latency), mean in zip(present, sums, strict=True)
    )


def share_percent(share: float | None) -> str:
    """`12 %`, `0.4 %`."""
    if share is None or not math.isfinite(share):
        return digits.NONE
    return f"{digits.rounded(100 * share, 2)} %"
