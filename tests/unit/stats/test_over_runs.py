"""Runs taken together and set against others: by hand, by published numbers, and by how often intervals hold."""

from __future__ import annotations

import math
import random

import pytest
import scipy
from tests.samples.estimates import numbers, present

from stepbench.contracts.measures import Estimate
from stepbench.stats.over_runs import (
    TOO_FEW_FOR_A_MEDIAN,
    log_mean,
    mean_of_windows,
    mean_over_runs,
    paired_ratio,
    ratio,
    runs_to_show,
    share_difference,
    share_interval,
    times_longer_to_show,
)
from stepbench.stats.quantiles import min_sample
from stepbench.stats.tails import student_975

SURE = 1e-12


def estimate(value: float, relative: float = SURE) -> Estimate:
    """Build a run's own quantile, with an interval of this relative half-width."""
    return Estimate(value=value, low=value * math.exp(-relative), high=value * math.exp(relative))


def test_single_executions_are_as_uncertain_as_runs_lie_apart() -> None:
    """Ten runs of one execution each: their spread has all in it; of another quantile nothing is known."""
    reason = f"n=1 {TOO_FEW_FOR_A_MEDIAN}"
    assert f"< {min_sample(0.5)}" == TOO_FEW_FOR_A_MEDIAN
    values = [29, 31, 30, 28, 33, 30, 29, 31, 30, 32]
    found = ratio(
        [Estimate(value=each, reason=reason) for each in values],
        [Estimate(value=each / 3, reason=reason) for each in values],
    )
    logs = [math.log(each) for each in values]
    half = student_975(18) * math.sqrt(2 * scipy.stats.tvar(logs) / 10)
    assert found.value == pytest.approx(3)
    assert (found.low, found.high) == pytest.approx((3 * math.exp(-half), 3 * math.exp(half)), rel=1e-3)
    late = [Estimate(value=each, reason="n=1 < 29") for each in values]
    assert log_mean(late) == "n=1 < 29"


def test_runs_that_agree_by_chance_are_no_surer_than_each_of_them() -> None:
    """
    Three equal medians: no variance between them, and within each what its own interval says.

    A half-width of 1.96 standard errors of 0.1; their mean's is 0.1 / √3.
    """
    own = [estimate(5, 1.959963984540054 * 0.1)] * 3
    found = log_mean(own)
    assert not isinstance(found, str)
    assert found.variance == pytest.approx(0.1**2 / 3)


def test_one_run_each_has_the_limits_of_its_two_sides() -> None:
    """
    2 over 1 with half-widths of 0.3 and 0.4 on the logarithmic scale: exp(ln 2 ± 0.5), the hypotenuse.

    It speaks of these two runs alone.
    """
    found = ratio([estimate(2, 0.3)], [estimate(1, 0.4)])
    assert numbers(found) == pytest.approx((2 * math.exp(-0.5), 2, 2 * math.exp(0.5)))


def test_a_skewed_side_makes_a_skewed_ratio() -> None:
    """A tail's interval is longer above: of what a ratio is over, that is its lower limit."""
    skewed = Estimate(value=1, low=math.exp(-0.1), high=math.exp(0.4))
    low, value, high = numbers(ratio([estimate(1, 0.3)], [skewed]))
    assert (low, value, high) == pytest.approx((math.exp(-0.5), 1, math.exp(math.hypot(0.3, 0.1))))


def test_two_runs_that_contradict_each_other_decide_nothing() -> None:
    """One shows twice, the other half: each is sure of itself, and together they reach over both."""
    low, value, high = numbers(ratio([estimate(2), estimate(0.5)], [estimate(1)]))
    assert (low, value, high) == pytest.approx((0.5, 1, 2))


def test_what_runs_have_in_common_cancels_out_within_them() -> None:
    """Three runs of 1, 10 and 100 ms, each window twice as long as the one before: nothing is unsure."""
    before, after = [estimate(ms) for ms in (1, 10, 100)], [estimate(ms) for ms in (2, 20, 200)]
    assert numbers(paired_ratio(after, before)) == pytest.approx((2, 2, 2))
    low, _, high = numbers(ratio(after, before))
    assert low < 0.02
    assert high > 100


def test_a_run_without_an_interval_leaves_the_point() -> None:
    """It is left out of nothing: the ratio is of all runs, and says why it has no interval."""
    good, bad = [estimate(2)] * 3, Estimate(value=1, reason="n=200 < 368")
    found = ratio(good, [estimate(1), bad])
    assert found.value == pytest.approx(2)
    assert (found.low, found.reason) == (None, "n=200 < 368")


def test_windows_of_a_run_count_alike_whatever_their_scale() -> None:
    """By hand: of 100 and 400 it is 200; of two logarithms' half-widths of 0.3 and 0.4 the mean has 0.5 / 2."""
    found = mean_of_windows([estimate(100, 0.3), estimate(400, 0.4)])
    assert numbers(found) == pytest.approx((200 * math.exp(-0.25), 200, 200 * math.exp(0.25)))
    short = mean_of_windows([estimate(100), Estimate(value=400, reason=f"n=5 {TOO_FEW_FOR_A_MEDIAN}")])
    assert present(short.value) == pytest.approx(200)
    assert (short.low, short.reason) == (None, "n=5 < 6")


