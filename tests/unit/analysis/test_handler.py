"""What a measured function did with a window's events, beside what was planted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.measured_functions import MeasuredTrial

from stepbench.analysis.thresholds import judge
from stepbench.contracts.invocations import Redelivered
from stepbench.contracts.tasks import StateError
from stepbench.contracts.threshold_grammar import parse_threshold

if TYPE_CHECKING:
    from stepbench.contracts.measures import HandlerResult
    from stepbench.contracts.result import TrialResult


@pytest.fixture(scope="module")
def result() -> TrialResult:
    """Return the result of the planted trial."""
    return MeasuredTrial().result()


@pytest.fixture(scope="module")
def handler(result: TrialResult) -> HandlerResult:
    """Return what its one window has of the function."""
    (window,) = result.summary.windows
    return present(window.handler)


def test_every_event_is_processed_or_has_failed(handler: HandlerResult) -> None:
    """All arrived; the ten of the invocation that never ended were not processed, and ten were twice."""
    assert (handler.arrived, handler.processed, handler.failed_in_handler) == (200, 190, 10)
    assert (handler.processed_twice, handler.failed_once) == (10, 24)


def test_accounting_has_the_same(result: TrialResult) -> None:
    """The trial has one window, which is its whole measured phase."""
    measured, warm_up = present(result.summary.accounting), present(result.summary.warm_up)
    assert (measured.processed, measured.failed_in_handler, measured.processed_twice) == (190, 10, 10)
    assert (warm_up.processed, warm_up.failed_in_handler) == (40, 0)


def test_a_stopped_trial_blames_the_handler_for_nothing_that_had_time_left() -> None:
    """It was stopped within the drain limit: the batch that never ended might have come again."""
    stopped = MeasuredTrial().result(StateError(Error="TrialCancelledError", Cause="stopped by the user")).summary
    accounting, (window,) = present(stopped.accounting), stopped.windows
    assert (accounting.processed, accounting.failed_in_handler, accounting.cut_off_in_handler) == (190, 0, 10)
    handler = present(window.handler)
    assert (handler.arrived, handler.processed, handler.failed_in_handler, handler.cut_off) == (200, 190, 0, 10)
    caveats = {caveat.kind: caveat.text for caveat in stopped.caveats}
    assert "never_processed" not in caveats
    assert caveats["incomplete"].endswith(" 10 events that had arrived had not been processed: cut off, not failed.")


def test_handler_time_is_that_of_the_first_invocation(handler: HandlerResult) -> None:
    """3 ms each; the one that never ended has none for its ten events."""
    assert handler.handler_ms.p50.value == 3
    assert (handler.handler_ms.n, handler.handler_ms.missing, handler.handler_ms.max) == (200, 10, 3)


def test_time_to_processed_begins_when_an_event_was_due(handler: HandlerResult) -> None:
    """The last of a batch waits 33 ms, the one before it 50 ms longer; the retries end 61 s later."""
    times = handler.to_processed_ms
    assert (times.n, times.missing) == (200, 10)
    assert times.min == pytest.approx(33)
    assert times.max == pytest.approx(61_033 + 450)


def test_invocations_count_with_their_retries_and_by_their_errors(handler: HandlerResult) -> None:
    """Twenty batches, three deliveries more; a partial failure is no error of the handler's, to never end is one."""
    assert handler.invocations == 23
    assert handler.errors == {"KeyError": 1, "never ended": 1}
    assert (handler.partly_failed, handler.never_ended, handler.cold_starts) == (1, 1, 1)
    assert present(handler.init_ms).p50.value == 250


def test_redeliveries_say_at_which_try_and_after_what_time(handler: HandlerResult) -> None:
    """From the first try's t4 to the second one's t5."""
    (again,) = handler.redelivered
    assert again == Redelivered(at_try=2, events=14, after_s_p50=61.003, after_s_max=61.003)


def test_invocations_over_time_add_up(result: TrialResult) -> None:
    """None ran beside another; warm-up included there are 27, of which three failed some of their records."""
    points = result.handler
    assert sum(point.began for point in points) == 27
    assert sum(point.failed for point in points) == 3
    assert {point.at_once for point in points if point.began} == {1}
    assert {point.at_once for point in points} == {0, 1}


def test_a_garbled_time_costs_no_more_than_any_other() -> None:
    """A clock that is years off would otherwise be a point for every second in between."""
    trial = MeasuredTrial()
    trial.records.invoke(1, [0], 5_000_000_000)
    assert len(trial.result().handler) < 100


def test_concurrency_counts_what_runs_on_from_the_second_before() -> None:
    """Two of 2.5 s that begin half a second apart: both run in each of two seconds that nothing begins in."""
    trial = MeasuredTrial()
    start_ns = trial.records.start_of(1) + 100 * 10**9
    for number in range(2):
        trial.records.invoke(1, [number], start_ns + number * 5 * 10**8, 25 * 10**8)
    points = {point.second: point for point in trial.result().handler}
    first = round((start_ns - trial.records.start_of(0)) / 10**9)
    assert [points[first + second].at_once for second in range(3)] == [2, 2, 2]
    assert [points[first + second].began for second in range(3)] == [2, 0, 0]


@pytest.mark.parametrize(
    ("threshold", "state", "value"),
    [
        ("handler p50 < 5 ms", "passed", 3),
        ("handler p99 < 50 ms", "failed", None),  # of the ten that never ended
        ("to_processed p50 < 1 s", "passed", 283),
        ("to_processed p50 < 200 ms", "failed", 283),
        ("failed_in_handler == 0", "failed", 10),
        ("failed_in_handler <= 5 %", "passed", 0.05),
    ],
)
def test_thresholds_limit_what_the_function_does(
    result: TrialResult, threshold: str, state: str, value: float | None
) -> None:
    """A function that is late or loses events fails a build."""
    (found,) = judge([parse_threshold(threshold)], [result.summary])
    assert (found.state, found.value) == (state, None if value is None else pytest.approx(value))


def test_other_trials_have_none_of_it() -> None:
    """A receiver of ours has no handler to measure."""
    result = AnalysedTrial().finish().result()
    assert (result.summary.windows[0].handler, result.handler) == (None, ())
