"""The figures of transfers: which there are, what they draw, and their names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.contracts.transfer.plan import PLATFORMS, SOURCES
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.transfer.result import (
        HourLevel,
        ProgressCurve,
        TransferChartData,
        TransferCurve,
        TransferFindings,
    )
    from stepbench.report.run import Columns, Row

NAMES = {"lambda": "Lambda", "fargate": "Fargate", "s3": "S3", "efs": "EFS"}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ENTRY_PX, _LETTER_PX = 50, 7
_ROOM = 1.04
"""So much the axes go beyond what they show."""
_HOUR_ROW_PX = 22


@dataclass(frozen=True)
class TransferFigures:
    """All figures of one trial, or of a dataset. `left_out`: transfers that no point stands for."""

    sizes: tuple[doc.Chart, ...]
    over_time: tuple[doc.Chart, ...]
    curves: tuple[doc.Chart, ...]
    hours: tuple[doc.Chart, ...]
    progress: tuple[doc.Chart, ...]
    left_out: int


def name_of(what: str, stand_ins: Mapping[str, str]) -> str:
    """Name a platform or source, with what stood in for it: `EFS (local file system)`."""
    return f"{NAMES[what]} ({stand_ins[what]})" if stand_ins.get(what) else NAMES[what]


def transfer_figures(
    anchor: str, findings: TransferFindings, charts: TransferChartData, stand_ins: Mapping[str, str]
) -> TransferFigures:
    """Return all figures; of what there is no data of, there is none."""
    names = {what: name_of(what, stand_ins) for what in NAMES}
    points, means = _points(charts), _means(findings)
    return TransferFigures(
        sizes=tuple(_size_figures(anchor, findings, charts, names, {"points": points, "means": means})),
        over_time=tuple(_time_figures(anchor, findings, charts, names, points)),
        curves=tuple(_curve_figures(anchor, charts, names)),
        hours=tuple(_hour_figures(anchor, charts, names)),
        progress=tuple(_progress_figures(anchor, charts, names)),
        left_out=sum(pair.left_out for pair in charts.points),
    )


def _points(charts: TransferChartData) -> Columns:
    rows: list[Row] = [
        (pair.platform, pair.source, size, seconds, round(1_000 * at_s))
        for pair in charts.points
        for at_s, size, seconds in zip(pair.at_s, pair.file_size_mib, pair.seconds, strict=True)
    ]
    return columns(("platform", "source", "size_mib", "seconds", "at"), rows)


def _means(findings: TransferFindings) -> Columns:
    rows: list[Row] = [
        (cell.platform, cell.source, cell.file_size_mib, short(mean.value), _end(mean.low, mean.value),
         _end(mean.high, mean.value), cell.n)
        for cell in findings.cells
        if (mean := cell.mean_mib_per_s).value is not None
    ]  # fmt: skip
    return columns(("platform", "source", "size_mib", "mean", "low", "high", "n"), rows)


def _end(limit: float | None, value: float) -> float:
    """Return an end of the band; without an interval it has no width there."""
    return short(value if limit is None else max(limit, 0.0))


def _changes(findings: TransferFindings, platform: str) -> Columns:
    rows: list[Row] = [
        (_ms(change.at), _ms(change.earliest), _ms(change.latest),
         NAMES[pair.source], f"{NAMES[pair.source]} {digits.rounded(change.ratio.value or 0, 3)} {digits.TIMES.name}",
         change.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
         str(digits.shown(change.ratio, digits.TIMES)))
        for pair in findings.pairs
        for change in pair.changes
        if pair.platform == platform
    ]  # fmt: skip
    return columns(("at", "earliest", "latest", "words", "caption", "at_words", "ratio_words"), rows)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)


def _size_figures(
    anchor: str,
    findings: TransferFindings,
    charts: TransferChartData,
    names: Mapping[str, str],
    data: Mapping[str, Columns],
) -> Iterator[doc.Chart]:
    sizes = sorted({cell.file_size_mib for cell in findings.cells if cell.n})
    for field, own, others in _parts(charts):
        params = _params(field, own, others, names) | {
            "sizes": sizes, "low": sizes[0] / 1.25, "high": sizes[-1] * 1.25, "top": _top(findings, charts, field, own),
        }  # fmt: skip
        place = f"transfer-sizes-{anchor}-{own}"
        title = f"{names[own]}: {' and '.join(names[each] for each in others)}"
        yield doc.Chart(Drawing(place, "transfer-sizes", data, params), f"Throughput by file size of {title}", title)


def _time_figures(
    anchor: str, findings: TransferFindings, charts: TransferChartData, names: Mapping[str, str], points: Columns
) -> Iterator[doc.Chart]:
    for field, own, others in _parts(charts):
        if field == "platform":
            params = _params(field, own, others, names) | {"top": _top(None, charts, field, own)}
            data = {"points": points, "changes": _changes(findings, own)}
            place = f"transfer-time-{anchor}-{own}"
            title = f"{names[own]}: {' and '.join(names[each] for each in others)}"
            yield doc.Chart(Drawing(place, "transfer-time", data, params), f"Throughput over time of {title}", title)


def _parts(charts: TransferChartData) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each platform with its sources, then each source with its platforms where there are several."""
    pairs = [(pair.platform, pair.source) for pair in charts.points if pair.seconds]
    for platform in PLATFORMS:
        if sources := [source for each, source in pairs if each == platform]:
            yield "platform", platform, sorted(sources)
    for source in SOURCES:
        platforms = [platform for platform, each in pairs if each == source]
        if len(platforms) > 1:
            yield "source", source, sorted(platforms, reverse=True)


