"""The figures of a phase with load steps, from made-up results and from analysed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.samples.experiments import RATES_PER_S
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.results import changed, sample_manifest, sample_page, sample_summary

from stepbench.contracts.chart_data import RateBins, StepSpan, WindowSpan
from stepbench.experiments.report.page import drawings
from stepbench.report.document import Fold, plain
from stepbench.report.run import run_view
from stepbench.report.steps import MAX_ROWS, MAX_STRIPS, recorded_phases, step_figure, steps_section
from stepbench.report.times import MAX_POINTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import TrialResult
    from stepbench.report.figures import Drawing


class Figure(NamedTuple):
    """A phase's figure: its charts' drawings, and its caption."""

    latency: Drawing
    rates: Drawing
    strips: tuple[Drawing, ...]
    caption: str


def figures_of(result: TrialResult) -> list[Figure]:
    """Return a figure for each phase."""
    (view,) = run_view(sample_summary([result]), [result], sample_manifest()).trials
    found = [step_figure(view, number, bins) for number, bins in enumerate(recorded_phases(result))]
    return [Figure(*_two_and_more([*drawings(each.parts)]), plain(each.caption)) for each in found]


def _two_and_more(found: list[Drawing]) -> tuple[Drawing, Drawing, tuple[Drawing, ...]]:
    latency, rates, *strips = found
    return latency, rates, tuple(strips)


def figure_of(result: TrialResult) -> Figure:
    """Return the result's only figure."""
    (figure,) = figures_of(result)
    return figure


def test_time_is_counted_from_the_phase(elastic: tuple[TrialResult, ...]) -> None:
    """The plan counts its windows so, and change points are; the phase begins 12 s into the trial."""
    figure = figure_of(elastic[0])
    assert (figure.latency.data["seconds"]["second"][0], figure.latency.data["seconds"]["second"][-1]) == (0.0, 79.0)
    assert figure.latency.data["steps"]["caption"] == ["50/s", "100/s"]
    assert (figure.latency.data["steps"]["from_s"], figure.latency.data["steps"]["kind"]) == (
        [0.0, 40.0],
        ["even", "odd"],
    )
    assert figure.latency.params["end"] == 80.0


def time_lines_of(results: Sequence[TrialResult]) -> list[tuple[list[Drawing], Fold]]:
    """Return the drawings of each figure that has a row for each trial, with its fold."""
    section = steps_section(run_view(sample_summary(results), results, sample_manifest()))
    assert section is not None
    folds = [(list(drawings(part.parts)), part) for part in section.parts if isinstance(part, Fold)]
    return [(found, fold) for found, fold in folds if found and found[0].place.startswith("time-line")]


def test_trials_across_a_step_have_a_row_each_on_one_time_axis(elastic: tuple[TrialResult, ...]) -> None:
    """The second is shorter: its row is as long as the first's, or the steps would not stand below each other."""
    short = elastic[1].phases[1].model_copy(update={"to_s": elastic[1].phases[1].to_s - 30})
    results = (elastic[0], elastic[1].model_copy(update={"phases": (elastic[1].phases[0], short)}))
    ((rows, fold),) = time_lines_of(results)
    assert [(row.chart, row.params["end"]) for row in rows] == [("time-line-first", 80.0), ("time-line", 80.0)]
    assert [row.data["steps"]["caption"] for row in rows] == [["50/s", "100/s"]] * 2
    assert [row.data["windows"]["window"] for row in rows] == [["before", "after"]] * 2
    assert (fold.summary, fold.plain) == ("Time lines below each other: postgresql-elastic and s3-elastic", True)


def test_a_rows_axis_fits_its_own_lines(elastic: tuple[TrialResult, ...]) -> None:
    """Neither another store's latency nor a single maximum flattens them."""
    ((rows, _),) = time_lines_of(elastic)
    for row in rows:
        seconds = row.data["seconds"]
        drawn = [value for name in ("p50_ms", "p90_ms") for value in seconds[name] if isinstance(value, float)]
        assert row.params["low"] < min(drawn)
        assert max(drawn) < row.params["top"] < 10 * max(drawn)


