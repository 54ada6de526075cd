"""Throughput against the number of clients, and where more of them stop helping: sentences, figures, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.curves import cut_shared_words
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.across_trials import ScalingCurve, ScalingPoint
    from stepbench.contracts.result import RunSummary
    from stepbench.report.run import Columns
    from stepbench.report.run import Row as DataRow

_LAW_POINTS = 60
_ROOM = 1.15
LEFT_OUT = "left out"


class ScalingFigure(NamedTuple):
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
    points: list[DataRow] = [
        (each.clients, short(each.throughput_per_s), LEFT_OUT if each.saturated else "measured", format_kept_runs(each))
        for each in curve.points
    ]
    law: list[DataRow] = [(short(at), short(per_s), "fitted law") for at, per_s in _law(curve)]
    limit = curve.generator_limit_per_s
    knee = curve.knee_clients.value
    first, last = curve.points[0].clients, curve.points[-1].clients
    highest = max([point.throughput_per_s for point in curve.points] + [per_s for _, per_s in _law(curve)])
    names = ("clients", "per_s", "kind")
    data = {
        "points": columns((*names, "runs"), points),
        "law": columns(names, law),
        "limit": columns(names, [] if limit is None else [(None, short(limit), LEFT_OUT)]),
        "knee": columns(
            ("clients", "words"),
            [] if knee is None else [(short(knee), f"knee: {digits.counted(round(knee), 'client')}")],
        ),
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
    clients = digits.counted(last.clients, "client")
    sentences = [f"From {first.clients} to {clients}, throughput went from {rates[0]} to {rates[1]}."]
    if knee.value is not None:
        at, peak = (
            digits.shown(*each).in_sentence()
            for each in ((knee, numbers.UNITS["clients"]), (curve.peak_per_s, digits.PER_S))
        )
        sentences.append(f"More clients stop helping at {at}, with {peak}.")
    else:
        sentences.append(f"No knee is shown: {(knee.reason or 'no fit').removeprefix('no knee: ')}.")
    return " ".join([*sentences, *_left_out(curve)])


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


def scaling_sentences(figures: Sequence[ScalingFigure]) -> doc.Sentences:
    """Return where more clients stop helping, curve by curve."""
    said = (doc.Sentence((doc.Span(each.title, "strong"), f" {describe_scaling(each)}")) for each in figures)
    return doc.Sentences(tuple(said), "The other trials")


def scaling_nodes(figures: Sequence[ScalingFigure]) -> Iterator[doc.Node]:
    """Yield the curves, then the fitted law and the curves' numbers."""
    charts = tuple(
        doc.Chart(
            Drawing(f"scaling-{place}", "scaling", each.data, each.params),
            f"Operations per second of {each.title} against the number of clients",
            each.heading,
        )
        for place, each in enumerate(figures)
    )
    common = f" Common to all: {figures[0].common}." if figures[0].common else ""
    caption = (
        "Operations per second against the number of closed-loop clients, or of functions that a Map runs at once, "
        "means over the repeats, with the Universal Scalability Law fitted to the runs in which the generator did not "
        f"hold its clients back: it took at most a tenth of their time, and at most 80{digits.NBSP}% of its CPU. "
        "Left out: points without such a run. Upright: where the law's throughput is largest. Level: the generator's "
        f"own limit.{common}"
    )
    yield doc.Heading("Throughput against the number of clients", name="scaling")
    yield doc.Figure((doc.Multiples(charts),), caption, "still")
    fitted = [each for each in figures if each.curve.rate_per_s.value is not None]
    tables = (*((_law_table(fitted),) if fitted else ()), _points_table(figures))
    yield doc.Fold("The fitted law, and the numbers of the curves", tables)


def _law_table(figures: Sequence[ScalingFigure]) -> doc.Table:
    caption = (
        f"The fitted law, with {doc.NINETY_FIVE} intervals from refits to resampled residuals. Contention: the share "
        "that is serial. Coherency: what clients cost each other."
    )
    headings = ("One client", "Contention", "Coherency", "Knee", "Throughput there")
    table_columns = doc.columns("Trials", *headings)
    return doc.Table("scaling-table", caption, table_columns, doc.body(map(_law_row, figures)), phone=True)


def _law_row(each: ScalingFigure) -> doc.Row:
    curve = each.curve
    cells = (
        numbers.estimate("rate_per_s", curve.rate_per_s, "per_s"),
        numbers.estimate("contention", curve.contention, "share"),
        numbers.estimate("coherency", curve.coherency, "share"),
        numbers.estimate("knee_clients", curve.knee_clients, "clients"),
        numbers.estimate("peak_per_s", curve.peak_per_s, "per_s"),
    )
    return doc.Row(doc.Cell(each.title), cells, {"curve": curve.name})


def _points_table(figures: Sequence[ScalingFigure]) -> doc.Table:
    bodies = (
        doc.Body(tuple(map(_point_row, each.curve.points)), each.title, {"curve": each.curve.name}) for each in figures
    )
    headings = ("Runs", "Achieved, per s", "By the law", "In the fit")
    caption = "Operations a second by number of clients."
    table_columns = doc.columns("Clients", *headings)
    return doc.Table("scaling-points", caption, table_columns, tuple(bodies), "reference narrow")


def _point_row(point: ScalingPoint) -> doc.Row:
    law = digits.NONE if point.fitted_per_s is None else digits.rate(point.fitted_per_s)
    achieved: doc.Data = {"metric": "throughput_per_s", "value": point.throughput_per_s}
    cells = (
        doc.Cell(str(len(point.trials))),
        doc.Cell(digits.rate(point.throughput_per_s), achieved),
        numbers.value("fitted_per_s", point.fitted_per_s, law),
        numbers.value("kept_runs", point.kept_runs, format_kept_runs(point)),
    )
    return doc.Row(doc.Cell(digits.count(point.clients)), cells, {"clients": point.clients})
