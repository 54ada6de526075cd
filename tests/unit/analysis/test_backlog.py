"""A queue that grows is told from a latency that drifts, with the rate that was kept up with."""

from __future__ import annotations

import numpy as np
import pytest
from tests.samples import planted_growth
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.analysis.backlog import find_backlog
from stepbench.analysis.thresholds import decide
from stepbench.contracts.threshold.parser import parse_threshold

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
