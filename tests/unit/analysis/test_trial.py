"""A trial's result: its rates and change points, windows compared, published numbers, and what a filter holds back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.samples.estimates import numbers, present
from tests.samples.finished_trials import GAP, PHASES, SECOND_NS, START_NS, AnalysedTrial, watched_with_a_gap

from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import AwaitArrivalsInput, StateError
from stepbench.stages.await_arrivals import await_arrivals

STEP: dict[str, Any] = {
    "name": "step",
    "load": [{"rate_per_s": 20, "duration_s": 15}, {"rate_per_s": 40, "duration_s": 15}],
    "windows": [{"name": "before", "from_s": 5, "to_s": 15}, {"name": "after", "from_s": 15, "to_s": 25}],
}


def stepped(*, lost: tuple[int, ...] = (), **plan: Any) -> tuple[AnalysedTrial, TrialResult]:  # noqa: ANN401 -- a plan's fields
    """Analyse a warm-up, then 15 s at 20/s and 15 s at 40/s; latencies are exponential with 5 ms, behind 2 ms."""
    trial = AnalysedTrial(**{"phases": [PHASES[0], STEP], **plan}).finish(lost=lost)
    return trial, trial.result()


def test_each_window_has_the_losses_of_its_own_events() -> None:
    """Beside n = 200 the trial's losses would be read as the window's; event 50 is in neither, 200 in `before` only."""
    _, result = stepped(lost=(50, 200, 310, 320))
    before, after = result.summary.windows
    assert (before.n, before.lost, after.n, after.lost) == (200, 1, 400, 2)
    assert present(result.summary.accounting).lost == 4


def test_rates_are_events_in_tenths_of_a_second() -> None:
    """2 a bin, then 4, without a gap at the step; sent 0.02 ms and acknowledged 2.02 ms after they were due."""
    _, result = stepped()
    (rates,) = result.rates
    assert (rates.phase, rates.bin_s) == ("step", 0.1)
    assert rates.offered == (2,) * 150 + (4,) * 150
    assert sum(rates.sent) == sum(rates.acknowledged) == 900
    assert set(rates.acknowledged[:150]) == {2}


def test_phases_of_one_rate_have_neither_rates_nor_change_points() -> None:
    """There is nothing to find, and a test at 5 % would find it now and then."""
    result = AnalysedTrial().finish().result()
    assert (result.rates, result.summary.change_points, result.summary.comparisons) == ((), (), ())


def test_the_rate_changes_at_the_step_and_the_latency_does_not() -> None:
    """The step is at 15 s, to the bin; 20/s before and 40/s after."""
    _, result = stepped()
    rate, latency = result.summary.change_points
    assert (rate.phase, rate.series, latency.series) == ("step", "achieved_per_s", "latency_ms")
    assert (*numbers(rate.at_s), rate.before, rate.after) == pytest.approx((14.9, 15, 15.1, 20, 40))
    assert present(rate.p_value) < 1e-6
    assert latency.at_s.value is None
    assert (latency.at_s.reason or "").startswith("no change to be seen (p = 0.")
    assert 4 < present(latency.before) < 7


def test_a_store_that_delivers_nothing_after_the_step_changed_there() -> None:
    """Medians beyond the drain limit are no number, but they are a level."""
    _, result = stepped(lost=tuple(range(300, 900)))
    _, latency = result.summary.change_points
    assert latency.at_s.value == 15
    assert latency.after is None


def test_a_phase_of_few_seconds_says_that_it_is_too_short() -> None:
    """Two steps of 2 s: 40 bins for the rate, 4 for the latency."""
    short = {"name": "step", "load": [{"rate_per_s": 20, "duration_s": 2}, {"rate_per_s": 40, "duration_s": 2}]}
    _, result = stepped(phases=[PHASES[0], short])
    rate, latency = result.summary.change_points
    assert rate.at_s.value == pytest.approx(2)
    assert (latency.at_s.value, latency.at_s.reason, latency.p_value) == (None, "4 bins < 10", None)


def test_the_windows_are_compared_in_order() -> None:
    """Both draw from one distribution: ratios of 1 and a shift of 0 lie within; names are the plan's."""
    trial, result = stepped()
    (found,) = result.summary.comparisons
    assert (found.phase_a, found.a, found.phase_b, found.b) == ("step", "before", "step", "after")
    latency_ms = trial.records.latency_ns[1] / 1e6
    before, after = latency_ms[100:300], latency_ms[300:700]
    assert found.median_shift_ms.value == pytest.approx(np.median(after) - np.median(before))
    assert found.median_ratio.value == pytest.approx(np.median(after) / np.median(before))
    ratios = (found.median_ratio, found.iqr_ratio, found.tail_ratio)
    for estimate, truth in ((found.median_shift_ms, 0), *((ratio, 1) for ratio in ratios)):
        low, _, high = numbers(estimate)
        assert low <= truth <= high


