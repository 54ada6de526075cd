from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from stepbench.calibration.truth import Fate
from stepbench.contracts.identity import CANARY_PHASE, EventId, trial_tag
from stepbench.contracts.target import Delay, ReferenceTarget, StallDelay
from stepbench.testing.reference_fates import LONGEST_NS, draw_fate, stall_end_ns

N = 10_000
MS = 1_000_000
STALLS = StallDelay(kind="stalls", base_ms=3, stall_ms=300, every_s=2)


def fates(delay: dict[str, Any], seed: int = 1, run: str = "run", **shares: float) -> list[Fate]:
    """Of N events of one writer."""
    target = ReferenceTarget.model_validate({"store": "reference", "delay": delay, **shares})
    tag = trial_tag(run, 0)
    return [draw_fate(target, seed, EventId(tag, 0, 0, 0, 0, n).text().encode()) for n in range(N)]


def test_a_constant_delay_is_constant() -> None:
    """To the nanosecond."""
    assert set(fates({"kind": "constant", "ms": 5.5})) == {Fate(5_500_000)}


def test_a_bimodal_delay_has_its_two_modes_in_their_shares() -> None:
    """Two normal humps, 2 % wide: sizes within four standard errors, scatter within 5 %."""
    drawn = [fate.delay_ns / MS for fate in fates({"kind": "bimodal", "low_ms": 2, "high_ms": 20, "high_share": 0.3})]
    high, low = [each for each in drawn if each > 10], [each for each in drawn if each < 10]
    assert abs(len(high) / N - 0.3) < 4 * math.sqrt(0.3 * 0.7 / N)
    for mode, mode_ms in ((low, 2.0), (high, 20.0)):
        assert stats.kstest(mode, stats.norm(mode_ms, 0.02 * mode_ms).cdf).pvalue > 0.001


def test_a_pareto_delay_has_its_tail() -> None:
    """P(delay > x) = (scale / x) ** shape, cut where the contract says."""
    drawn = [fate.delay_ns / MS for fate in fates({"kind": "pareto", "scale_ms": 2, "shape": 1.5})]
    assert stats.kstest(drawn, stats.pareto(1.5, scale=2).cdf).pvalue > 0.001
    longest = max(fate.delay_ns for fate in fates({"kind": "pareto", "scale_ms": 9_000, "shape": 0.6}))
    assert longest == LONGEST_NS


def test_faults_have_their_shares_and_what_is_dropped_has_no_other() -> None:
    """Within four standard errors; a dropped event that came twice would be nonsense in the truth."""
    drawn = fates({"kind": "constant", "ms": 1}, drop_share=0.1, duplicate_share=0.2, reorder_share=0.3)
    kept = [fate for fate in drawn if not fate.dropped]
    assert abs(len(kept) / N - 0.9) < 4 * math.sqrt(0.1 * 0.9 / N)
    for name, share in (("duplicated", 0.2), ("reordered", 0.3)):
        count = sum(getattr(fate, name) for fate in kept)
        assert abs(count / len(kept) - share) < 4 * math.sqrt(share * (1 - share) / len(kept))
    assert {(fate.duplicated, fate.reordered) for fate in drawn if fate.dropped} == {(False, False)}


def test_the_seed_decides_and_the_run_does_not() -> None:
    """The same plan has the same losses in every run; repeats differ by seed."""
    pareto = {"kind": "pareto", "scale_ms": 2, "shape": 1.5}
    assert fates(pareto, drop_share=0.5) == fates(pareto, run="other", drop_share=0.5)
    assert fates(pareto, seed=1) != fates(pareto, seed=2)


def test_a_canary_is_delayed_and_nothing_else() -> None:
    """A trial waits for three of them before its load begins."""
    target = ReferenceTarget(store="reference", drop_share=0.99, duplicate_share=0.99, reorder_share=0.99)
    tag = trial_tag("run", 0)
    drawn = {draw_fate(target, 1, EventId(tag, CANARY_PHASE, 0, 0, 0, n).text().encode()) for n in range(50)}
    assert drawn == {Fate(5 * MS)}


@pytest.mark.parametrize(
    ("due_ms", "end_ms"),
    [(0, 0), (150, 150), (1_999, 1_999), (2_000, 2_300), (2_299, 2_300), (2_300, 2_300), (4_100, 4_300)],
)
def test_what_falls_into_a_stall_comes_at_its_end(due_ms: int, end_ms: int) -> None:
    """300 ms every 2 s, the first after 2 s; the end itself is free again."""
    assert stall_end_ns(STALLS, 7, 7 + due_ms * MS) == 7 + end_ms * MS


def test_other_delays_know_no_stalls() -> None:
    """They are due when they are due."""
    delay: Delay = ReferenceTarget(store="reference").delay
    assert stall_end_ns(delay, 0, 2_100 * MS) == 2_100 * MS
