from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.estimates import numbers
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.results import sample_results

from stepbench.analysis.comparability import group_results
from stepbench.contracts.measures import Estimate, WindowResult
from stepbench.contracts.result import TrialSummary
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE = sample_results()[0].summary
WINDOW = SAMPLE.windows[0]
SURE = 1e-12


def estimate(value: float, relative: float = SURE) -> Estimate:
    """Build a run's own quantile, with an interval of this relative half-width."""
    return Estimate(value=value, low=value * math.exp(-relative), high=value * math.exp(relative))


def window(p50: Estimate, name: str = "steady", **quantiles: Estimate) -> WindowResult:
    """Build a window with this median; its other quantiles are those of the sample unless given."""
    return WINDOW.model_copy(
        update={"name": name, "latency_ms": WINDOW.latency_ms.model_copy(update={"p50": p50, **quantiles})}
    )


def run(index: int, group: str, *windows: WindowResult, repeat: int = 0, **fields: Any) -> TrialSummary:  # noqa: ANN401
    """Build one run of a group."""
    own = {"index": index, "name": f"{group}.r{repeat + 1}", "group": group, "repeat": repeat, "windows": windows}
    return SAMPLE.model_copy(update={"incomplete": False, **own, **fields})


def repeats(first: int, group: str, medians_ms: Sequence[float], **fields: Any) -> list[TrialSummary]:  # noqa: ANN401
    """Build a run for each median, sure of itself."""
    return [
        run(first + repeat, group, window(estimate(median)), repeat=repeat, **fields)
        for repeat, median in enumerate(medians_ms)
    ]


def test_a_group_s_median_is_the_geometric_mean_of_its_runs() -> None:
    """
    The geometric mean of 1, 2 and 4 ms is 2 ms.

    Their logarithms have the variance (ln 2)² and their mean a standard error of ln 2 / √3; t with two degrees of
    freedom is 4.303.
    """
    (group,) = group_results(repeats(0, "s3", [1, 2, 4]))
    (found,) = group.windows
    assert (group.name, group.trials, found.runs) == ("s3", (0, 1, 2), 3)
    half = 4.303 * math.log(2) / math.sqrt(3)
    assert numbers(found.p50) == pytest.approx((2 * math.exp(-half), 2, 2 * math.exp(half)))


def test_windows_are_told_apart() -> None:
    """A group has a row for each."""
    both = [run(n, "a", window(estimate(1)), window(estimate(3), "late"), repeat=n) for n in range(3)]
    (group,) = group_results(both)
    assert [each.window for each in group.windows] == ["steady", "late"]
    assert [each.p50.value for each in group.windows] == [pytest.approx(1), pytest.approx(3)]


def test_groups_come_in_the_order_of_the_plan() -> None:
    """A shuffle does not change the first."""
    slow, fast = repeats(0, "slow", [4, 4, 4]), repeats(3, "fast", [2, 2, 2])
    assert [group.name for group in group_results([*slow, *fast], ("fast", "slow"))] == ["fast", "slow"]
    assert [group.name for group in group_results([*slow, *fast])] == ["slow", "fast"]


def test_two_runs_have_a_mean_without_an_interval() -> None:
    """The interval would be useless: with one degree of freedom t is 12.7."""
    (group,) = group_results(repeats(0, "s3", [1, 2]))
    found = group.windows[0].p50
    assert found.value == pytest.approx(math.sqrt(2))
    assert (found.low, found.reason) == (None, "2 of 3 runs")


def test_an_incomplete_run_does_not_count() -> None:
    """Its numbers until it failed are no repeat of the others; the trial is still listed."""
    trials = [*repeats(0, "s3", [1, 1, 1]), *repeats(3, "s3", [50], incomplete=True)]
    (group,) = group_results(trials)
    assert group.trials == (0, 1, 2, 3)
    assert group.windows[0].runs == 3
    assert group.windows[0].p50.value == pytest.approx(1)


@pytest.mark.parametrize(
    ("bad", "value", "reason"),
    [
        (Estimate(value=None, reason="> drain limit (30 s)"), None, "> drain limit (30 s)"),
        (Estimate(value=16, reason="n=200 < 368"), 2, "n=200 < 368"),
        (
            Estimate(value=16, low=1, high=None, reason="upper limit > drain limit"),
            2,
            "upper limit > drain",
        ),
        (Estimate(value=16, low=1), 2, "no interval"),
        (Estimate(value=-0.1, low=-0.2, high=0.3), None, "not above 0"),
    ],
)
def test_a_run_that_lacks_something_is_not_left_out(bad: Estimate, value: float | None, reason: str) -> None:
    """It is the worst one. 1, 1, 1 and 16 have the mean 2; without a value of one, the group has none either."""
    (group,) = group_results([*repeats(0, "s3", [1, 1, 1]), run(3, "s3", window(bad), repeat=3)])
    assert group.windows[0].p50.value == (value and pytest.approx(value))
    assert group.windows[0].p50.low is None
    assert (group.windows[0].p50.reason or "").startswith(reason)


def test_a_plan_without_repeats_and_matrix_has_no_groups() -> None:
    """Four stores side by side are no experiment of one factor."""
    assert group_results([result.summary for result in sample_results()]) == ()


def test_points_of_a_matrix_are_groups_even_without_repeats() -> None:
    """They have the reason why there is no interval."""
    trials = [run(n, f"s3.writers-{n}", window(estimate(1)), point={"writers": n}) for n in (1, 2)]
    groups = group_results(trials)
    assert [group.point for group in groups] == [{"writers": 1}, {"writers": 2}]
    assert groups[1].windows[0].p50.reason == "1 of 3 runs"


def test_a_trial_of_a_version_without_groups_is_its_own() -> None:
    """Results that are rendered again may be older."""
    trials = [run(0, "", window(estimate(1)), name="old"), *repeats(1, "s3", [1, 1, 1])]
    assert [group.name for group in group_results(trials)] == ["old", "s3"]


def test_a_trial_s_result_says_which_group_and_point_it_is() -> None:
    """The page and the summary are made from results, not from plans."""
    trial = AnalysedTrial().finish()
    runs, spec = trial.memory.services.runs, trial.memory.services.trial(trial.ref)
    assert (trial.result().summary.group, trial.result().summary.point) == (spec.name, {})
    place = {"group": "s3.writers-1", "repeat": 2, "point": {"writers": 1}}
    runs.put_model(layout.trial_key(trial.ref, "trial.json"), spec.model_copy(update=place))
    summary = trial.result().summary
    assert {name: getattr(summary, name) for name in place} == place