def _params(field: str, own: str, others: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    labels = [names[each] for each in others]
    return {"field": field, "own": own, "names": dict(names), **_legend(labels)}


def _legend(labels: Sequence[str]) -> dict[str, Any]:
    """Return a legend's labels, and about how wide an entry is."""
    return {"labels": list(labels), "entry_px": _ENTRY_PX + _LETTER_PX * max(map(len, labels))}


def _top(findings: TransferFindings | None, charts: TransferChartData, field: str, own: str) -> float:
    """Return where the axis of rates ends: above all points and the ends of all bands."""
    rates = [
        size / seconds
        for pair in charts.points
        if getattr(pair, field) == own
        for size, seconds in zip(pair.file_size_mib, pair.seconds, strict=True)
    ]
    bands = [
        cell.mean_mib_per_s.high
        for cell in (findings.cells if findings else ())
        if getattr(cell, field) == own and cell.mean_mib_per_s.high is not None
    ]
    return short(_ROOM * max([*rates, *bands]))


def _curve_figures(anchor: str, charts: TransferChartData, names: Mapping[str, str]) -> Iterator[doc.Chart]:
    for pair in charts.points:
        curves = [each for each in charts.curves if (each.platform, each.source) == (pair.platform, pair.source)]
        if not curves:
            continue
        labels = [_mib(curve) for curve in curves]
        rows: list[Row] = [
            (label, seconds, probability)
            for label, curve in zip(labels, curves, strict=True)
            for seconds, probability in zip(curve.seconds, curve.probability, strict=True)
        ]
        params = {"labels": labels, "low": _least(curves) / 1.15, "high": _most(curves) * 1.15}
        data = {
            "curves": columns(("curve", "seconds", "probability"), rows),
            "names": columns(("curve", "label", "seconds", "probability"), list(_curve_names(curves))),
        }
        place = f"transfer-curves-{anchor}-{pair.platform}-{pair.source}"
        title = f"{names[pair.source]} on {names[pair.platform]}"
        yield doc.Chart(
            Drawing(place, "transfer-curves", data, params), f"Distribution of transfer times by size of {title}", title
        )


def _curve_names(curves: Sequence[TransferCurve]) -> Iterator[Row]:
    """Place each curve's name on it, the larger the file the lower, so that names of neighbours lie apart."""
    for number, curve in enumerate(curves):
        wanted = 0.88 - 0.76 * (number + 0.5) / len(curves)
        place = next(at for at, share in enumerate(curve.probability) if share >= wanted)
        yield (_mib(curve), digits.count(curve.file_size_mib), curve.seconds[place], round(wanted, 3))


def _mib(curve: TransferCurve) -> str:
    return f"{digits.count(curve.file_size_mib)} MiB"


def _least(curves: Sequence[TransferCurve]) -> float:
    return min(curve.seconds[0] for curve in curves)


def _most(curves: Sequence[TransferCurve]) -> float:
    return max(curve.seconds[-1] for curve in curves)


def _hour_figures(anchor: str, charts: TransferChartData, names: Mapping[str, str]) -> Iterator[doc.Chart]:
    """Yield a map for each pair, all with the same colours; none where all transfers began in one hour."""
    if len({(each.weekday, each.hour) for each in charts.hours}) < 2:  # noqa: PLR2004 -- one is no comparison
        return
    furthest = _furthest(charts.hours)
    for pair in charts.points:
        own = [each for each in charts.hours if (each.platform, each.source) == (pair.platform, pair.source)]
        days = sorted({each.weekday for each in own})
        rows: list[Row] = [(WEEKDAYS[each.weekday], each.hour, each.n, each.relative) for each in own]
        params = {"days": [WEEKDAYS[day] for day in days], "low": short(1 / furthest), "top": short(furthest)}
        data = {"hours": columns(("day", "hour", "n", "relative"), rows)}
        place = f"transfer-hours-{anchor}-{pair.platform}-{pair.source}"
        title = f"{names[pair.source]} on {names[pair.platform]}"
        height_px = _HOUR_ROW_PX * max(len(days), 2)
        yield doc.Chart(
            Drawing(place, "transfer-hours", data, params, height_px), f"Rates by hour and weekday of {title}", title
        )


def _furthest(hours: Sequence[HourLevel]) -> float:
    """Return how many times from 1 the levels go, but for one in twenty: an hour of one transfer is no level."""
    distances = sorted(abs(math.log(each.relative)) for each in hours)
    return max(1.1, math.exp(distances[int(0.95 * (len(distances) - 1))]))


def _progress_figures(anchor: str, charts: TransferChartData, names: Mapping[str, str]) -> Iterator[doc.Chart]:
    for pair in charts.points:
        own = [each for each in charts.progress if (each.platform, each.source) == (pair.platform, pair.source)]
        if not own:
            continue
        labels = [_describe_progress(each) for each in own]
        rows: list[Row] = [
            (label, seconds, mib, datetime.fromtimestamp(curve.began_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
            for label, curve in zip(labels, own, strict=True)
            for seconds, mib in zip(curve.seconds, curve.mib, strict=True)
        ]
        data = {"progress": columns(("kind", "seconds", "mib", "began"), rows)}
        place = f"transfer-progress-{anchor}-{pair.platform}-{pair.source}"
        title = f"{names[pair.source]} on {names[pair.platform]}, {digits.count(own[0].file_size_mib)} MiB"
        yield doc.Chart(
            Drawing(place, "transfer-progress", data, {"labels": labels}),
            f"Progress of some transfers of {title}",
            title,
        )


def _describe_progress(curve: ProgressCurve) -> str:
    return f"{curve.kind}, {digits.rounded(curve.seconds[-1])} s"