def test_each_window_counts_its_own_lost_events_and_duplicates() -> None:
    """5 s to 15 s at 20/s are events 100 to 299, then 400 at 40/s; a loss before both windows is in neither."""
    trial = AnalysedTrial(phases=[PHASES[0], STEP]).finish(lost=(20, 150, 299, 300))
    for sequence in (250, 251, 252, 720):
        trial.records.deliver(1, sequence, trial.records.start_of(1) + 29 * SECOND_NS + sequence)
    before, after = trial.result().summary.windows
    assert (before.lost, before.duplicates, after.lost, after.duplicates) == (2, 3, 1, 0)


def test_what_a_stopped_trial_cut_off_is_not_lost_in_its_window_either() -> None:
    """With a drain limit of 2 s, event 10 had the time to arrive, and the last one, answered at the end, had not."""
    trial = AnalysedTrial(drain_limit_s=2).finish(lost=(10, 199))
    stopped = trial.result(StateError(Error="TrialCancelledError", Cause="stopped by the user")).summary
    accounting = present(stopped.accounting)
    assert (accounting.lost, accounting.cut_off, stopped.windows[0].lost) == (1, 1, 1)


def test_windows_that_overlap_are_not_compared() -> None:
    """Events in both would pass for agreement."""
    windows = [{"name": "all", "from_s": 0, "to_s": 30}, {"name": "late", "from_s": 20, "to_s": 30}]
    _, result = stepped(phases=[PHASES[0], {**STEP, "windows": windows}])
    (found,) = result.summary.comparisons
    assert found.median_shift_ms.reason == found.tail_ratio.reason == "the windows overlap"


def test_boxes_are_the_windows_quantiles() -> None:
    """NumPy's quantiles are the reference."""
    trial, result = stepped()
    box, _ = result.boxes
    before = trial.records.latency_ns[1][100:300] / 1e6
    assert (box.window, box.phase, box.n) == ("before", "step", 200)
    drawn = (box.p1, box.p25, box.p50, box.p75, box.p90, box.p99)
    assert drawn == pytest.approx(np.quantile(before, [0.01, 0.25, 0.5, 0.75, 0.9, 0.99]))


def test_boxes_end_where_nothing_arrived() -> None:
    """A tenth and more lost: neither p90 nor p99; nothing acknowledged: nothing at all."""
    _, result = stepped(lost=tuple(range(100, 300, 8)))
    box, _ = result.boxes
    assert (box.n, box.p90, box.p99) == (200, None, None)
    assert box.p75 is not None
    trial = AnalysedTrial()
    trial.records.phase(0)
    trial.records.plan_phase(1)
    trial.records.rows(1, np.array([], dtype=np.int64))
    empty = trial.result()
    assert (empty.boxes[0].n, empty.boxes[0].p50) == (0, None)
    assert empty.summary.modality[0].reason == "n=0 < 100"


def test_each_window_says_how_many_modes_it_has() -> None:
    """An exponential behind a constant has one."""
    _, result = stepped()
    found = result.summary.modality
    expected = [("step", "before", 1), ("step", "after", 1)]
    assert [(each.phase, each.window, len(each.modes_ms)) for each in found] == expected
    assert all(each.p_value is not None and each.p_value >= 0.05 for each in found)


def test_slow_waves_are_no_modes() -> None:
    """Half of the events wait in one long stretch: two levels, but too few independent events to speak of modes."""
    trial = AnalysedTrial()
    trial.records.phase(0)
    trial.records.plan_phase(1)
    t0_ns = trial.records.start_of(1) + np.arange(200) * 50_000_000
    trial.records.rows(1, t0_ns)
    for number, t0 in enumerate(t0_ns.tolist()):
        trial.records.deliver(1, number, t0 + (5_000_000 if number < 100 else 50_000_000) + number)
    (found,) = trial.result().summary.modality
    assert found.p_value is None
    assert re.fullmatch(r"\d of 200 independent < 100", found.reason or "")


def test_published_numbers_stand_beside_ours() -> None:
    """Ours over 10 ms, for both readings of the start; the interval is divided like the value."""
    published = [{"metric": "p50", "value_ms": 10, "source": "A paper, Fig. 5", "window": "after"}]
    _, result = stepped(published=published)
    (found,), (_, window) = result.summary.replication, result.summary.windows
    assert (found.metric, found.window, found.phase, found.source) == ("p50", "after", "step", "A paper, Fig. 5")
    assert (found.published, found.unit, found.over) == (10, "ms", "")
    assert found.ours == window.latency_ms.p50
    assert found.ours_after_ack == present(window.after_ack_ms).p50
    for ours, ratio in ((found.ours, found.ratio), (found.ours_after_ack, found.ratio_after_ack)):
        assert numbers(ratio) == pytest.approx([number / 10 for number in numbers(ours)])


