from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.estimates import present
from tests.samples.experiments import matrix_results
from tests.samples.function_settings import setting_result, settings_run, version_results
from tests.samples.results import changed, numbered

from stepbench.contracts.measures import Estimate
from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.report.document import EMULATED, NINETY_FIVE, Chart, Figure, Multiples, plain
from stepbench.report.groups import groups
from stepbench.report.matrix import MAX_FIGURES, compared_figure, matrix_charts, repeats_section

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult

SIZE, RATE, KEYS = "target.batch_size", "phases[0].load[0].rate_per_s", "record.distinct_keys"


def charts_of(*results: TrialResult) -> tuple[Chart, ...]:
    """Return the charts of a run of these."""
    return matrix_charts(groups([result.summary for result in results]))


def sides_of(run: RunSummary) -> Chart:
    """Return the chart of the only two versions of a run."""
    (part,) = present(compared_figure(run, groups(run.trials))).parts
    assert isinstance(part, Multiples)
    (chart,) = part.charts
    return chart


def axes(chart: Chart) -> str:
    """Return which settings lie on its axes."""
    return plain(chart.notes[0].text)


def grid(*lists: tuple[str, list[Any]]) -> list[dict[str, Any]]:
    """Return all combinations."""
    points: list[dict[str, Any]] = [{}]
    for path, values in lists:
        points = [{**point, path: value} for point in points for value in values]
    return points


def test_one_dimension_is_a_line_up_in_the_order_of_its_values() -> None:
    """Values come in the plan's order, which may be 100, 1, 10."""
    (chart,) = charts_of(*matrix_results(grid((SIZE, [100, 1, 10])), repeats=2))
    assert (chart.drawing.chart, plain(chart.title)) == ("line-up", "postgresql")
    assert axes(chart) == "p50 against batch_size"
    assert chart.drawing.params["labels"] == ["1", "10", "100"]
    assert chart.drawing.data["means"]["value"] == ["1", "10", "100"]
    assert len(chart.drawing.data["runs"]["judged"]) == 6


def test_two_dimensions_are_a_heat_map() -> None:
    """The longer one lies across."""
    (chart,) = charts_of(*matrix_results(grid((SIZE, [1, 10]), (RATE, [10, 100, 1000]))))
    assert (chart.drawing.chart, axes(chart)) == ("heat-map", "across: rate_per_s; down: batch_size")
    assert (chart.drawing.params["labels"], chart.drawing.params["rows"]) == (["10", "100", "1,000"], ["1", "10"])
    assert len(chart.drawing.data["cells"]["words"]) == 6
    assert chart.drawing.height_px == 80


def test_tiles_are_written_on_in_a_colour_that_can_be_read() -> None:
    """White on the dark half of the scale, black on the bright one."""
    (chart,) = charts_of(*matrix_results(grid((SIZE, [1, 1000]), (RATE, [1, 1000]))))
    ink = dict(zip(chart.drawing.data["cells"]["judged"], chart.drawing.data["cells"]["ink"], strict=True))
    assert ink[min(value for value in ink if isinstance(value, float))] == "light"
    assert ink[max(value for value in ink if isinstance(value, float))] == "dark"


def test_a_combination_without_a_median_is_no_colour() -> None:
    """It must not look like the fastest."""
    results = list(matrix_results(grid((SIZE, [1, 10]), (RATE, [10, 100]))))
    window = results[0].summary.windows[0]
    times = window.latency_ms.model_copy(update={"p50": Estimate(value=None, reason="> drain limit")})
    results[0] = changed(results[0], windows=(window.model_copy(update={"latency_ms": times}),))
    (chart,) = charts_of(*results)
    cells = chart.drawing.data["cells"]
    assert (cells["judged"][0], cells["words"][0], cells["ink"][0]) == (None, "> drain limit", None)
    (chart,) = charts_of(*results[:1], *results[2:3])
    assert len(chart.drawing.data["runs"]["judged"]) == len(chart.drawing.data["means"]["judged"]) == 1


def test_a_third_dimension_makes_small_multiples_on_one_scale() -> None:
    """Figures of different scales would be compared all the same."""
    found = charts_of(*matrix_results(grid((SIZE, [1, 10, 100]), (RATE, [10, 100]), (KEYS, [1, 1000]))))
    assert [plain(chart.title) for chart in found] == [
        "postgresql, distinct_keys = 1",
        "postgresql, distinct_keys = 1,000",
    ]
    assert len({(chart.drawing.params["low"], chart.drawing.params["top"]) for chart in found}) == 1


