"""What becomes of a threshold in each window, and what it takes where that is open."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.operations import operation_results
from tests.samples.results import sample_window, trial_summary

from stepbench.analysis.thresholds import (
    NO_WINDOW,
    NOT_COUNTED,
    NOTHING_ACKNOWLEDGED,
    NOTHING_DUE,
    NOTHING_SENT,
    WITHIN,
    decide,
    judge,
)
from stepbench.contracts.measures import Estimate, WindowResult
from stepbench.contracts.result import TrialSummary
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.contracts.thresholds import ThresholdResult

ONE_PERCENT = parse_threshold("errors < 1 %")


def window(name: str, sent: int, failed: int = 0, unknown: int = 0, **fields: Any) -> WindowResult:  # noqa: ANN401
    """Return a window in which so many of those sent were not acknowledged."""
    counts = {"sent": sent, "failed": failed, "unknown": unknown}
    return sample_window(name, [1.0]).model_copy(update={**counts, **fields})


def trial(index: int, *windows: WindowResult) -> TrialSummary:
    """Return a trial with these windows."""
    return trial_summary(f"trial-{index}", "etcd", index=index, windows=windows)


def judged(text: str, *windows: WindowResult) -> tuple[ThresholdResult, ...]:
    """Return what becomes of a threshold in these windows of one trial."""
    return judge([parse_threshold(text)], [trial(0, *windows)])


@pytest.mark.parametrize(("experiment", "state", "value"), [("dataflow", "failed", 0.04), ("trigger", "passed", 0.01)])
def test_an_execution_that_does_not_complete_is_an_error(experiment: str, state: str, value: float) -> None:
    """Its start was acknowledged, but what was asked for has not been done; a trigger's loss has a word of its own."""
    one = trial(0, window("all", 100, failed=1, lost=3)).model_copy(update={"experiment": experiment})
    (result,) = judge([parse_threshold("errors < 2 %")], [one])
    assert (result.state, result.value) == (state, value)


def outcome(text: str, one: WindowResult) -> tuple[str, float | None, str | None]:
    """Return state, value and reason of a threshold in one window."""
    (result,) = judged(text, one)
    return result.state, result.value, result.reason


@pytest.mark.parametrize(
    ("text", "low", "high", "state"),
    [
        ("p99 < 20 ms", 15, 19.9, "passed"),
        ("p99 < 20 ms", 15, 20, "undecidable"),
        ("p99 < 20 ms", 19.9, 25, "undecidable"),
        ("p99 < 20 ms", 20, 25, "failed"),
        ("p99 <= 20 ms", 15, 20, "passed"),
        ("p99 <= 20 ms", 20, 25, "undecidable"),
        ("p99 <= 20 ms", 20.1, 25, "failed"),
        ("p99 > 20 ms", 20.1, 25, "passed"),
        ("p99 > 20 ms", 20, 25, "undecidable"),
        ("p99 > 20 ms", 15, 20, "failed"),
        ("p99 >= 20 ms", 20, 25, "passed"),
        ("p99 >= 20 ms", 15, 20, "undecidable"),
        ("p99 >= 20 ms", 15, 19.9, "failed"),
    ],
)
def test_the_interval_decides(text: str, low: float, high: float, state: str) -> None:
    """All of it has to keep to the limit, or none of it: the point estimate would be right in half of the cases."""
    assert decide(parse_threshold(text), Estimate(value=(low + high) / 2, low=low, high=high)).state == state


@given(st.lists(st.integers(1, 50), min_size=3, max_size=3).map(sorted), st.integers(1, 50), st.integers(0, 50))
def test_a_looser_limit_never_turns_a_pass_into_a_failure(ends: list[int], limit: int, looser: int) -> None:
    """And what a limit from above decides, the opposite one decides the other way."""
    low, value, high = ends
    estimate = Estimate(value=value, low=low, high=high)
    order = ("failed", "undecidable", "passed")
    states = [decide(parse_threshold(f"p99 < {each} ms"), estimate).state for each in (limit, limit + looser)]
    assert order.index(states[0]) <= order.index(states[1])
    opposite = decide(parse_threshold(f"p99 >= {limit} ms"), estimate).state
    assert order.index(opposite) == 2 - order.index(states[0])