def test_one_trial_alone_and_repeats_have_no_rows(elastic: tuple[TrialResult, ...]) -> None:
    """A single row is the figure that each trial has anyway; repeats would be as many rows of the same."""
    assert time_lines_of(elastic[:1]) == []
    repeats = [changed(elastic[0], name=f"again-{number}", repeat=number) for number in (1, 2)]
    ((rows, fold),) = time_lines_of((*elastic, *repeats))
    assert len(rows) == 2
    assert fold.summary.startswith("Time lines below each other, of repeats the first: ")


def test_many_rows_are_spread_over_figures(elastic: tuple[TrialResult, ...]) -> None:
    """The first is in sight, the others are folded."""
    many = [changed(elastic[0], name=f"trial-{number}", index=number) for number in range(MAX_ROWS + 1)]
    found = time_lines_of(many)
    assert [(len(rows), fold.plain) for rows, fold in found] == [(MAX_ROWS, True), (1, False)]
    places = [row.place for rows, _ in found for row in rows]
    assert len(set(places)) == MAX_ROWS + 1


def test_bins_are_summed_to_a_readable_second_and_keep_their_extremes(elastic: tuple[TrialResult, ...]) -> None:
    """A hover tells how even the 100 ms bins were: here the generator stood still for three, then sent all at once."""
    figure = figure_of(elastic[1])
    assert "in bins of 1\N{NO-BREAK SPACE}s." in figure.caption
    assert figure.rates.data["rates"]["sent"][:2] == [50.0, 50.0]
    assert figure.rates.data["rates"]["offered"][40] == figure.rates.data["rates"]["sent"][40] == 100.0
    assert (figure.rates.data["rates"]["detail"][0], figure.rates.data["rates"]["detail"][40]) == ("5 to 5", "0 to 40")
    assert (figure.rates.data["rates"]["from_s"][-1], figure.rates.data["rates"]["to_s"][-2]) == (80.0, 80.0)


def test_the_close_up_shows_each_bin_as_it_was_counted(elastic: tuple[TrialResult, ...]) -> None:
    """It shows 5 s to either side, in seconds since the step."""
    (strip,) = figure_of(elastic[1]).strips
    assert (strip.data["bins"]["from_s"][0], strip.data["bins"]["to_s"][-1], len(strip.data["bins"]["sent"])) == (
        -5.0,
        5.0,
        100,
    )
    assert strip.data["bins"]["sent"][49:55] == [5, 0, 0, 0, 40, 10]
    assert strip.params["top"] == pytest.approx(46.0)


def test_gaps_are_told_for_every_step(elastic: tuple[TrialResult, ...]) -> None:
    """There is none in the first trial, and one of 300 ms with 30 events due in the second."""
    first, second = (figure_of(result).caption for result in elastic)
    assert "No send gap of 100 ms or more within 5 s of the step at 40 s." in first
    assert "is 300 ms or somewhat more (3 bins of 100 ms); 30 events were due in it." in second


def test_change_points_that_are_none_are_not_drawn(elastic: tuple[TrialResult, ...]) -> None:
    """The second store's latency stays as it was."""
    assert figure_of(elastic[0]).latency.data["changes"]["series"] == ["achieved_per_s", "latency_ms"]
    assert figure_of(elastic[1]).latency.data["changes"]["series"] == ["achieved_per_s"]
    assert figure_of(elastic[1]).latency.data["changes"]["words"] == ["40.10 s [40.00, 40.20]"]


def test_windows_are_marked_unless_they_are_the_whole_phase(elastic: tuple[TrialResult, ...]) -> None:
    """A bar from end to end says nothing."""
    span = elastic[0].phases[1]
    assert figure_of(elastic[0]).latency.data["windows"]["middle_s"] == [30.0, 50.0]
    whole = span.model_copy(update={"windows": (span.windows[0].model_copy(update={"from_s": 0, "to_s": 80}),)})
    assert figure_of(elastic[0].model_copy(update={"phases": (whole,)})).latency.data["windows"]["window"] == []


def test_the_axes_leave_room_for_names_above_the_lines(elastic: tuple[TrialResult, ...]) -> None:
    """The window's name would lie on the maxima otherwise."""
    figure = figure_of(elastic[0])
    highest = max(value for value in figure.latency.data["seconds"]["max_ms"] if isinstance(value, float))
    assert figure.latency.params["top"] > 1.5 * highest
    assert figure.rates.params["top"] > 1.4 * RATES_PER_S[1]


