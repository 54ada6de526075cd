"""Where a trend's numbers stand in its small chart."""

from __future__ import annotations

from datetime import UTC, datetime

from stepbench.contracts.dashboard import TrendMark, TrendPoint, TrendSeries
from stepbench.contracts.measures import Estimate
from stepbench.dashboard.charts import HEIGHT, WIDTH, trend_chart

NOTHING = Estimate(value=None, reason="nothing was measured")


def _series(*values: Estimate, **fields: object) -> TrendSeries:
    points = tuple(
        TrendPoint(
            run_id=f"r{day}", submitted_at=datetime(2026, 1, day, tzinfo=UTC), state="succeeded", p50=value, p99=NOTHING
        )
        for day, value in enumerate(values, 1)
    )
    return TrendSeries.model_validate({"name": "s3 · steady", "points": points, **fields})


def test_larger_numbers_stand_higher_and_later_runs_further_right() -> None:
    """SVG counts from the top."""
    chart = trend_chart(_series(Estimate(value=10), Estimate(value=20), Estimate(value=15)), "p50")
    assert chart is not None
    a, b, c = chart.spots
    assert a.x < b.x < c.x
    assert b.y < c.y < a.y
    assert all(0 < spot.x < WIDTH and 0 < spot.y < HEIGHT for spot in chart.spots)
    assert c.y == (a.y + b.y) / 2


def test_an_interval_reaches_from_its_low_to_its_high_end() -> None:
    """And the chart has room for it."""
    chart = trend_chart(_series(Estimate(value=10, low=5, high=30), Estimate(value=11)), "p50")
    assert chart is not None
    assert chart.spots[0].low > chart.spots[0].y > chart.spots[0].high > 0
    assert chart.spots[1].low == chart.spots[1].y == chart.spots[1].high


def test_a_run_without_a_number_breaks_the_line() -> None:
    """A line across it would show a number that nobody measured."""
    chart = trend_chart(_series(Estimate(value=1), NOTHING, Estimate(value=2)), "p50")
    assert chart is not None
    assert len(chart.spots) == 2
    assert chart.line.count("M") == 2
    assert "L" not in chart.line


def test_equal_numbers_have_a_chart_too() -> None:
    """Their range is nothing, by which nothing can be divided."""
    chart = trend_chart(_series(Estimate(value=3), Estimate(value=3)), "p50")
    assert chart is not None
    assert len({spot.y for spot in chart.spots}) == 1


def test_without_any_number_there_is_none() -> None:
    """An empty frame says nothing."""
    assert trend_chart(_series(NOTHING, NOTHING), "p50") is None


def test_marks_stand_at_their_run_and_quantile() -> None:
    """What was found of p99 is not p50's."""
    found = [TrendMark(quantile=name, verdict="regression", text=f"{name} got worse.") for name in ("p50", "p99")]
    series = _series(Estimate(value=1), Estimate(value=2), baselines={"p50": Estimate(value=1)})
    marked = series.points[1].model_copy(update={"marks": tuple(found)})
    chart = trend_chart(series.model_copy(update={"points": (series.points[0], marked)}), "p50")
    assert chart is not None
    assert [len(spot.marks) for spot in chart.spots] == [0, 1]
    assert chart.spots[1].title.endswith("p50 got worse.")
    assert chart.baseline is not None
    assert chart.baseline.y == chart.spots[0].y
