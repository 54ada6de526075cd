"""Which windows a threshold counts, and which of them the result names."""

from __future__ import annotations

from tests.samples.results import sample_window, trial_summary

from stepbench.analysis.thresholds import judge
from stepbench.contracts.measures import WindowResult
from stepbench.contracts.result import TrialSummary
from stepbench.contracts.threshold import parse_threshold

ONE_PERCENT = parse_threshold("errors < 1 %")


def window(name: str, sent: int, failed: int = 0, unknown: int = 0) -> WindowResult:
    """Return a window in which so many of those sent were not acknowledged."""
    counts = {"sent": sent, "failed": failed, "unknown": unknown}
    return sample_window(name, [1.0]).model_copy(update=counts)


def trial(index: int, *windows: WindowResult) -> TrialSummary:
    """Return a trial with these windows."""
    return trial_summary(f"trial-{index}", "etcd", index=index, windows=windows)


def test_failed_and_unknown_outcomes_count_together() -> None:
    """6 + 4 of 1,000 are 1 %, which is not below 1 %; 9 of 1,000 are."""
    at_limit, below = trial(0, window("w", 1_000, 6, 4)), trial(1, window("w", 1_000, 9))
    (missed,) = judge([ONE_PERCENT], [below, at_limit])
    assert (missed.trial, missed.name, missed.window, missed.share, missed.limit) == (0, "trial-0", "w", 0.01, 0.01)
    assert not missed.passed


def test_all_windows_that_miss_are_named_the_worst_first() -> None:
    """The others are not: a matrix has hundreds."""
    trials = [trial(0, window("a", 100, 2), window("b", 100)), trial(1, window("c", 100, 0, 50))]
    assert [(each.window, each.passed) for each in judge([ONE_PERCENT], trials)] == [("c", False), ("a", False)]


def test_where_none_misses_the_closest_is_named() -> None:
    """A reader sees how far from the limit the run was."""
    (closest,) = judge([ONE_PERCENT], [trial(0, window("a", 1_000, 1), window("b", 1_000, 5))])
    assert (closest.window, closest.share, closest.passed) == ("b", 0.005, True)


def test_each_threshold_is_judged_by_itself() -> None:
    """One may be missed and another kept."""
    found = judge([ONE_PERCENT, parse_threshold("errors<5%")], [trial(0, window("a", 100, 2))])
    assert [(each.threshold, each.passed) for each in found] == [("errors < 1 %", False), ("errors<5%", True)]


def test_where_nothing_was_sent_there_is_nothing_to_judge() -> None:
    """Such a trial has failed for that reason already; and without thresholds nothing is missed."""
    assert judge([ONE_PERCENT], [trial(0, window("a", 0)), trial(1)]) == ()
    assert judge([], [trial(0, window("a", 100, 100))]) == ()