def test_a_percentile_that_no_summary_has_is_of_either_reading_of_the_start() -> None:
    """An acknowledgement takes 2 ms, by construction."""
    published = [{"metric": "p75", "value_ms": 10, "source": "A paper", "window": "after"}]
    (found,) = stepped(published=published)[1].summary.replication
    assert present(present(found.ours_after_ack).value) == pytest.approx(present(found.ours.value) - 2)


def test_a_published_number_without_ours_says_so() -> None:
    """The trial failed before its measured phase; and a p99 of 200 events has no interval, nor has its ratio."""
    published = [{"metric": "p99", "value_ms": 10, "source": "A paper"}]
    trial = AnalysedTrial(published=published)
    trial.records.phase(0)
    (found,) = trial.result().summary.replication
    assert (found.window, found.ratio.value, found.ratio.reason) == ("steady", None, "the window was not measured")
    (short,) = AnalysedTrial(published=published).finish().result().summary.replication
    assert (short.ratio.low, short.ratio.reason) == (None, "n=200 < 368")
    assert short.ratio.value == pytest.approx(present(short.ours.value) / 10)


def test_a_writes_round_trip_is_scored_by_one_reading() -> None:
    """It ends with the acknowledgement; what a ratio is of two trials is left for the run's end."""
    published = [
        {"metric": "write_p50", "value_ms": 32, "source": "A paper", "note": "Of 1 KB.", "window": "after"},
        {"metric": "p50", "ratio": 10, "over_trial": "etcd", "source": "A paper", "window": "after"},
    ]
    _, result = stepped(published=published)
    (found,), (_, window) = result.summary.replication, result.summary.windows
    assert (found.ours, found.ours_after_ack, found.unit) == (window.service_ms.p50, None, "ms")
    assert found.ratio.value == pytest.approx(present(found.ours.value) / 32)
    assert found.note == "Of 1 KB."


def test_published_ratios_stand_beside_ours() -> None:
    """Ratios of two windows, and of two metrics of one, have an interval that holds their value."""
    published = [
        {"metric": "p50", "ratio": 2, "over": "before", "source": "A paper", "window": "after"},
        {"metric": "p90", "ratio": 9, "over_metric": "p50", "bound": "up_to", "source": "A paper", "window": "after"},
        {"metric": "iqr", "ratio": 2, "over": "before", "source": "A paper", "window": "after"},
    ]
    _, result = stepped(published=published)
    medians, tail, _ = result.summary.replication
    before, after = (window.latency_ms for window in result.summary.windows)
    p50, p90 = numbers(after.p50)[1], numbers(after.p90)[1]
    assert (medians.unit, medians.over, medians.published) == ("ratio", "p50 of before", 2)
    assert medians.ours.value == pytest.approx(p50 / numbers(before.p50)[1])
    assert (tail.over, tail.bound) == ("p50 of after", "up_to")
    assert tail.ours.value == pytest.approx(p90 / p50)
    for each in result.summary.replication:
        low, value, high = numbers(each.ours)
        assert low <= value <= high
        assert each.ratio.value == pytest.approx(value / each.published)


EVEN = tuple(range(0, 200, 2))


def filtered(not_delivered: tuple[int, ...] = EVEN) -> AnalysedTrial:
    """Leave a warm-up whose filter held back what it should, and a measured phase that did not deliver these."""
    trial = AnalysedTrial(record={"matching_share": 0.5})
    trial.records.phase(0, lost=EVEN[:20])
    trial.records.phase(1, lost=not_delivered)
    return trial


def test_what_the_filter_holds_back_is_not_lost() -> None:
    """It is not missing from any quantile either; the rates are those of the whole load."""
    trial = filtered()
    result = trial.result()
    accounting, (window,), (curve,) = result.summary.accounting, result.summary.windows, result.ecdf
    assert accounting is not None
    assert (accounting.offered, accounting.ok, accounting.received, accounting.ok_arrived) == (200, 200, 100, 100)
    assert (accounting.held_back, accounting.leaked, accounting.lost) == (100, 0, 0)
    assert present(result.summary.warm_up).held_back == 20
    assert (window.n, window.latency_ms.missing, window.service_ms.n) == (100, 0, 100)
    assert (window.offered_per_s, window.achieved_per_s) == (20, 20)
    assert window.latency_ms.p50.value == pytest.approx(np.median(trial.records.latency_ns[1][1::2]) / 1e6)
    assert curve.probability[-1] == 1
    assert not {"lost_events", "filter_leaked"} & trial.kinds()


