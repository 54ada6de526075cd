"""The figures of transfers: which there are, and what they draw; of what there is no data of, there is none."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from stepbench import digits
from stepbench.contracts.transfer.plan import PLATFORMS, SOURCES
from stepbench.contracts.transfer.result import HourLevel, ProgressCurve, TransferCurve
from stepbench.experiments.transfer.words import NAMES, WEEKDAYS, name_of
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.experiments.transfer.words import TransferView
    from stepbench.report.run import Columns, Row

_ENTRY_PX, _LETTER_PX = 50, 7
_ROOM = 1.04
"""So much the axes go beyond what they show."""
_HOUR_ROW_PX = 22
OfPair = TypeVar("OfPair", TransferCurve, HourLevel, ProgressCurve)


def rate_figures(view: TransferView) -> tuple[list[doc.Chart], list[doc.Chart]]:
    """Return throughput by file size of each platform and source, and over time of each platform."""
    points, means = _points(view), _means(view)
    names = {what: name_of(what, view.stand_ins) for what in NAMES}
    sizes_mib = sorted({cell.file_size_mib for cell in view.findings.cells if cell.n})
    by_size, over_time = [], []
    for field, own, others in _parts(view):
        labels = [names[each] for each in others]
        title, place = f"{names[own]}: {' and '.join(labels)}", f"{view.anchor}-{own}"
        entry_px = _ENTRY_PX + _LETTER_PX * max(map(len, labels))
        params = {"field": field, "own": own, "names": names, "labels": labels, "entry_px": entry_px}
        rates, means_to = _rates(view, field, own), _band_ends(view, field, own)
        ends = {"low": sizes_mib[0] / 1.25, "high": sizes_mib[-1] * 1.25, "top": short(_ROOM * max(rates + means_to))}
        sized = {**params, "sizes": sizes_mib, **ends}
        drawing = Drawing(f"transfer-sizes-{place}", "transfer-sizes", {"points": points, "means": means}, sized)
        by_size.append(doc.Chart(drawing, f"Throughput by file size of {title}", title))
        if field == "platform":
            data, timed = (
                {"points": points, "changes": _changes(view, own)},
                {**params, "top": short(_ROOM * max(rates))},
            )
            drawing = Drawing(f"transfer-time-{place}", "transfer-time", data, timed)
            over_time.append(doc.Chart(drawing, f"Throughput over time of {title}", title))
    return by_size, over_time


def _parts(view: TransferView) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each platform with its sources, then each source with its platforms where there are several."""
    pairs = [(pair.platform, pair.source) for pair in view.charts.points if pair.seconds]
    for platform in PLATFORMS:
        if sources := [source for each, source in pairs if each == platform]:
            yield "platform", platform, sorted(sources)
    for source in SOURCES:
        platforms = [platform for platform, each in pairs if each == source]
        if len(platforms) > 1:
            yield "source", source, sorted(platforms, reverse=True)


def _points(view: TransferView) -> Columns:
    rows: list[Row] = [
        (pair.platform, pair.source, size, seconds, round(1_000 * at_s))
        for pair in view.charts.points
        for at_s, size, seconds in zip(pair.at_s, pair.file_size_mib, pair.seconds, strict=True)
    ]
    return columns(("platform", "source", "size_mib", "seconds", "at"), rows)


def _means(view: TransferView) -> Columns:
    """Return means with the ends of their bands; without an interval a band has no width there."""
    rows: list[Row] = []
    for cell in view.findings.cells:
        mean = cell.mean_mib_per_s
        if mean.value is not None:
            ends = (short(mean.value if end is None else max(end, 0.0)) for end in (mean.low, mean.high))
            rows.append((cell.platform, cell.source, cell.file_size_mib, short(mean.value), *ends, cell.n))
    return columns(("platform", "source", "size_mib", "mean", "low", "high", "n"), rows)


def _changes(view: TransferView, platform: str) -> Columns:
    rows: list[Row] = []
    for pair in view.findings.pairs:
        for change in pair.changes if pair.platform == platform else ():
            moments = (round(each.timestamp() * 1_000) for each in (change.at, change.earliest, change.latest))
            times = f"{digits.rounded(change.ratio.value or 0, 3)} {digits.TIMES.name}"
            at = change.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
            name, ratio = NAMES[pair.source], str(digits.shown(change.ratio, digits.TIMES))
            rows.append((*moments, name, f"{name} {times}", at, ratio))
    return columns(("at", "earliest", "latest", "words", "caption", "at_words", "ratio_words"), rows)


def _rates(view: TransferView, field: str, own: str) -> list[float]:
    return [
        size / seconds
        for pair in view.charts.points
        if getattr(pair, field) == own
        for size, seconds in zip(pair.file_size_mib, pair.seconds, strict=True)
    ]


