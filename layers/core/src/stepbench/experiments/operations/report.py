"""The figures and sentences of the section on operations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.report.curves import cut_shared_words
from stepbench.report.labels import columns, describe_latency, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.across_trials import ScalingCurve, ScalingPoint
    from stepbench.contracts.measures import (
        ConnectingResult,
        KindResult,
        Latency,
        OperationsResult,
        WindowResult,
    )
    from stepbench.contracts.result import RunSummary
    from stepbench.report.labels import Columns, Row, WindowRow

_LAW_POINTS = 60
_ROOM = 1.15
CLIENTS = digits.Unit("clients", 1.0)
LEFT_OUT = "left out"
SHARE = digits.Unit("%", 100.0)


@dataclass(frozen=True)
class ScalingFigure:
    """
    It shows one scaling curve; `data` has the chart's names, and `params` the ends of its axes.

    `heading`: its title without what all titles have in `common`.
    """

    curve: ScalingCurve
    title: str
    heading: str
    common: str
    data: dict[str, Columns]
    params: dict[str, Any]

    @property
    def fitted(self) -> bool:
        """Return whether a law was fitted."""
        return self.curve.rate_per_s.value is not None


@dataclass(frozen=True)
class ConnectingPart:
    """It is a part of operations that make their own connections; `share` of their service time, from 0 to 1."""

    name: str
    latency: Latency
    share: float | None


def scaling_figures(summary: RunSummary) -> tuple[ScalingFigure, ...]:
    """Return all curves of the run."""
    names = [curve.name for curve in summary.scaling]
    titles = [each.name if names.count(each.name) == 1 else f"{each.name} · {each.window}" for each in summary.scaling]
    common, headings = cut_shared_words(titles)
    return tuple(
        ScalingFigure(curve, title, heading, common, *_scaling_data(curve))
        for curve, title, heading in zip(summary.scaling, titles, headings, strict=True)
    )


def _scaling_data(curve: ScalingCurve) -> tuple[dict[str, Columns], dict[str, Any]]:
    """Return what is drawn of a curve, and the ends of its axes."""
    points: list[Row] = []
    for point in curve.points:
        kind = LEFT_OUT if point.saturated else "measured"
        points.append((point.clients, short(point.throughput_per_s), kind, format_kept_runs(point)))
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
        "knee": columns(("clients", "words"), [] if knee is None else [(short(knee), _knee(knee))]),
    }
    return data, {"top": short(_ROOM * highest), "low": first / _ROOM, "high": last * _ROOM}


def _law(curve: ScalingCurve) -> Iterator[tuple[float, float]]:
    """Yield the fitted curve, at equal distances on a logarithmic axis."""
    rate, sigma, kappa = curve.rate_per_s.value, curve.contention.value, curve.coherency.value
    if rate is None or sigma is None or kappa is None:
        return
    low, high = curve.points[0].clients, curve.points[-1].clients
    for step in range(_LAW_POINTS + 1):
        n = low * (high / low) ** (step / _LAW_POINTS)
        yield n, rate * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def describe_scaling(figure: ScalingFigure) -> str:
    """Describe where more clients stop helping, or why that is not known, and the generator's part in it."""
    curve, knee = figure.curve, figure.curve.knee_clients
    first, last = curve.points[0], curve.points[-1]
    rates = [f"{digits.rate(point.throughput_per_s)}/s" for point in (first, last)]
    sentences = [f"From {first.clients} to {_clients(last.clients)}, throughput went from {rates[0]} to {rates[1]}."]
    if knee.value is not None:
        at, peak = (digits.shown(*each).in_sentence() for each in ((knee, CLIENTS), (curve.peak_per_s, digits.PER_S)))
        sentences.append(f"More clients stop helping at {at}, with {peak}.")
    else:
        sentences.append(f"No knee is shown: {(knee.reason or 'no fit').removeprefix('no knee: ')}.")
    return " ".join([*sentences, *_left_out(curve)])


def _knee(clients: float) -> str:
    return f"knee: {digits.counted(round(clients), 'client')}"


def _left_out(curve: ScalingCurve) -> Iterator[str]:
    """Yield which runs are not in the fit, and why."""
    runs = sum(len(point.trials) for point in curve.points)
    out = runs - sum(point.kept_runs for point in curve.points)
    if out:
        which = f"{digits.count(out)} of its {digits.counted(runs, 'run')} {'is' if out == 1 else 'are'}"
        yield f"{which} left out of the fit, because the generator held its clients back."
    if curve.generator_limit_per_s is not None:
        yield f"With the most clients it came to its own limit, of about {digits.rate(curve.generator_limit_per_s)}/s."


def format_kept_runs(point: ScalingPoint) -> str:
    """Format how many of its runs are in the fit: `2 of 3`."""
    return f"{point.kept_runs} of {len(point.trials)}"


def _clients(number: int) -> str:
    return digits.counted(number, "client")


def describe_operations(row: WindowRow) -> str:
    """Answer for one window of operations: how long, how many a second, how many came to nothing."""
    window, found = row.window, row.window.operations
    clients = f" with {_clients(found.clients)}" if found and found.clients else ""
    times = describe_latency(window.latency_ms, "p99")
    done = (found and format_wall(found)) or format_throughput(window.throughput_per_s)
    return f"{times}; {done}{clients}; {_outcomes(found)}."


def format_wall(found: OperationsResult) -> str:
    """Format what a number of operations took: `200 answered in 4.02 s of wall time, 49.8 ops/s`; "" for a time."""
    if found.wall_s is None or found.per_wall_s is None:
        return ""
    done = digits.count(sum(kind.ok for kind in found.kinds))
    return f"{done} answered in {digits.rounded(found.wall_s)} s of wall time, {format_throughput(found.per_wall_s)}"


def _outcomes(found: OperationsResult | None) -> str:
    kinds = found.kinds if found else ()
    failed, unknown = sum(kind.failed for kind in kinds), sum(kind.unknown for kind in kinds)
    sentences = [f"{digits.count(failed)} failed"] if failed else []
    sentences += [f"{digits.count(unknown)} got no answer"] if unknown else []
    return ", ".join(sentences) or "none failed"


def format_throughput(per_s: float) -> str:
    """Format throughput: `1,450 ops/s`."""
    return f"{digits.rate(per_s)} ops/s"


def kind_per_s(window: WindowResult, kind: KindResult) -> float:
    """Return the kind's part of what was achieved a second."""
    done = sum(each.ok for each in window.operations.kinds) if window.operations else 0
    return window.throughput_per_s * kind.ok / done if done else 0.0


def format_kind(kind: KindResult) -> str:
    """Format a kind's name: `read-modify-write`."""
    return kind.kind.replace("_", "-")


def connecting_parts(found: ConnectingResult) -> tuple[ConnectingPart, ...]:
    """Return what a service time is made of, in the order of time, and what is left unexplained."""
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
        ConnectingPart(name, latency, accounted * mean / sum(sums) if sum(sums) else None)
        for (name, latency), mean in zip(present, sums, strict=True)
    )


def format_part_share(share: float | None) -> str:
    """Format a share: `12 %`, `0.4 %`."""
    if share is None or not math.isfinite(share):
        return digits.NONE
    return f"{digits.rounded(100 * share, 2)} %"