def test_how_many_runs_it_takes_follows_from_their_variance() -> None:
    """Three runs from 1 to 1.2 show no 10 %; the number that would brings its standard errors below ln 1.1."""
    runs = [estimate(1), estimate(1.1), estimate(1.2)]
    needed = present(runs_to_show(runs, runs, 1.1, 1_000))
    mean = log_mean(runs)
    assert not isinstance(mean, str)
    error = math.sqrt(2 * mean.variance * 3 / needed)
    assert (student_975(2 * needed - 2) + 0.8416) * error <= math.log(1.1)
    error = math.sqrt(2 * mean.variance * 3 / (needed - 1))
    assert (student_975(2 * needed - 4) + 0.8416) * error > math.log(1.1)
    assert runs_to_show(runs[:2], runs, 1.1, 1_000) is None


def test_a_run_twice_as_wide_has_to_be_four_times_as_long() -> None:
    """An interval shrinks with the square root."""
    narrow, wide = (Estimate(value=1, low=math.exp(-half), high=math.exp(half)) for half in (0.1, 0.2))
    assert present(times_longer_to_show(wide, 1.1)) == pytest.approx(4 * present(times_longer_to_show(narrow, 1.1)))


def test_shares_differ_as_published() -> None:
    """Newcombe (1998), table II, contrast (a), 56/70 against 48/80: 0.0524 to 0.3339."""
    low, value, high = numbers(share_difference(share_interval(56, 70), share_interval(48, 80)))
    assert (low, value, high) == pytest.approx((0.0524, 0.2, 0.3339), abs=5e-5)


def test_no_loss_is_no_proof_that_none_would_be_lost() -> None:
    """Wilson's interval of 0 of 100 reaches to 3.7 %; of nothing there is none."""
    assert numbers(share_interval(0, 100)) == pytest.approx((0, 0, 0.03699), abs=1e-5)
    assert share_interval(0, 0).value is None


@pytest.mark.parametrize("degrees", [1, 2, 3, 9, 30, 31, 40, 100, 1_000])
def test_student_s_t_is_that_of_the_tables(degrees: int) -> None:
    """It follows the expansion beyond the table."""
    assert student_975(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), abs=6e-4)
    assert student_975(degrees + 0.9) == student_975(degrees)


@pytest.mark.parametrize(
    ("runs", "between"),
    [
        (3, 0.0),
        (3, 0.5),
        (5, 0.05),
        *(
            pytest.param(runs, between, marks=pytest.mark.nightly("statistics"))
            for runs, between in ((3, 0.05), (5, 0.0), (5, 0.5), (10, 0.0), (10, 0.05), (10, 0.5))
        ),
    ],
)
def test_intervals_cover_at_least_as_often_as_they_say(runs: int, between: float) -> None:
    """
    This takes 4,000 seeded experiments, with runs that differ more, less and not at all.

    94 % is 3 standard errors below 95 %. Where runs do not differ, s² holds what is within them already, and the
    interval is wider than it need be.
    """
    rng, covered, held, within = random.Random(7), 0, 0, 0.05  # noqa: S311 -- no secret
    for _ in range(4_000):
        one, other = (
            [estimate(math.exp(rng.gauss(0, between) + rng.gauss(0, within)), 1.96 * within) for _ in range(runs)]
            for _ in range(2)
        )
        mean, of_both = log_mean(one), ratio(one, other)
        assert not isinstance(mean, str)
        low, _, high = numbers(of_both)
        covered += abs(mean.value) <= student_975(runs - 1) * math.sqrt(mean.variance)
        held += low <= 1 <= high
    assert covered / 4_000 > 0.94
    assert held / 4_000 > 0.94


def test_runs_of_dependent_events_count_with_their_values() -> None:
    """Whole runs do not depend on one another, however alike the events in each are; few events are no such case."""
    values = (11.9, 12.2, 11.7)
    alike, few = (
        [Estimate(value=value, reason=reason) for value in values]
        for reason in ("32 of 200 independent < 36", "9 of 20 independent < 36")
    )
    exactly = [Estimate(value=value, low=value, high=value) for value in values]
    assert mean_over_runs(alike) == mean_over_runs(exactly)
    assert mean_over_runs(few).reason == "9 of 20 independent < 36"


@pytest.mark.parametrize(
    ("reason", "used"),
    [
        ("5 of 6000 independent < 6", False),
        ("9 of 5000 independent < 36", False),
        ("10 of 5000 independent < 36", True),
        ("19 of 5000 independent < 72", False),
        ("20 of 5000 independent < 72", True),
        ("99 of 5000 independent < 368", False),
        ("100 of 5000 independent < 368", True),
        ("999 of 5000 independent < 3688", False),
        ("1000 of 5000 independent < 3688", True),
    ],
)
def test_runs_count_where_one_independent_event_lies_beyond_the_quantile(reason: str, *, used: bool) -> None:
    """Below that, a run's own quantile is too small in each of them: of p99 of AR(1), φ = 0.998, 87 % were covered."""
    found = mean_over_runs([Estimate(value=value, reason=reason) for value in (11.9, 12.2, 11.7)])
    assert (found.low is not None) == used
    assert found.reason == (None if used else reason)