def _band_ends(view: TransferView, field: str, own: str) -> list[float]:
    ends = (cell.mean_mib_per_s.high for cell in view.findings.cells if getattr(cell, field) == own)
    return [end for end in ends if end is not None]


def _by_pair(view: TransferView, items: Sequence[OfPair]) -> Iterator[tuple[str, str, list[OfPair]]]:
    """Yield those of each source and platform, with the end of their figure's place, and its title."""
    for pair in view.charts.points:
        own = [each for each in items if (each.platform, each.source) == (pair.platform, pair.source)]
        if own:
            yield f"{view.anchor}-{pair.platform}-{pair.source}", view.name(pair), own


def curve_figures(view: TransferView) -> Iterator[doc.Chart]:
    """Yield the distributions of transfer times by size."""
    for place, title, curves in _by_pair(view, view.charts.curves):
        labels = [f"{digits.count(curve.file_size_mib)} MiB" for curve in curves]
        rows: list[Row] = [
            (label, seconds, probability)
            for label, curve in zip(labels, curves, strict=True)
            for seconds, probability in zip(curve.seconds, curve.probability, strict=True)
        ]
        low_s, high_s = min(each.seconds[0] for each in curves), max(each.seconds[-1] for each in curves)
        params = {"labels": labels, "low": low_s / 1.15, "high": high_s * 1.15}
        names = list(_curve_names(labels, curves))
        data = {
            "curves": columns(("curve", "seconds", "probability"), rows),
            "names": columns(("curve", "label", "seconds", "probability"), names),
        }
        drawing = Drawing(f"transfer-curves-{place}", "transfer-curves", data, params)
        yield doc.Chart(drawing, f"Distribution of transfer times by size of {title}", title)


def _curve_names(labels: Sequence[str], curves: Sequence[TransferCurve]) -> Iterator[Row]:
    """Place each curve's name on it, the larger the file the lower, so that names of neighbours lie apart."""
    for number, (label, curve) in enumerate(zip(labels, curves, strict=True)):
        wanted = 0.88 - 0.76 * (number + 0.5) / len(curves)
        place = next(at for at, share in enumerate(curve.probability) if share >= wanted)
        yield (label, digits.count(curve.file_size_mib), curve.seconds[place], round(wanted, 3))


def hour_figures(view: TransferView) -> Iterator[doc.Chart]:
    """Yield a map for each pair, all with the same colours; none where all transfers began in one hour."""
    hours = view.charts.hours
    if len({(each.weekday, each.hour) for each in hours}) < 2:  # noqa: PLR2004 -- one is no comparison
        return
    furthest = _furthest(hours)
    for place, title, own in _by_pair(view, hours):
        days = sorted({each.weekday for each in own})
        rows: list[Row] = [(WEEKDAYS[each.weekday], each.hour, each.n, each.relative) for each in own]
        params: dict[str, Any] = {"days": [WEEKDAYS[day] for day in days]}
        params |= {"low": short(1 / furthest), "top": short(furthest)}
        data = {"hours": columns(("day", "hour", "n", "relative"), rows)}
        height_px = _HOUR_ROW_PX * max(len(days), 2)
        drawing = Drawing(f"transfer-hours-{place}", "transfer-hours", data, params, height_px)
        yield doc.Chart(drawing, f"Rates by hour and weekday of {title}", title)


def _furthest(hours: Sequence[HourLevel]) -> float:
    """Return how many times from 1 the levels go, but for one in twenty: an hour of one transfer is no level."""
    distances = sorted(abs(math.log(each.relative)) for each in hours)
    return max(1.1, math.exp(distances[int(0.95 * (len(distances) - 1))]))


def progress_figures(view: TransferView) -> Iterator[doc.Chart]:
    """Yield how some transfers of one size went on."""
    for place, pair, own in _by_pair(view, view.charts.progress):
        labels = [f"{curve.kind}, {digits.rounded(curve.seconds[-1])} s" for curve in own]
        rows: list[Row] = [
            (label, seconds, mib, datetime.fromtimestamp(curve.began_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
            for label, curve in zip(labels, own, strict=True)
            for seconds, mib in zip(curve.seconds, curve.mib, strict=True)
        ]
        data = {"progress": columns(("kind", "seconds", "mib", "began"), rows)}
        title = f"{pair}, {digits.count(own[0].file_size_mib)} MiB"
        drawing = Drawing(f"transfer-progress-{place}", "transfer-progress", data, {"labels": labels})
        yield doc.Chart(drawing, f"Progress of some transfers of {title}", title)
