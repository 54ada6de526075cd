from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import numbers, present
from tests.samples.operations import LADDER, operation_results
from tests.samples.results import sample_results, sample_summary

from stepbench.experiments.operations.scaling import scaling_curves

if TYPE_CHECKING:
    from stepbench.contracts.across_trials import ScalingCurve
    from stepbench.contracts.result import TrialSummary


@pytest.fixture(scope="module")
def trials() -> tuple[TrialSummary, ...]:
    """Return a ladder that bends at 40 clients, one that the generator ends, and trials with one setting changed."""
    return sample_summary(operation_results(), "plan").trials


def test_trials_that_differ_in_clients_make_a_curve(trials: tuple[TrialSummary, ...]) -> None:
    """The law that the sample was made of is found again, its knee with an interval around it."""
    bent, _ = scaling_curves(trials)
    assert [point.clients for point in bent.points] == list(LADDER)
    assert bent.rate_per_s.value == pytest.approx(900, rel=0.05)
    assert bent.knee_clients.value == pytest.approx(40.2, rel=0.1)
    low, _, high = numbers(bent.knee_clients)
    assert low < 42 < high + 1
    assert bent.generator_limit_per_s is None
    for point in bent.points:
        assert point.fitted_per_s == pytest.approx(point.throughput_per_s, rel=0.06)


def test_points_at_the_generators_limit_are_not_the_stores(trials: tuple[TrialSummary, ...]) -> None:
    """From 20 clients on the generator held back: no fit from the four points that are left, and it says so."""
    _, ended = scaling_curves(trials)
    assert [point.clients for point in ended.points if point.saturated] == [20, 50, 100]
    assert ended.generator_limit_per_s == pytest.approx(14_850)
    assert ended.knee_clients.reason == "4 points, and the fit needs 6, without the 3 left out"


def with_runs(trials: tuple[TrialSummary, ...], runs: list[tuple[int, float, float]]) -> ScalingCurve:
    """Return the curve of runs by clients, throughput and generator's share; as many clients again are repeats."""
    like = next(trial for trial in trials if trial.name == "postgresql-1")
    window, changed = like.windows[0], []
    for index, (clients, per_s, share) in enumerate(runs):
        found = present(window.operations).model_copy(update={"clients": clients, "generator_share": share})
        setup = {**like.setup, "phases[steady].closed.clients": clients}
        own = window.model_copy(update={"achieved_per_s": per_s, "operations": found})
        changed.append(like.model_copy(update={"index": index, "setup": setup, "windows": (own,)}))
    (curve,) = scaling_curves(changed)
    return curve


@pytest.mark.parametrize(
    ("runs", "kept_runs", "limit_per_s"),
    [
        ([(1, 9_000, 0.15), (2, 17_000, 0.08), (10, 33_000, 0.05), (100, 40_000, 0.04)], [0, 1, 1, 1], None),
        ([(1, 9_000, 0.15), (2, 8_000, 0.08), (10, 7_000, 0.05), (100, 6_000, 0.04)], [0, 1, 1, 1], None),
        ([(1, 9_000, 0.3), (10, 15_000, 0.4), (100, 14_000, 0.5)], [0, 0, 0], 15_000),
        ([(1, 900, 0.02), (10, 6_000, 0.02), (10, 6_100, 0.02), (10, 5_000, 0.12)], [1, 2], None),
    ],
    ids=["a fast store", "the store's own decline", "a generator that always takes its share", "one of three repeats"],
)
def test_the_generators_limit_is_where_all_runs_from_some_number_of_clients_are_held_back(
    runs: list[tuple[int, float, float]],
    kept_runs: list[int],
    limit_per_s: float | None,
    trials: tuple[TrialSummary, ...],
) -> None:
    """A fast store makes the share large by ratio alone; a point is the generator's only if all its runs are."""
    curve = with_runs(trials, runs)
    assert [point.kept_runs for point in curve.points] == kept_runs
    assert [point.saturated for point in curve.points] == [kept == 0 for kept in kept_runs]
    assert sum(len(point.trials) for point in curve.points) == len(runs)
    assert curve.generator_limit_per_s == limit_per_s


def test_one_number_of_clients_makes_no_curve(trials: tuple[TrialSummary, ...]) -> None:
    """Trials of triggers make none either."""
    alone = [trial for trial in trials if trial.name == "postgresql-5"]
    assert scaling_curves(alone) == ()
    assert scaling_curves([result.summary for result in sample_results()]) == ()


def test_a_window_in_which_nothing_was_acknowledged_is_no_point(trials: tuple[TrialSummary, ...]) -> None:
    """A store that was down with so many clients says nothing of how it scales."""
    curve = with_runs(trials, [(1, 900, 0.02), (2, 0, 0.02), (10, 6_000, 0.02)])
    assert [point.clients for point in curve.points] == [1, 10]


def test_other_settings_make_curves_of_their_own(trials: tuple[TrialSummary, ...]) -> None:
    """There is one curve with TLS and one without, named by it."""
    plain = [trial for trial in trials if trial.base == "postgresql"]
    both = [
        trial.model_copy(update={name: {**getattr(trial, name), "target.tls": tls} for name in ("point", "setup")})
        for tls in (False, True)
        for trial in plain
    ]
    assert [curve.name for curve in scaling_curves(both)] == [
        "postgresql, target.tls = false",
        "postgresql, target.tls = true",
    ]