def test_a_setting_that_does_not_vary_is_no_axis() -> None:
    """A matrix of one point is no figure either."""
    (chart,) = charts_of(*matrix_results(grid((SIZE, [1, 10]), (RATE, [100]))))
    assert (chart.drawing.chart, axes(chart)) == ("line-up", "p50 against batch_size")
    assert charts_of(*matrix_results(grid((SIZE, [1])))) == ()


def test_each_store_has_its_own_figure_unless_the_store_is_a_setting() -> None:
    """Two trials of a plan may vary the same thing."""
    points = grid((SIZE, [1, 10]))
    found = charts_of(*matrix_results(points), *matrix_results(points, store="dynamodb"))
    assert [plain(chart.title) for chart in found] == ["postgresql", "dynamodb"]
    (chart,) = charts_of(*matrix_results(grid(("target.store", ["s3", "etcd"]))))
    assert (plain(chart.title), chart.drawing.params["labels"]) == ("All trials", ["s3", "etcd"])


def test_a_matrix_has_the_name_of_its_trial_in_the_plan() -> None:
    """Two of one store are told apart by it, also where a store is a setting."""

    def named(base: str, store: str, points: list[dict[str, Any]]) -> list[TrialResult]:
        results = enumerate(matrix_results(points, store=store))
        return [changed(result, base=base, group=f"{base}-{number}") for number, result in results]

    found = charts_of(
        *named("small", "s3", grid((SIZE, [1, 10]))),
        *named("large", "s3", grid((SIZE, [10, 100]))),
        *named("stores", "s3", grid(("target.store", ["s3", "etcd"]))),
    )
    assert [plain(chart.title) for chart in found] == ["small", "large", "stores"]
    assert [chart.drawing.params["labels"] for chart in found] == [["1", "10"], ["10", "100"], ["s3", "etcd"]]


def test_two_like_matrices_of_one_store_are_kept_apart() -> None:
    """They differ in what the plan does not vary; drawn into one, the second would hide the first."""
    points = grid((SIZE, [1, 10]))
    other = [changed(result, group=f"b-{index}") for index, result in enumerate(matrix_results(points))]
    found = charts_of(*matrix_results(points), *other)
    assert [len(chart.drawing.data["runs"]["judged"]) for chart in found] == [2, 2]


def test_an_emulated_matrix_says_so() -> None:
    """Its plots may be saved one by one."""
    results = matrix_results(grid((SIZE, [1, 10])))
    assert EMULATED not in charts_of(*results)[0].title
    assert EMULATED in charts_of(changed(results[0], emulated=True), results[1])[0].title


def test_a_large_matrix_is_cut_to_what_a_page_can_hold() -> None:
    """The table has the rest."""
    paths = (SIZE, RATE, KEYS, "record.key_bytes", "phases[0].settle_s", "target.batching_window_s")
    found = charts_of(*matrix_results(grid(*[(path, [1, 10]) for path in paths])))
    assert len(found) == MAX_FIGURES


def test_no_line_joins_categories() -> None:
    """Between constant and Poisson arrivals there is nothing to pass through; between 1 and 10 writers there is."""
    named = charts_of(*matrix_results(grid(("arrivals", ["constant", "poisson"]))))
    numbered = charts_of(*matrix_results(grid((SIZE, [1, 10]))))
    assert [bool(chart.drawing.data["means"]["value"]) for chart in (*named, *numbered)] == [False, True]


def test_the_figure_shows_what_the_run_is_judged_by() -> None:
    """A plan that is judged by p99 was shown its medians."""
    results = matrix_results(grid((SIZE, [1, 10])))
    found = groups([result.summary for result in results])
    (chart,) = matrix_charts(found, parse_judge("p99"))
    own = [result.summary.windows[0].latency_ms.p99.value for result in results]
    assert (axes(chart), chart.drawing.measure) == ("p99 against batch_size", "p99")
    assert chart.drawing.data["runs"]["judged"] == own
    assert chart.drawing.data["means"]["judged"] == pytest.approx(own, rel=1e-5)


def test_a_rate_stands_on_an_axis_from_zero() -> None:
    """A logarithm would hide that one of two rates is half of the other, and has no place for a share of none."""
    found = groups([result.summary for result in matrix_results(grid((SIZE, [1, 10])))])
    (chart,) = matrix_charts(found, parse_judge("lost"))
    assert (chart.drawing.chart, chart.drawing.data["runs"]["judged"]) == ("line-up-from-0", [0.0, 0.0])
    assert str(chart.drawing.data["runs"]["words"][0]).startswith("0.00 % [0.00, ")


