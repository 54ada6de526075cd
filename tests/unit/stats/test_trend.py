"""What rises or falls all through a window is found, and what only looks like it is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.samples import planted_growth
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.analysis.thresholds import decide
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.stats.trend import LEAST_EVENTS, bin_medians, end_of_arrivals_s, find_backlog, find_trend


@pytest.mark.parametrize("seed", range(20))
def test_planted_queues_and_drifts_are_found(seed: int) -> None:
    """Quantiles of either are a mix of what was at first and what was at last."""
    for planted in (planted_growth.queue(seed), planted_growth.drift(seed)):
        thirds = np.array_split(planted.elapsed_s, 3)
        grew = np.median(thirds[2]) > np.median(thirds[0])
        found = present(find_trend(planted.elapsed_s, planted.at_s, planted.length_s))
        assert (found.ratio > 1) == grew


@pytest.mark.parametrize("seed", range(50))
def test_clean_windows_have_none(seed: int) -> None:
    """Stalls, heavy tails, dependence and a server that is four fifths busy make long latencies, and no trend."""
    planted = planted_growth.clean(seed)
    assert find_trend(planted.elapsed_s, planted.at_s, planted.length_s) is None


def test_its_ends_are_medians_of_three_tenths() -> None:
    """1 ms in the first half and 3 ms in the second, whatever one event in each does."""
    at_s = np.arange(200) / 20
    values = np.where(at_s < 5, 1.0, 3.0)
    values[[7, 193]] = 1_000, 0.001
    found = present(find_trend(values, at_s, 10))
    assert (found.before, found.after, found.ratio) == (1.0, 3.0, 3.0)


def test_a_factor_makes_no_difference() -> None:
    """Seconds or milliseconds."""
    planted = planted_growth.drift(1)
    one, thousand = (
        present(find_trend(factor * planted.elapsed_s, planted.at_s, planted.length_s)) for factor in (1, 1_000)
    )
    assert thousand.ratio == pytest.approx(one.ratio)


def test_a_few_values_and_missing_ones_tell_nothing() -> None:
    """49 that grow; and 100 of which only the first 49 arrived."""
    at_s = np.arange(100) / 10
    values = 1 + at_s
    few = LEAST_EVENTS - 1
    assert find_trend(values[:few], 2 * at_s[:few], 10) is None
    assert find_trend(np.where(at_s < at_s[few], values, np.inf), at_s, 10) is None


def test_each_span_has_its_median() -> None:
    """Of an even number the mean of the two in the middle; of none, none."""
    values, at_s = np.array([5.0, 1.0, 4.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3, 0.4, 2.5])
    assert bin_medians(values, at_s, 3, 3).tolist() == pytest.approx([3.0, np.nan, 9.0], nan_ok=True)


def test_arrivals_end_where_most_are_missing_from_then_on() -> None:
    """Whatever is lost before, or arrives after; a last stretch below a tenth of the window is no end."""
    at_s = np.arange(100) / 10
    values = np.where(at_s < 6, 1.0, np.inf)
    values[[5, 17, 80]] = np.inf, np.inf, 1.0
    assert end_of_arrivals_s(values, at_s, 10) == 6
    assert end_of_arrivals_s(np.where(at_s < 9.5, 1.0, np.inf), at_s, 10) == 10
    assert end_of_arrivals_s(np.full(100, np.inf), at_s, 10) == 0


MS = 10**6
EVENTS = 200
DUE_S = np.arange(EVENTS) / 20
QUEUE_NS = np.round((0.002 + planted_growth.in_order(DUE_S, np.full(EVENTS, 1 / 16))) * SECOND_NS).astype(np.int64)
"""20 a second come, 16 are worked off: the last of 10 s waits for 2.5 s."""


@pytest.mark.parametrize("seed", range(20))
def test_planted_queues_are_found_and_planted_drifts_are_none(seed: int) -> None:
    """A store that takes three times as long at the end has no more than a few events waiting."""
    at_s, elapsed_s, length_s = planted_growth.queue(seed)
    found = present(find_backlog(elapsed_s, at_s, length_s))
    ended_s = at_s + elapsed_s
    late = np.count_nonzero((ended_s > length_s / 2) & (ended_s <= length_s)) / (length_s / 2)
    assert found.kept_up_per_s == pytest.approx(late, rel=0.1)
    assert found.kept_up_per_s < found.accepted_per_s
    drift = planted_growth.drift(seed)
    assert find_backlog(drift.elapsed_s, drift.at_s, drift.length_s) is None


@pytest.mark.parametrize("from_share", [0, 0.6])
@pytest.mark.parametrize("drain_s", [5, 10, 30, 60])
@pytest.mark.parametrize("capacity_per_s", [80, 70, 60, 50, 40, 30, 10])
def test_a_queue_is_found_though_its_last_events_never_arrive(
    capacity_per_s: float, drain_s: float, from_share: float
) -> None:
    """The stronger the overload, the more is beyond the drain limit: once "slower at p50: 1,508 times"."""
    found = present(find_backlog(*_arguments(planted_growth.overload(capacity_per_s, drain_s, from_share=from_share))))
    assert found.accepted_per_s == pytest.approx(100, rel=0.02)
    assert found.kept_up_per_s == pytest.approx(capacity_per_s, rel=0.05 if from_share == 0 else 0.5)
    assert found.after_s > found.before_s


@pytest.mark.parametrize("sent_s", [20, 17])
@pytest.mark.parametrize("kept_up_per_s", [100, 300, 500])
@pytest.mark.parametrize("waited_s", [5, 20, 60])
def test_a_queue_that_was_long_when_the_window_began_is_one(
    waited_s: float, kept_up_per_s: float, sent_s: float
) -> None:
    """From 21 s to 34 s is not half as much again, and the writer itself sent the last tenth of its events never."""
    at_s = np.arange(0, sent_s, 1 / 750)
    elapsed_s = waited_s + np.arange(at_s.size) / kept_up_per_s - at_s
    found = present(find_backlog(np.maximum(elapsed_s, 0.001), at_s, 20))
    assert found.after_s > found.before_s
    assert found.kept_up_per_s < found.accepted_per_s


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("waited_s", [5, 20, 60])
def test_a_delay_that_is_long_and_stays_so_is_no_queue(waited_s: float, seed: int) -> None:
    """A batching window hands over later, and as fast as it takes."""
    at_s = np.arange(0, 20, 1 / 750)
    elapsed_s = waited_s * np.random.default_rng((6, seed)).lognormal(0, 0.2, at_s.size)
    assert find_backlog(elapsed_s, at_s, 20) is None


@pytest.mark.parametrize("seed", range(50))
def test_what_is_lost_is_no_queue(seed: int) -> None:
    """One of twenty at random, or all from some moment on, after latencies that were as usual."""
    at_s, elapsed_s, length_s = planted_growth.clean(seed)
    assert find_backlog(elapsed_s, at_s, length_s) is None
    lost = [np.random.default_rng((5, seed)).random(at_s.size) < 0.05]
    lost += [at_s >= share * length_s for share in (0.2, 0.5, 0.8)]
    for each in lost:
        assert find_backlog(np.where(each, np.inf, elapsed_s), at_s, length_s) is None


@pytest.mark.parametrize(
    ("per_s", "length_s", "first_s", "last_s"), [(200, 10, 0.02, 0.05), (1_000, 5, 0.005, 0.015), (100, 30, 0.05, 0.12)]
)
@pytest.mark.parametrize("lost", [0, 0.05])
def test_what_keeps_up_with_its_load_is_a_drift(
    per_s: int, length_s: float, first_s: float, last_s: float, lost: float
) -> None:
    """Once "fell behind: kept up with 200 of 200/s"; events that are lost at random are no backlog either."""
    rng = np.random.default_rng(6)
    at_s = np.arange(round(per_s * length_s)) / per_s
    elapsed_s = first_s * (last_s / first_s) ** (at_s / length_s) * rng.lognormal(0, 0.1, at_s.size)
    elapsed_s[rng.random(at_s.size) < lost] = np.inf
    assert find_backlog(elapsed_s, at_s, length_s) is None
    assert present(find_trend(elapsed_s, at_s, length_s)).ratio > 1.5


def _arguments(planted: planted_growth.Planted) -> tuple[planted_growth.Values, planted_growth.Values, float]:
    return planted.elapsed_s, planted.at_s, planted.length_s


def test_medians_that_rise_by_fits_and_starts_are_a_queue() -> None:
    """Per 5 s 1.6, 54, 212, 166, 422 and 468 ms: once "66 ms [0, 24,634]", without a word of it."""
    rng = np.random.default_rng(5)
    at_s = np.arange(30 * 200) / 200
    level_s = np.repeat([0.0016, 0.054, 0.212, 0.166, 0.422, 0.468], 1_000)
    found = present(find_backlog(level_s * rng.lognormal(0, 0.2, at_s.size), at_s, 30))
    assert found.waiting == pytest.approx(200 * (0.468 - 0.04), rel=0.2)
    assert found.reason.startswith("fell behind: kept up with 19")


def queued() -> Trial:
    """Leave a trial whose measured phase falls behind."""
    trial = Trial()
    trial.records.phase(0)
    trial.records.phase(1, latency_ns=QUEUE_NS)
    return trial


def test_a_trigger_that_falls_behind_has_a_caveat_with_the_rate_that_it_kept_up_with() -> None:
    """It names what to offer less than."""
    (caveat,) = queued().caveats("fell_behind")
    assert caveat.text.startswith(
        "Window steady: the trigger fell behind: at this rate the number depends on the run's length. "
        "Of 20 events a second 15.9 were worked through, so latency grew from "
    )
    assert "Offer less than 15.9/s" in caveat.remedy
    assert caveat.windows == (0,)


def test_its_quantiles_have_no_interval_and_those_of_the_write_have() -> None:
    """An interval would be of a number that another length changes; the write waits for nothing."""
    window = queued().result().summary.windows[0]
    p50 = window.latency_ms.p50
    assert (p50.high, p50.fell_behind) == (None, True)
    assert present(p50.low) == pytest.approx(float(np.median(QUEUE_NS[: EVENTS // 2])) / MS, rel=0.02)
    assert present(window.response_trigger_ms).p90.fell_behind
    assert window.service_ms.p50.high is not None
    assert present(window.kept_up_per_s) == pytest.approx(16, rel=0.05)


def test_a_queue_beyond_the_drain_limit_fell_behind_as_well() -> None:
    """A quarter of the load is worked through: no median at all, and no verdict on it."""
    trial = Trial()
    trial.records.phase(0)
    wait_ns = np.round((0.002 + planted_growth.in_order(DUE_S, np.full(EVENTS, 1 / 5))) * SECOND_NS).astype(np.int64)
    lost = np.nonzero(DUE_S * SECOND_NS + wait_ns > 13 * SECOND_NS)[0]
    trial.records.phase(1, latency_ns=wait_ns, lost=tuple(lost.tolist()))
    (caveat,) = trial.caveats("fell_behind")
    assert "(median at first) until most events never came through, and 151 more events waited" in caveat.text
    window = trial.result().summary.windows[0]
    assert present(window.kept_up_per_s) == pytest.approx(5, abs=0.2)
    p50 = window.latency_ms.p50
    assert (p50.value, p50.low, p50.fell_behind) == (None, None, True)
    assert decide(parse_threshold("p50 < 60 s"), p50).state == "failed"


@pytest.mark.parametrize(
    ("threshold", "state"),
    [
        ("p50 < 100 ms", "failed"),
        ("p50 < 1 s", "undecidable"),
        ("p50 < 60 s", "undecidable"),
        ("p50 > 10 ms", "passed"),
    ],
)
def test_a_threshold_is_decided_by_what_is_surely_exceeded(threshold: str, state: str) -> None:
    """A longer run makes it worse, and none makes it better."""
    assert decide(parse_threshold(threshold), queued().result().summary.windows[0].latency_ms.p50).state == state


def test_a_latency_that_falls_is_a_drift() -> None:
    """Warm-up that lasts into the window: from 8 to 2 ms."""
    trial = Trial()
    trial.records.phase(0)
    trial.records.phase(1, latency_ns=np.geomspace(8 * MS, 2 * MS, EVENTS).astype(np.int64))
    (caveat,) = trial.caveats("latency_drift")
    assert caveat.text.startswith("Window steady: latency fell all through it, from 6.5")
    assert "fell_behind" not in trial.kinds()


def test_a_usual_trial_has_neither() -> None:
    """Exponential latencies about 7 ms."""
    assert not {"fell_behind", "latency_drift"} & Trial().finish().kinds()


def test_no_more_events_wait_than_had_not_ended() -> None:
    """Each is tried again and again, so that latency grows by more than waiting: of 200, 581 would wait."""
    at_s = np.linspace(0, 10, 200, endpoint=False)
    elapsed_s = 0.1 + 5 * at_s
    found = present(find_backlog(elapsed_s, at_s, 10))
    assert found.waiting == np.count_nonzero(at_s + elapsed_s >= 10)
