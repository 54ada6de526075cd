from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.estimates import present
from tests.samples.experiments import matrix_results

from stepbench.analysis.comparability import format_value
from stepbench.contracts.measures import Estimate
from stepbench.report.groups import QuantileOverRuns, format_point, groups, unmeasured
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult, TrialSummary

POINTS = [{"target.batch_size": 1}, {"target.batch_size": 10}]


def summaries(results: tuple[TrialResult, ...]) -> list[TrialSummary]:
    """Return the results' summaries."""
    return [result.summary for result in results]


def with_p50(trial: TrialSummary, value: float | None, reason: str = "> drain limit") -> TrialSummary:
    """Return the trial with another median in its only window."""
    window = trial.windows[0]
    p50 = Estimate(value=value, low=value, high=value, reason=None if value else reason)
    times = window.latency_ms.model_copy(update={"p50": p50})
    return trial.model_copy(update={"windows": (window.model_copy(update={"latency_ms": times}),)})


def test_a_run_without_repeats_or_matrix_has_no_groups(results: tuple[TrialResult, ...]) -> None:
    """The section does not appear then."""
    assert groups(summaries(results)) == ()


def test_repeats_are_one_row_with_the_mean_of_medians_and_their_range() -> None:
    """4, 1 and 2 ms: the mean is 2, as the verdicts have it; a table with the median would contradict them."""
    trials = summaries(matrix_results([{}], repeats=3))
    (group,) = groups([with_p50(trial, value) for trial, value in zip(trials, (4.0, 1.0, 2.0), strict=True)])
    over = group.quantile_over_runs("p50")
    assert over.mean == mean_over_runs([run.window.latency_ms.p50 for run in group.runs])
    assert present(over.mean.value) == pytest.approx(2.0)
    assert (len(group.runs), over.least, over.greatest) == (3, 1.0, 4.0)
    assert (over.shown.value, over.shown.note) == ("2.00", "not known within a factor of ten; runs 1.00 to 4.00")
    assert over.shown.interval == ""


def test_no_run_is_left_out_of_a_group() -> None:
    """Those without a value are the worst; of three runs, the other two would look fast."""
    trials = summaries(matrix_results([{}], repeats=3))
    few = "nothing was measured"
    (group,) = groups([with_p50(trial, value, few) for trial, value in zip(trials, (3.0, None, 2.0), strict=True)])
    assert str(group.quantile_over_runs("p50").shown) == "1 of 3 runs have none"


def test_runs_that_are_too_short_for_an_interval_count_with_their_values() -> None:
    """Dropped, they belonged to the worst runs: 94.9 ms beside 5.46 to 6.12."""
    trials = [with_p50(trial, 5.0) for trial in summaries(matrix_results([{}], repeats=3))]
    window = trials[1].windows[0]
    short = {"p50": Estimate(value=94.9, reason="n=3 < 6")}
    window = window.model_copy(update={"latency_ms": window.latency_ms.model_copy(update=short)})
    intervals = [trials[0], trials[1].model_copy(update={"windows": (window,)}), trials[2]]
    (group,) = groups(intervals)
    over = group.quantile_over_runs("p50")
    assert present(over.mean.value) == pytest.approx(13.336, 1e-4)
    assert present(over.mean.low) == pytest.approx(0.1957, 1e-3)
    assert (over.least, over.greatest) == (5.0, 94.9)
    assert over.shown.note == "not known within a factor of ten; runs 5.00 to 94.9; 1 of 3 runs without an interval"


def test_runs_beyond_the_drain_limit_are_slow_ones() -> None:
    """Left out, they would make a store that loses events look fast."""
    trials = summaries(matrix_results([{}], repeats=3))

    def over(*values: float | None) -> QuantileOverRuns:
        (group,) = groups([with_p50(trial, value) for trial, value in zip(trials, values, strict=True)])
        return group.quantile_over_runs("p50")

    assert str(over(3.0, None, 2.0).shown) == "> drain limit in 1 of 3 runs"
    assert str(over(3.0, None, None).shown) == "> drain limit in 2 of 3 runs"


def test_an_incomplete_run_is_in_no_row() -> None:
    """It is not in the mean of the runs either; it is named below the table."""
    trials = list(summaries(matrix_results([{}], repeats=3)))
    trials[1] = trials[1].model_copy(update={"incomplete": True})
    (group,) = groups(trials)
    assert [run.trial.repeat for run in group.runs] == [0, 2]
    assert len(unmeasured(trials)) == 1


def test_a_single_run_of_a_matrix_shows_its_own_interval() -> None:
    """A range of one would be no range."""
    found = groups(summaries(matrix_results(POINTS)))
    assert [len(group.runs) for group in found] == [1, 1]
    over = found[0].quantile_over_runs("p50")
    assert over.mean == found[0].runs[0].window.latency_ms.p50
    assert over.shown.interval.startswith("[")


def test_repeats_of_a_point_stay_together_whatever_the_order() -> None:
    """Repeats are interleaved: 1, 10, 1, 10."""
    found = groups(summaries(matrix_results(POINTS, repeats=2)))
    assert [(group.point, [run.trial.repeat for run in group.runs]) for group in found] == [
        (POINTS[0], [0, 1]),
        (POINTS[1], [0, 1]),
    ]


def test_windows_of_a_group_are_rows_of_their_own(elastic: tuple[TrialResult, ...]) -> None:
    """Before and after a step are not one thing."""
    trials = [result.summary.model_copy(update={"group": "elastic"}) for result in elastic]
    assert [group.label for group in groups(trials)] == ["elastic · before", "elastic · after"]


def test_runs_that_measured_nothing_are_named() -> None:
    """They are in no row, and must not vanish."""
    trials = summaries(matrix_results(POINTS, repeats=2))
    trials[3] = trials[3].model_copy(update={"windows": ()})
    assert unmeasured(trials) == ("postgresql-10-r2",)


@pytest.mark.parametrize(
    ("value", "words"),
    [(2000, "2,000"), (0.5, "0.5"), (None, "none"), (True, "true"), ("put", "put"), ([1, 2], "[1, 2]"), (10.0, "10")],
)
def test_settings_are_written_as_a_reader_would(value: Any, words: str) -> None:  # noqa: ANN401 -- any JSON
    """Axis labels have room for little."""
    assert format_value(value) == words


def test_settings_go_by_their_last_name_unless_two_share_it() -> None:
    """`phases[0].load[0].rate_per_s` has no place on a phone."""
    assert format_point({"target.batch_size": 10, "phases[0].load[0].rate_per_s": 2000}) == (
        "batch_size = 10, rate_per_s = 2,000"
    )
    assert format_point({"phases[0].settle_s": 1, "phases[1].settle_s": 2}) == (
        "phases[0].settle_s = 1, phases[1].settle_s = 2"
    )