@pytest.mark.parametrize(
    ("estimate", "times"),
    [
        # From 19 up to 21 it is 2, and to the limit 1: half the width takes four times the events.
        (Estimate(value=19, low=17, high=21), 4),
        # From 23 down to 19 it is 4, and to the limit 3.
        (Estimate(value=23, low=19, high=25), 16 / 9),
        (Estimate(value=19.9, low=18, high=21), None),
        (Estimate(value=20, low=18, high=21), None),
    ],
)
def test_an_interval_that_holds_the_limit_has_to_shrink(estimate: Estimate, times: float | None) -> None:
    """Its width falls with the root of the events; beyond ten times as many nobody waits for it."""
    found = decide(parse_threshold("p99 < 20 ms"), estimate)
    assert (found.state, found.reason, found.times_longer) == ("undecidable", WITHIN, times and pytest.approx(times))


@pytest.mark.parametrize(
    ("reason", "times"),
    [("n=92 < 368", 4), ("31 of 368 independent < 368", 368 / 31), ("its own reason", None)],
)
def test_without_an_interval_nothing_is_decided(reason: str, times: float | None) -> None:
    """However far the point lies from the limit: the next run's may lie on the other side."""
    found = decide(parse_threshold("p99 < 20 ms"), Estimate(value=1, reason=reason))
    assert (found.state, found.reason, found.times_longer) == ("undecidable", reason, times)


@pytest.mark.parametrize(
    ("text", "estimate", "state"),
    [
        ("p99 < 20 ms", Estimate(value=None, reason="> drain limit (120 s)"), "failed"),
        ("p99 > 20 ms", Estimate(value=None, reason="> drain limit (120 s)"), "undecidable"),
        ("p99 > 20 ms", Estimate(value=None, low=120_000, reason="> drain limit (120 s)"), "passed"),
        ("p99 >= 20 ms", Estimate(value=None, low=15, reason="> drain limit (120 s)"), "undecidable"),
        ("p99 < 20 ms", Estimate(value=None, low=15, reason="> drain limit (120 s)"), "failed"),
        ("p99 < 20 ms", Estimate(value=None, reason="nothing was measured"), "undecidable"),
        ("p99 < 20 ms", Estimate(value=18, low=15, reason="upper limit > drain limit (120 s)"), "undecidable"),
        ("p99 < 20 ms", Estimate(value=25, low=21, reason="upper limit > drain limit (120 s)"), "failed"),
        ("p99 > 20 ms", Estimate(value=25, low=21, reason="upper limit > drain limit (120 s)"), "passed"),
    ],
)
def test_what_never_arrived_keeps_to_no_limit(text: str, estimate: Estimate, state: str) -> None:
    """A quantile among lost events is no small latency, and nothing measured is no pass."""
    found = decide(parse_threshold(text), estimate)
    assert (found.state, found.times_longer) == (state, None)
    assert found.reason == (estimate.reason if estimate.value is None or state == "undecidable" else None)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("p99 < 0.1 ms", "failed"),  # at least p50, which is at least 0.43 ms
        ("p99 <= 0.43 ms", "undecidable"),
        ("p99 < 0.43 ms", "failed"),
        ("p99 > 0.2 ms", "passed"),
        ("p99 < 2 ms", "undecidable"),
        ("p90 > 3 ms", "failed"),  # at most p95, which is at most 3 ms
        ("p90 < 3.1 ms", "passed"),
        ("p50 < 0.7 ms", "passed"),
        ("p999 < 0.9 ms", "failed"),  # the lower end is its own
    ],
)
def test_a_quantile_lies_between_those_below_and_above_it(text: str, state: str) -> None:
    """Beside a median of 0.50 [0.43, 0.64] ms, no p99 is below 0.1 ms, however few events there are for it."""
    latency = sample_window("w", [0.5] * 40).latency_ms.model_copy(
        update={
            "p50": Estimate(value=0.5, low=0.43, high=0.64),
            "p90": Estimate(value=0.8, reason="30 of 40 independent < 36"),
            "p95": Estimate(value=0.9, low=0.4, high=3),
            "p99": Estimate(value=1, reason="n=40 < 368"),
            "p999": Estimate(value=1.1, reason="n=40 < 3688"),
            "at_least": {"p999": 0.95},
        }
    )
    assert outcome(text, window("w", 40, latency_ms=latency))[0] == state