def test_a_result_without_spans_is_drawn_without_steps(elastic: tuple[TrialResult, ...]) -> None:
    """Results of older runs do not tell where the steps were: no mark, and no claim about a gap."""
    figure = figure_of(elastic[0].model_copy(update={"phases": ()}))
    assert (figure.latency.data["steps"]["caption"], figure.latency.data["windows"]["window"]) == ([], [])
    assert (figure.strips, "send gap" in figure.caption) == ((), False)
    assert (figure.latency.data["seconds"]["second"][0], figure.latency.params["end"]) == (0.0, 80.0)


def test_a_staircase_has_a_gap_for_each_step_and_a_few_close_ups(elastic: tuple[TrialResult, ...]) -> None:
    """Ten close-ups would bury the figure."""
    steps = tuple(StepSpan(rate_per_s=10.0 * place, from_s=8.0 * place, to_s=8.0 * place + 8) for place in range(10))
    span = elastic[0].phases[1].model_copy(update={"steps": steps})
    figure = figure_of(elastic[0].model_copy(update={"phases": (span,)}))
    assert (figure.caption.lower().count("send gap"), len(figure.strips)) == (9, MAX_STRIPS)


def test_a_long_phase_is_thinned(elastic: tuple[TrialResult, ...]) -> None:
    """An hour in bins of 100 ms would be 36,000 points."""
    counts = (1,) * 36_000
    bins = RateBins(phase="step", bin_s=0.1, offered=counts, sent=counts, acknowledged=counts)
    figure = figure_of(elastic[0].model_copy(update={"rates": (bins,)}))
    assert "in bins of 9\N{NO-BREAK SPACE}s." in figure.caption
    assert len(figure.rates.data["rates"]["sent"]) == MAX_POINTS + 1
    assert set(figure.rates.data["rates"]["sent"]) == {10.0}


def test_a_phase_without_events_has_no_figure(elastic: tuple[TrialResult, ...]) -> None:
    """A trial without bins has none either; one without latencies has an axis all the same."""
    bins = RateBins(phase="step", bin_s=0.1, offered=(0, 0), sent=(0, 0), acknowledged=(0, 0))
    assert figures_of(elastic[0].model_copy(update={"rates": (bins,)})) == []
    assert figures_of(elastic[0].model_copy(update={"rates": ()})) == []
    silent = figure_of(elastic[0].model_copy(update={"series": ()}))
    assert (silent.latency.params["low"], silent.latency.params["top"]) == (0.1, 1.0)


def test_a_change_without_levels_has_dashes_for_them(elastic: tuple[TrialResult, ...]) -> None:
    """An unknown number is a dash, never a zero."""
    bare = elastic[0].summary.change_points[0].model_copy(update={"before": None, "after": None})
    found = figure_of(changed(elastic[0], change_points=(bare,))).latency.data["changes"]
    assert found["before"] == found["after"] == ["–"]  # noqa: RUF001 -- a dash


STEP: dict[str, Any] = {
    "name": "step",
    "load": [{"rate_per_s": 20, "duration_s": 6}, {"rate_per_s": 40, "duration_s": 6}],
    "windows": [{"name": "before", "from_s": 0, "to_s": 6}, {"name": "after", "from_s": 6, "to_s": 12}],
}
WARM_UP: dict[str, Any] = {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]}


def test_the_analysis_tells_where_steps_and_windows_lie_and_the_page_draws_them() -> None:
    """Both ends of the contract: what the stage stores is what the page needs."""
    result = AnalysedTrial(phases=[WARM_UP, STEP]).finish().result()
    warm_up, step = result.phases
    assert step.steps == (StepSpan(rate_per_s=20, from_s=0, to_s=6), StepSpan(rate_per_s=40, from_s=6, to_s=12))
    assert step.windows == (WindowSpan(name="before", from_s=0, to_s=6), WindowSpan(name="after", from_s=6, to_s=12))
    assert (len(warm_up.steps), warm_up.windows) == (1, ())
    page = sample_page([result])
    assert "After the step from 20/s to 40/s the median" in page
    assert "No send gap of 100 ms or more within 5 s of the step at 6 s." in page
    assert 'data-metric="box.p50"' in page
