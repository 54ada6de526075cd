from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stepbench.analysis.scaling import scaling_curves
from stepbench.analysis.settings import setting_comparisons
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.sample_operations import LADDER, operation_results
from stepbench.testing.sample_results import sample_results

if TYPE_CHECKING:
    from stepbench.contracts.result import ScalingCurve, TrialSummary


@pytest.fixture(scope="module")
def trials() -> tuple[TrialSummary, ...]:
    """A ladder that bends at 40 clients, one that the generator ends, and trials with one setting changed."""
    begin = datetime(2025, 6, 1, tzinfo=UTC)
    return summarise(RunFacts("run-1", "plan", begin, begin), operation_results()).trials


def test_trials_that_differ_in_clients_make_a_curve(trials: tuple[TrialSummary, ...]) -> None:
    """The law that the sample was made of is found again, its knee with an interval around it."""
    bent, _ = scaling_curves(trials)
    assert [point.clients for point in bent.points] == list(LADDER)
    assert bent.rate_per_s.value == pytest.approx(900, rel=0.05)
    assert bent.knee_clients.value == pytest.approx(40.2, rel=0.1)
    assert bent.knee_clients.low is not None
    assert bent.knee_clients.high is not None
    assert bent.knee_clients.low < 42 < bent.knee_clients.high + 1
    assert bent.generator_limit_per_s is None
    for point in bent.points:
        assert point.fitted_per_s == pytest.approx(point.throughput_per_s, rel=0.06)


def test_points_at_the_generators_limit_are_not_the_stores(trials: tuple[TrialSummary, ...]) -> None:
    """From 20 clients on the generator held back: no fit from the four points that are left, and it says so."""
    _, ended = scaling_curves(trials)
    assert [point.clients for point in ended.points if point.saturated] == [20, 50, 100]
    assert ended.generator_limit_per_s == pytest.approx(14_850)
    assert ended.knee_clients.reason == "4 points < 6, without the 3 left out"


def with_runs(trials: tuple[TrialSummary, ...], runs: list[tuple[int, float, float]]) -> ScalingCurve:
    """The curve of runs by clients, throughput and the generator's share; as many clients again are repeats."""
    like = next(trial for trial in trials if trial.name == "postgresql-1")
    window, changed = like.windows[0], []
    assert window.operations is not None
    for index, (clients, per_s, share) in enumerate(runs):
        found = window.operations.model_copy(update={"clients": clients, "generator_share": share})
        setup = {**like.setup, "phases[steady].closed.clients": clients}
        own = window.model_copy(update={"achieved_per_s": per_s, "operations": found})
        changed.append(like.model_copy(update={"index": index, "setup": setup, "windows": (own,)}))
    (curve,) = scaling_curves(changed)
    return curve


def test_a_large_share_with_one_client_is_no_limit(trials: tuple[TrialSummary, ...]) -> None:
    """Of a fast store the share is large by ratio alone; 40,000/s later show that 9,000/s was no limit."""
    curve = with_runs(trials, [(1, 9_000, 0.15), (2, 17_000, 0.08), (10, 33_000, 0.05), (100, 40_000, 0.04)])
    assert [point.saturated for point in curve.points] == [True, False, False, False]
    assert curve.generator_limit_per_s is None


def test_a_limit_is_none_where_more_clients_came_to_less_by_themselves(trials: tuple[TrialSummary, ...]) -> None:
    """The store's own decline: with 100 clients the generator took next to nothing."""
    curve = with_runs(trials, [(1, 9_000, 0.15), (2, 8_000, 0.08), (10, 7_000, 0.05), (100, 6_000, 0.04)])
    assert curve.generator_limit_per_s is None


def test_a_generator_that_always_takes_its_share_has_its_limit(trials: tuple[TrialSummary, ...]) -> None:
    """All runs are left out, and the most that any of them came to is shown."""
    curve = with_runs(trials, [(1, 9_000, 0.3), (10, 15_000, 0.4), (100, 14_000, 0.5)])
    assert all(point.saturated for point in curve.points)
    assert curve.generator_limit_per_s == 15_000


def test_a_point_is_the_generators_only_if_all_its_runs_are(trials: tuple[TrialSummary, ...]) -> None:
    """One of three repeats in which the generator was slow is left out, and the point says so."""
    curve = with_runs(trials, [(1, 900, 0.02), (10, 6_000, 0.02), (10, 6_100, 0.02), (10, 5_000, 0.12)])
    assert [(point.clients, point.kept_runs, len(point.trials)) for point in curve.points] == [(1, 1, 1), (10, 2, 3)]
    assert not any(point.saturated for point in curve.points)
    assert curve.generator_limit_per_s is None


def test_one_number_of_clients_makes_no_curve(trials: tuple[TrialSummary, ...]) -> None:
    """Nor do trials of triggers."""
    alone = [trial for trial in trials if trial.name == "postgresql-5"]
    assert scaling_curves(alone) == ()
    assert scaling_curves([result.summary for result in sample_results()]) == ()


def test_other_settings_make_curves_of_their_own(trials: tuple[TrialSummary, ...]) -> None:
    """With and without TLS are two curves, named by it."""
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


def test_a_setting_is_compared_where_all_else_is_equal(trials: tuple[TrialSummary, ...]) -> None:
    """TLS over three runs each, with an interval; reuse over one each, which says that it has none."""
    found = setting_comparisons(trials)
    (tls,) = (each for each in found if each.setting == "target.tls")
    (reuse,) = (each for each in found if each.setting == "workload.reuse")
    assert (tls.setting, tls.a, tls.b, tls.group_b) == ("target.tls", "false", "true", "redis-tls")
    assert tls.median_ratio.low is not None
    assert tls.median_ratio.high is not None
    assert tls.median_ratio.low < 0.31 / 0.22 < tls.median_ratio.high
    assert (reuse.setting, reuse.a, reuse.b) == ("workload.reuse", "true", "false")
    assert reuse.median_ratio.value == pytest.approx(13 / 1.4, rel=0.05)
    assert (reuse.median_ratio.low, reuse.median_ratio.reason) == (None, "no interval: 1 of 3 runs")
    assert reuse.throughput_ratio == pytest.approx(0.3)