def test_a_matching_event_that_did_not_arrive_is_lost() -> None:
    """Event 7 was to pass."""
    summary = filtered((*EVEN, 7)).result().summary
    assert summary.accounting is not None
    assert (summary.accounting.lost, summary.accounting.held_back) == (1, 100)
    assert summary.windows[0].latency_ms.missing == 1


def test_what_leaks_through_the_filter_is_counted_and_said_and_in_no_latency() -> None:
    """Events 0 to 8 arrived, five of them against the filter."""
    trial = filtered(EVEN[5:])
    summary = trial.result().summary
    assert summary.accounting is not None
    assert (summary.accounting.received, summary.accounting.held_back, summary.accounting.leaked) == (105, 95, 5)
    assert summary.windows[0].n == 100
    (caveat,) = [caveat for caveat in summary.caveats if caveat.kind == "filter_leaked"]
    assert caveat.text.startswith("5 events arrived")


def test_the_series_tells_the_held_back_from_the_missing() -> None:
    """A second in which nothing was to arrive is no second without arrivals."""
    points = [point for point in filtered().result().series if point.phase == "steady"]
    counts = {(point.offered, point.acknowledged, point.not_matching, point.arrived) for point in points}
    assert counts == {(20, 20, 10, 10)}
    assert all(point.max_ms is not None for point in points)


def test_arrivals_are_awaited_of_the_matching_only() -> None:
    """Every trial with a filter would last until its drain limit otherwise."""
    trial = filtered()
    found = await_arrivals(AwaitArrivalsInput(ref=trial.ref), trial.memory.services)
    assert (found.done, found.expected, found.arrived) == (True, 120, 120)


def test_a_leaked_event_does_not_pass_for_a_lost_one() -> None:
    """The counters alone would have all 120 of 120 there."""
    trial = AnalysedTrial(record={"matching_share": 0.5})
    trial.records.phase(0, lost=EVEN[:20])
    trial.records.phase(1, lost=(*EVEN[1:], 7))
    trial.memory.services.clock.sleep((START_NS - trial.memory.services.clock.now_ns()) / SECOND_NS + 60)
    found = await_arrivals(AwaitArrivalsInput(ref=trial.ref), trial.memory.services)
    assert (found.done, found.expected, found.arrived) == (False, 120, 119)


def test_what_happened_while_nobody_watched_is_in_no_latency_and_said() -> None:
    """Two seconds without a watcher would pass for the store's: 40 of 200 events took up to 2 s."""
    trial = watched_with_a_gap()
    result = trial.result()
    accounting, (window,) = present(result.summary.accounting), result.summary.windows
    assert (accounting.ok_arrived, accounting.watch_gap, accounting.lost) == (200, 40, 0)
    assert (window.n, window.latency_ms.n, window.latency_ms.missing) == (160, 160, 0)
    seen = np.delete(trial.records.latency_ns[1], list(GAP))
    assert window.latency_ms.max == pytest.approx(seen.max() / 1e6)
    assert present(result.summary.warm_up).watch_gap == 0
    (caveat,) = [caveat for caveat in result.summary.caveats if caveat.kind == "watch_gap"]
    assert caveat.text.startswith("40 events were acknowledged while nobody watched etcd (steady: 3.0 s to 5.0 s).")
    points = {round(point.second): point for point in result.series if point.phase == "steady"}
    begun = min(points)
    assert [points[begun + second].p50_ms is None for second in range(2, 6)] == [False, True, True, False]
    assert [points[begun + second].arrived for second in range(2, 6)] == [20, 20, 20, 20]
    assert [points[begun + second].watch_gap for second in range(2, 6)] == [0, 20, 20, 0]


def test_a_window_in_which_nobody_watched_fails_the_trial_for_that() -> None:
    """Its events were acknowledged and have arrived, so it would be false that the store took none of them."""
    result = watched_with_a_gap([{"name": "gap", "from_s": 3, "to_s": 5}]).result()
    cause = "no event of window gap that had to arrive was acknowledged while anybody watched"
    assert present(result.summary.failure).cause == cause


def test_what_came_while_a_watcher_stood_still_is_in_a_gap_too() -> None:
    """It stood still from 7 s to 7.5 s: what arrived then was stamped afterwards, so ten events more are set aside."""
    start_ns = AnalysedTrial(store="etcd").records.start_of(1)
    pause_ns = [start_ns + 7 * SECOND_NS, start_ns + 7 * SECOND_NS + SECOND_NS // 2]
    trial = watched_with_a_gap(pauses_ns=[pause_ns])
    assert present(trial.result().summary.accounting).watch_gap == 50
