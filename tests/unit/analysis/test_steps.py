"""Across a scaling step: rates, change points, comparisons, boxes, modes, and published numbers beside ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepbench.contracts.result import TrialResult
from stepbench.testing.analysed_trials import PHASES, AnalysedTrial

STEP: dict[str, Any] = {
    "name": "step",
    "load": [{"rate_per_s": 20, "duration_s": 15}, {"rate_per_s": 40, "duration_s": 15}],
    "windows": [{"name": "before", "from_s": 5, "to_s": 15}, {"name": "after", "from_s": 15, "to_s": 25}],
}


def stepped(*, lost: tuple[int, ...] = (), **plan: Any) -> tuple[AnalysedTrial, TrialResult]:  # noqa: ANN401 -- a plan's fields
    """A warm-up, and 15 s at 20/s followed by 15 s at 40/s; latencies are exponential with 5 ms, behind 2 ms."""
    trial = AnalysedTrial(**{"phases": [PHASES[0], STEP], **plan}).finish(lost=lost)
    return trial, trial.result()


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
    """At 15 s, to the bin; 20/s before and 40/s after."""
    _, result = stepped()
    rate, latency = result.summary.change_points
    assert (rate.phase, rate.series, latency.series) == ("step", "achieved_per_s", "latency_ms")
    assert rate.at_s.value == pytest.approx(15)
    assert rate.at_s.low == pytest.approx(14.9)
    assert rate.at_s.high == pytest.approx(15.1)
    assert rate.before == pytest.approx(20)
    assert rate.after == pytest.approx(40)
    assert rate.p_value is not None
    assert rate.p_value < 1e-6
    assert latency.at_s.value is None
    assert latency.at_s.reason is not None
    assert latency.at_s.reason.startswith("no change to be seen (p = 0.")
    assert latency.before is not None
    assert 4 < latency.before < 7


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
    for estimate, truth in (
        (found.median_shift_ms, 0),
        (found.median_ratio, 1),
        (found.iqr_ratio, 1),
        (found.tail_ratio, 1),
    ):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= truth <= estimate.high


def test_windows_that_overlap_are_not_compared() -> None:
    """Events in both would pass for agreement."""
    windows = [{"name": "all", "from_s": 0, "to_s": 30}, {"name": "late", "from_s": 20, "to_s": 30}]
    _, result = stepped(phases=[PHASES[0], {**STEP, "windows": windows}])
    (found,) = result.summary.comparisons
    assert found.median_shift_ms.reason == found.tail_ratio.reason == "the windows overlap"


def test_boxes_are_the_windows_quantiles() -> None:
    """As numpy has them."""
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
    assert [(each.phase, each.window, len(each.modes_ms)) for each in found] == [
        ("step", "before", 1),
        ("step", "after", 1),
    ]
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
    assert found.reason is not None
    assert found.reason.startswith("every ")


def test_published_numbers_stand_beside_ours() -> None:
    """Ours over 10 ms, for both readings of the start; the interval is divided like the value."""
    published = [{"metric": "p50", "value_ms": 10, "source": "A paper, Fig. 5", "window": "after"}]
    _, result = stepped(published=published)
    (found,), (_, window) = result.summary.replication, result.summary.windows
    assert (found.metric, found.window, found.phase, found.source) == ("p50", "after", "step", "A paper, Fig. 5")
    assert (found.published, found.unit, found.over) == (10, "ms", "")
    assert found.ours == window.latency_ms.p50
    assert window.after_ack_ms is not None
    assert found.ours_after_ack == window.after_ack_ms.p50
    for ours, ratio in ((found.ours, found.ratio), (found.ours_after_ack, found.ratio_after_ack)):
        for part in ("low", "value", "high"):
            assert getattr(ratio, part) == pytest.approx(getattr(ours, part) / 10)


def test_a_published_number_without_ours_says_so() -> None:
    """The trial failed before its measured phase; and a p99 of 200 events has no interval, so no ratio either."""
    published = [{"metric": "p99", "value_ms": 10, "source": "A paper"}]
    trial = AnalysedTrial(published=published)
    trial.records.phase(0)
    (found,) = trial.result().summary.replication
    assert (found.window, found.ratio.value, found.ratio.reason) == ("steady", None, "the window was not measured")
    (short,) = AnalysedTrial(published=published).finish().result().summary.replication
    assert (short.ratio.value, short.ratio.reason) == (None, "n=200 < 368")


def test_published_ratios_stand_beside_ours() -> None:
    """Of two windows, and of two metrics of one; ours has an interval that holds its value."""
    published = [
        {"metric": "p50", "ratio": 2, "over": "before", "source": "A paper", "window": "after"},
        {"metric": "p90", "ratio": 9, "over_metric": "p50", "bound": "up_to", "source": "A paper", "window": "after"},
        {"metric": "iqr", "ratio": 2, "over": "before", "source": "A paper", "window": "after"},
    ]
    _, result = stepped(published=published)
    medians, tail, _ = result.summary.replication
    before, after = (window.latency_ms for window in result.summary.windows)
    assert (medians.unit, medians.over, medians.published) == ("ratio", "p50 of before", 2)
    assert after.p50.value is not None
    assert before.p50.value is not None
    assert medians.ours.value == pytest.approx(after.p50.value / before.p50.value)
    assert (tail.over, tail.bound) == ("p50 of after", "up_to")
    assert after.p90.value is not None
    assert tail.ours.value == pytest.approx(after.p90.value / after.p50.value)
    for each in result.summary.replication:
        assert each.ours.value is not None
        assert each.ours.low is not None
        assert each.ours.high is not None
        assert each.ours.low <= each.ours.value <= each.ours.high
        assert each.ratio.value == pytest.approx(each.ours.value / each.published)