@pytest.mark.parametrize(
    ("text", "state", "value"),
    [
        ("lost == 0", "failed", 2),
        ("lost < 3", "passed", 2),
        ("lost < 1 %", "failed", 0.01),
        ("lost <= 1 %", "passed", 0.01),
        ("duplicates == 0", "failed", 7),
        ("errors < 4", "passed", 3),
        ("throughput > 500 /s", "failed", 480),
        ("throughput > 28000 /min", "passed", 480),
    ],
)
def test_counts_and_rates_are_decided_by_their_value(text: str, state: str, value: float) -> None:
    """Two events of 200 were lost in this run, without a doubt."""
    counted: dict[str, Any] = {"n": 200, "lost": 2, "duplicates": 7, "achieved_per_s": 480.0}
    assert outcome(text, window("w", 203, 3, **counted)) == (state, value, None)


def test_a_maximum_is_that_of_this_run_and_beyond_the_drain_limit_with_losses() -> None:
    """It says nothing of the next one; and of an event that never came there is no latency."""
    assert outcome("max < 3 ms", sample_window("w", [1.0, 2.0])) == ("passed", 2.0, None)
    assert outcome("max < 2 ms", sample_window("w", [1.0, 2.0])) == ("failed", 2.0, None)
    assert outcome("max < 9 ms", sample_window("w", [1.0, None])) == ("failed", None, "> drain limit: 1 never arrived")
    one_lost = sample_window("w", [10.0, None])
    one_lost = one_lost.model_copy(update={"latency_ms": one_lost.latency_ms.model_copy(update={"max": 10.0})})
    assert outcome("max > 9 ms", one_lost) == ("passed", None, "> drain limit: 1 never arrived")
    assert outcome("max < 9 ms", sample_window("w", [])) == ("undecidable", None, "nothing was measured")


def test_each_time_of_a_trigger_is_its_own() -> None:
    """A slow write is not a slow trigger; of the ten 100 ms events, 30 ms were the write."""
    one = sample_window("w", [100.0] * 10)
    found = {
        time: judged(f"{time} p50 < 1 s", one)[0].value
        for time in ("latency", "after_ack", "service", "response", "write_response")
    }
    assert found == {
        "latency": 100,
        "after_ack": 70,
        "service": 30,
        "response": pytest.approx(100.03),
        "write_response": pytest.approx(30.03),
    }
    assert judged("lateness p50 < 1 s", one)[0].value == pytest.approx(0.0302)  # the fifth of the steps of 0.05 µs


def test_a_kind_of_operation_is_judged_by_itself() -> None:
    """Reads that are slow hide behind many fast writes; windows without reads are left out."""
    summaries = [result.summary for result in operation_results()]
    kinds = [
        (each.index, one.name, kind.service_ms.p50.value, kind.response_ms.p50.value, kind.failed / kind.sent)
        for each in summaries
        for one in each.windows
        for kind in (one.operations.kinds if one.operations else ())
        if kind.kind == "read"
    ]
    for text, place in (("p50 of read < 1 s", 2), ("response p50 of read < 1 s", 3), ("errors of read < 1 %", 4)):
        found = judge([parse_threshold(text)], summaries)
        assert {(each.trial, each.window, each.value) for each in found} == {(*row[:2], row[place]) for row in kinds}


def test_what_operations_do_not_have_is_not_judged() -> None:
    """Nothing arrives: that nothing was lost would be no achievement."""
    summaries = [result.summary for result in operation_results()]
    for text in ("lost == 0", "duplicates == 0", "after_ack p50 < 1 s", "write_response p50 < 1 s"):
        assert [each.reason for each in judge([parse_threshold(text)], summaries)] == [NO_WINDOW]


def test_failed_and_unknown_outcomes_count_together() -> None:
    """6 + 4 of 1,000 are 1 %, which is not below 1 %; 9 of 1,000 are."""
    missed, kept = judged("errors < 1 %", window("below", 1_000, 9), window("at limit", 1_000, 6, 4))
    assert (missed.window, missed.state, missed.value, missed.limit) == ("at limit", "failed", 0.01, 0.01)
    assert (kept.window, kept.state, kept.value) == ("below", "passed", 0.009)


