from __future__ import annotations

from typing import TYPE_CHECKING

from tests.samples.estimates import present

from stepbench.contracts.chart_data import SeriesPoint, StallSpan
from stepbench.report.distribution import curve_folds
from stepbench.report.times import MAX_POINTS, time_figure

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult
    from stepbench.report.times import TimeFigure


def point(second: float, p50_ms: float | None = 2.0, phase: str = "load") -> SeriesPoint:
    """Build one second."""
    return SeriesPoint(
        second=second, phase=phase, offered=10, acknowledged=9, arrived=8, p50_ms=p50_ms, p90_ms=3.0, max_ms=4.0
    )


def over_time(result: TrialResult, *points: SeriesPoint) -> TimeFigure:
    """Draw a result with these seconds only."""
    return present(time_figure(result.model_copy(update={"series": points})))


def test_a_gap_between_phases_breaks_the_line(results: tuple[TrialResult, ...]) -> None:
    """A line through the settle time would show latencies that nobody measured."""
    figure = over_time(results[0], point(0), point(1), point(5, phase="next"))
    assert figure.seconds["second"] == [0, 1, 2, 5]
    assert figure.seconds["p50_ms"] == [2.0, 2.0, None, 2.0]
    assert (figure.bin_s, figure.not_drawn, figure.top_per_s) == (1, 0, 12.5)


def test_seconds_lie_where_their_phase_does(results: tuple[TrialResult, ...]) -> None:
    """A phase begins at a fraction of a second; its points stay a second apart."""
    points = (point(0), point(1), point(7.98, phase="next"), point(8.98, phase="next"))
    figure = over_time(results[0], *points)
    assert figure.seconds["second"] == [0, 1, 2, 7.98, 8.98]


def test_lost_seconds_do_not_drop_out_of_a_thinned_median(results: tuple[TrialResult, ...]) -> None:
    """Two of three seconds have their median beyond the drain limit: so has the point that stands for them."""
    points = [point(second, p50_ms=None if second % 3 else 1.0) for second in range(3 * MAX_POINTS)]
    figure = over_time(results[0], *points)
    assert (figure.bin_s, figure.seconds["p50_ms"][0], figure.seconds["p90_ms"][0]) == (3, None, 3.0)


def test_seconds_in_which_nobody_watched_are_no_part_of_a_thinned_median(results: tuple[TrialResult, ...]) -> None:
    """Two of three seconds have no latency, since all that was acknowledged in them is in a watch gap."""
    gap = {"p50_ms": None, "watch_gap": 9}
    points = [point(second).model_copy(update=gap if second % 3 else {}) for second in range(3 * MAX_POINTS)]
    assert over_time(results[0], *points).seconds["p50_ms"][0] == 2.0


def test_a_long_trial_is_thinned_to_what_a_screen_can_show(results: tuple[TrialResult, ...]) -> None:
    """An hour in seconds would make the page heavy; maxima survive the thinning."""
    points = [point(second) for second in range(3_600)]
    points[1_234] = points[1_234].model_copy(update={"max_ms": 900.0, "offered": 19})
    figure = over_time(results[0], *points)
    assert (figure.bin_s, len(figure.seconds["second"])) == (9, MAX_POINTS)
    assert figure.seconds["max_ms"][137] == 900.0
    assert figure.seconds["offered"][137] == 11.0


def test_points_at_or_below_zero_are_counted_not_drawn(results: tuple[TrialResult, ...]) -> None:
    """The caption says how many, so that a gap is not taken for silence."""
    figure = over_time(results[0], point(0, p50_ms=-0.5), point(1, p50_ms=None))
    assert (figure.not_drawn, figure.seconds["p50_ms"]) == (1, [None, None])


def test_nothing_recorded_makes_no_figure(results: tuple[TrialResult, ...]) -> None:
    """Empty axes would look like a store without latency."""
    empty = results[0].model_copy(update={"series": (), "ecdf": ()})
    assert time_figure(empty) is None
    assert list(curve_folds([empty])) == []


def test_a_trial_of_which_all_was_lost_has_rates_and_no_latency(results: tuple[TrialResult, ...]) -> None:
    """Empty axes would look as if something had failed to load."""
    lost = point(0, p50_ms=None).model_copy(update={"p90_ms": None, "max_ms": None})
    assert not over_time(results[0], lost).has_latency
    assert over_time(results[0], lost, point(1)).has_latency


def test_stalls_are_drawn_and_the_first_are_told(results: tuple[TrialResult, ...]) -> None:
    """A reader on paper has no tooltip; a hundred times in a caption would be no caption."""
    stalls = [StallSpan(phase="load", from_s=at, to_s=at + 0.5, in_flight=7, events=9) for at in (3.00004, 5, 8, 9, 11)]
    drawn = [present(time_figure(results[0].model_copy(update={"stalls": stalls[:count]}))) for count in (0, 1, 5)]
    assert drawn[1].stalls == {"from_s": [3.0], "to_s": [3.5], "in_flight": [7], "events": [9]}
    told = ["", "3.0 to 3.5 s", "3.0 to 3.5 s, 5.0 to 5.5 s, 8.0 to 8.5 s, and 2 times more"]
    assert [each.stalled for each in drawn] == told