def test_what_is_no_time_has_its_unit_on_the_axis() -> None:
    """An axis from 0 to 0.01 was read as 0.01 %, and a unit of 15 letters hid the tile beside it."""
    results = matrix_results(grid((SIZE, [1, 10])), repeats=1)
    run = settings_run(results, "lost")
    section = present(repeats_section(run, groups(run.trials), "Trigger latency"))
    figure = section.parts[0]
    assert isinstance(figure, Figure)
    assert plain(figure.caption).startswith("Lost (%) against the settings that the plan varies; ")
    assert f"A mark is one run with its {NINETY_FIVE} interval; " in plain(figure.caption)
    (chart,) = matrix_charts(groups(run.trials), run.judge)
    assert (axes(chart), chart.drawing.measure) == ("lost (%) against batch_size", "lost (%)")
    high = chart.drawing.data["runs"]["high"][0]
    assert f"{high:.2f}]" in str(chart.drawing.data["runs"]["words"][0])
    assert chart.drawing.params["top"] == pytest.approx(1.15 * float(high or 0), rel=1e-3)


def test_a_run_without_an_interval_is_not_said_to_have_one() -> None:
    """A cost is one number of a run; its tile has room for that alone."""
    rng = random.Random(3)  # noqa: S311
    results = numbered(
        setting_result(f"dynamodb-{size}-{rate}", {SIZE: size, RATE: rate}, 40.0, 0, rng)
        for size in (1, 10) for rate in (5, 20)
    )  # fmt: skip
    run = settings_run(results, "cost")
    (tiles,) = matrix_charts(groups(run.trials), run.judge)
    by_hand = 0.2 + 0.04 / 2 * 16.6667
    words = tiles.drawing.data["cells"]["words"]
    assert [float(str(word)) for word in words] == [pytest.approx(by_hand, rel=0.03)] * 4
    run = settings_run(results[::2], "cost")
    figure = present(repeats_section(run, groups(run.trials), "Trigger latency")).parts[0]
    assert isinstance(figure, Figure)
    assert "A mark is one run; the line" in plain(figure.caption)


def test_two_versions_stand_side_by_side_with_what_was_planted() -> None:
    """The second is 10 % slower at each quantile; the verdict's own rules say so."""
    run = settings_run(version_results(0.1))
    chart = sides_of(run)
    rows = chart.drawing.data["rows"]
    assert rows["row"] == ["p50", "p90", "p99"]
    assert [str(text).partition(" [")[0] for text in rows["caption"][:2]] == ["p50: 10 % slower", "p90: 10 % slower"]
    assert chart.drawing.params["labels"] == ["before (3f2a91c0)", "after (b7d04e11)"]
    marks = chart.drawing.data["marks"]
    assert marks["judged"][:2] == [pytest.approx(50, rel=0.02), pytest.approx(55, rel=0.02)]
    low, high = ([float(end or 0) for end in marks[name]] for name in ("low", "high"))
    assert low[0] < 50 < high[0] < low[1] < 55 < high[1]
    assert len(chart.drawing.data["runs"]["judged"]) == 3 * 6
    assert matrix_charts(groups(run.trials), run.judge, run.verdicts) == ()


def test_single_runs_are_not_called_means() -> None:
    """Of one run each, an interval has nothing of how far runs lie apart."""
    run = settings_run(version_results(repeats=1))
    caption = plain(present(compared_figure(run, groups(run.trials))).caption)
    assert f"single runs with their {NINETY_FIVE} intervals, which do not include how far runs lie apart" in caption
    assert "mean" not in caption


def test_an_unchanged_copy_is_not_called_slower() -> None:
    """Its interval holds both directions."""
    run = settings_run(version_results(0.0))
    for text in sides_of(run).drawing.data["rows"]["caption"]:
        assert "slower to" in str(text) or "faster to" in str(text)


def test_versions_that_are_not_alike_have_no_difference() -> None:
    """Another store version on one side may be what differs."""
    results = [
        changed(result, provider=f"Amazon DynamoDB {number % 2}") for number, result in enumerate(version_results())
    ]
    run = settings_run(results)
    assert run.verdicts[0].unlike
    assert sides_of(run).drawing.data["rows"]["caption"] == [f"{name}: not compared" for name in ("p50", "p90", "p99")]


def test_snap_start_is_a_pair_and_other_settings_are_none() -> None:
    """Batch sizes are numbers: they have a line-up."""
    snap = settings_run(version_results(-0.3, path="target.function.snap_start", values=(False, True)))
    assert sides_of(snap).drawing.params["labels"] == ["SnapStart off", "SnapStart on"]
    assert "SnapStart on is faster" in snap.verdicts[0].text
    sizes = settings_run(matrix_results(grid((SIZE, [1, 10]))), "")
    assert compared_figure(sizes, groups(sizes.trials)) is None