def test_the_worst_window_is_first_and_of_those_that_keep_to_it_the_closest() -> None:
    """A reader of a matrix sees that; the others are there as well, for who counts them."""
    windows = (window("a", 100, 2), window("b", 1_000), window("empty", 0), window("c", 100, 50), window("d", 1_000, 1))
    assert [(each.window, each.state) for each in judged("errors < 1 %", *windows)] == [
        ("c", "failed"),
        ("a", "failed"),
        ("empty", "undecidable"),
        ("d", "passed"),
        ("b", "passed"),
    ]
    rates = [window(name, 9, achieved_per_s=rate) for name, rate in (("a", 9.0), ("b", 5.0), ("c", 30.0), ("d", 20.0))]
    assert [each.window for each in judged("throughput > 10 /s", *rates)] == ["b", "a", "d", "c"]


def test_a_threshold_of_a_window_is_about_that_one_only_in_every_trial() -> None:
    """Each repeat's window is judged by itself."""
    trials = [trial(index, window("before", 9), window("after", 9)) for index in (0, 1)]
    found = judge([parse_threshold("errors in after < 1 %")], trials)
    assert [(each.trial, each.window) for each in found] == [(0, "after"), (1, "after")]


def test_each_threshold_is_judged_by_itself() -> None:
    """One may be missed and another kept."""
    found = judge([ONE_PERCENT, parse_threshold("errors<5%")], [trial(0, window("a", 100, 2))])
    assert [(each.threshold, each.state) for each in found] == [("errors < 1 %", "failed"), ("errors<5%", "passed")]
    assert judge([], [trial(0, window("a", 100, 100))]) == ()


def test_where_there_is_nothing_to_judge_the_threshold_says_so() -> None:
    """A threshold that silently had no result would look kept to."""
    assert outcome("errors < 1 %", window("a", 0)) == ("undecidable", None, NOTHING_SENT)
    assert outcome("lost == 0", window("a", 9, n=0)) == ("undecidable", None, "nothing was acknowledged")
    for text in ("throughput < 100 /s", "throughput > 100 /s"):
        assert outcome(text, window("a", 0, achieved_per_s=0.0)) == ("undecidable", None, NOTHING_SENT)
    refused = window("a", 9, 9, n=0, achieved_per_s=0.0)
    assert outcome("throughput < 100 /s", refused) == ("undecidable", None, NOTHING_ACKNOWLEDGED)
    assert outcome("throughput > 100 /s", refused) == ("failed", 0, None)
    assert outcome("errors < 1 %", refused) == ("failed", 1, None)
    assert outcome("duplicates == 0", window("a", 9, 9, n=0, duplicates=2)) == ("failed", 2, None)
    assert outcome("duplicates < 1 %", window("a", 9, 9, n=0, duplicates=2))[0] == "undecidable"
    assert outcome("lost == 0", window("a", 9, lost=None)) == ("undecidable", None, NOT_COUNTED)
    (nowhere,) = judge([ONE_PERCENT], [trial(0)])
    assert (nowhere.state, nowhere.reason, nowhere.trial, nowhere.window) == ("undecidable", NO_WINDOW, None, "")


@pytest.mark.parametrize(("limit_ms", "state"), [(400, "undecidable"), (300, "failed")])
def test_the_longest_wait_of_what_fell_behind_keeps_to_no_limit(limit_ms: int, state: str) -> None:
    """In a longer run it would have been longer."""
    one = window("steady", 100)
    grown = Estimate(value=200, low=100, reason="fell behind: kept up with 96 of 200/s")
    latency = one.latency_ms.model_copy(update={"p50": grown, "max": 350.0})
    behind = one.model_copy(update={"latency_ms": latency, "kept_up_per_s": 96.0})
    assert outcome(f"max < {limit_ms} ms", behind)[0] == state


def test_what_was_due_and_not_sent_is_missed_by_its_share() -> None:
    """A run that sent 19 of 40 planned events on a busy machine had passed."""
    assert outcome("unsent < 1 %", window("a", 19, unsent=21)) == ("failed", 21 / 40, None)
    assert outcome("unsent == 0", window("a", 40)) == ("passed", 0, None)
    assert outcome("unsent < 1 %", window("a", 0)) == ("undecidable", None, NOTHING_DUE)
    assert outcome("unsent < 1 %", window("a", 0, unsent=40)) == ("failed", 1, None)
