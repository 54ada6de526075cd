"""Where the marks of a small line chart stand: numbers for an SVG, whose looks are the style sheet's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.dashboard import TrendMark, TrendPoint, TrendQuantile, TrendSeries
    from stepbench.contracts.measures import Estimate

WIDTH, HEIGHT = 480, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 8, 28, 22
_TICKS = 3
_AIR = 0.08
_FLAT = 0.1


class Spot(NamedTuple):
    """A run's number: where it is, its interval's ends, whether it has one, and what was found there."""

    x: float
    y: float
    low: float
    high: float
    sure: bool
    title: str
    marks: tuple[TrendMark, ...]


class Tick(NamedTuple):
    """A line of the grid, and its number."""

    y: float
    label: str


class Chart(NamedTuple):
    """A chart of one quantile. `line` is an SVG path, broken where a run has no number."""

    quantile: str
    spots: tuple[Spot, ...]
    line: str
    ticks: tuple[Tick, ...]
    baseline: Tick | None
    first: str
    last: str
    width: int = WIDTH
    height: int = HEIGHT


def trend_chart(series: TrendSeries, quantile: TrendQuantile) -> Chart | None:
    """Return the chart of a series; None where no run has a number."""
    estimates: list[Estimate] = [getattr(point, quantile) for point in series.points]
    baseline = series.baselines.get(quantile)
    ends = [end for each in [*estimates, *([baseline] if baseline else [])] for end in _ends(each)]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    air = (high - low) * _AIR or abs(high) * _FLAT or 1.0
    scale = _Scale(max(low - air, 0.0) if low >= 0 else low - air, high + air, len(estimates))
    spots = tuple(_spots(series.points, estimates, quantile, scale))
    unit = digits.unit_for(high)
    step = (scale.high - scale.low) / (_TICKS - 1)
    values = [scale.low + number * step for number in range(_TICKS)]
    first, last = series.points[0].submitted_at, series.points[-1].submitted_at
    form = "%Y-%m-%d %H:%M" if first.date() == last.date() else "%Y-%m-%d"
    return Chart(
        quantile=quantile,
        spots=spots,
        line=_line(estimates, scale),
        ticks=tuple(Tick(scale.y(each), f"{digits.rounded(each * unit.per_ms)} {unit.name}") for each in values),
        baseline=None
        if baseline is None or baseline.value is None
        else Tick(scale.y(baseline.value), f"baseline {digits.latency(baseline.value)}"),
        first=format(first, form),
        last=format(last, form),
    )


class _Scale(NamedTuple):
    """Numbers to places; runs stand at equal distances, whatever the time between them."""

    low: float
    high: float
    runs: int

    def x(self, place: int) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * ((place + 0.5) / self.runs), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share, 1)


def _spots(points: Sequence[TrendPoint], estimates: Sequence[Estimate], quantile: str, scale: _Scale) -> Iterator[Spot]:
    for place, (point, estimate) in enumerate(zip(points, estimates, strict=True)):
        if estimate.value is None:
            continue
        ends = list(_ends(estimate))
        marks = tuple(mark for mark in point.marks if mark.quantile == quantile)
        title = f"{point.submitted_at:%Y-%m-%d %H:%M}: {digits.shown(estimate)}"
        title = ". ".join([title, *(mark.text for mark in marks)])
        y = scale.y(estimate.value)
        yield Spot(scale.x(place), y, scale.y(min(ends)), scale.y(max(ends)), estimate.low is not None, title, marks)


def _line(estimates: Sequence[Estimate], scale: _Scale) -> str:
    parts, pen = [], "M"
    for place, estimate in enumerate(estimates):
        if estimate.value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{scale.x(place)} {scale.y(estimate.value)}")
        pen = "L"
    return "".join(parts)


def _ends(estimate: Estimate) -> Iterator[float]:
    """Yield the number and its interval's ends, as far as there are any."""
    yield from (each for each in (estimate.value, estimate.low, estimate.high) if each is not None)
