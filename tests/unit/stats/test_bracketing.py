"""The search for a rate, against stores whose utilisation is a known function of the rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.estimates import present

from stepbench.contracts.findings import Utilisation
from stepbench.contracts.trial import FindRate
from stepbench.stats.bracketing import Decision, ProbeResult, decide, decide_after, is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    Store = Callable[[float], ProbeResult]

FIND = FindRate(utilisation=0.8, tolerance=0.05, low_per_s=100, high_per_s=20_000, probes=8)


def search(find: FindRate, store: Store) -> tuple[Decision, list[ProbeResult]]:
    """Probe until there is nothing more to probe."""
    probes: list[ProbeResult] = []
    while (decision := decide(find, probes)).next_per_s is not None:
        assert find.low_per_s <= decision.next_per_s <= find.high_per_s
        assert len(probes) < find.probes
        probes.append(store(decision.next_per_s))
    return decision, probes


def saturating(capacity_per_s: float, power: float = 1.0, idle: float = 0.0) -> Store:
    """Return a store busy with rate ** power over an idle share; beyond its capacity it is at 1 and answers no more."""

    def probe(rate_per_s: float) -> ProbeResult:
        busy = idle + (1 - idle) * (rate_per_s / capacity_per_s) ** power
        return ProbeResult(rate_per_s, min(rate_per_s, capacity_per_s), min(1.0, busy))

    return probe


@pytest.mark.parametrize(
    ("probes", "next_per_s"),
    [
        # Nothing is known of the store, and too much load leaves it in a state that takes time to clear.
        ([], FIND.low_per_s),
        # A rate grows in proportion, but forty times may be forty times too much for a store that is 2 % busy.
        ([ProbeResult(100, 100, 0.02)], 400),
        ([ProbeResult(100, 100, 0.4)], 200),
        ([ProbeResult(100, 100, 0.74)], 125),
        # 20 % without any load, and 1 % more for every 20/s: 80 % lie at 1,200/s; proportion would say 230/s.
        ([ProbeResult(100, 100, 0.25), ProbeResult(320, 320, 0.36)], 1_200),
        # 0.6 at 1,000 and 0.9 at 2,000: on the line, 0.8 lies two thirds of the way, at 1,670.
        ([ProbeResult(1_000, 1_000, 0.6), ProbeResult(2_000, 2_000, 0.9)], 1_670),
        # Offered 4,000, done 2,000 at 100 %: the store's capacity is 2,000, not 4,000.
        ([ProbeResult(1_000, 1_000, 0.5), ProbeResult(4_000, 2_000, 1.0)], 1_600),
        # A compaction made 1,000/s look like too much; 1,200/s, later, is not, and counts; 2 % for every 50/s.
        ([ProbeResult(rate, rate, busy) for rate, busy in ((500, 0.3), (1e3, 0.95), (950, 0.5), (1_200, 0.6))], 1_700),
        # A metric that is late once is no reason to give up.
        ([ProbeResult(100, 100, None)], 100),
        ([ProbeResult(100, 100, 0.4), ProbeResult(100, 100, None)], 200),
    ],
)
def test_the_next_probe_lies_where_the_known_ones_say(probes: list[ProbeResult], next_per_s: float) -> None:
    """Each step is worked by hand."""
    assert decide(FIND, probes).next_per_s == next_per_s


def test_a_probe_that_was_not_held_is_not_found_however_busy() -> None:
    """No window at that rate could be held either."""
    assert decide(FIND, [ProbeResult(897, 815, 0.8)]).found_per_s is None
    assert decide(FIND, [ProbeResult(1_000, 975, 0.8)]).found_per_s is None
    assert decide(FIND, [ProbeResult(1_000, 982, 0.8)]).found_per_s == 1_000


def test_what_is_in_flight_at_the_end_of_a_short_probe_is_not_missing() -> None:
    """1,000/s, each acknowledged 0.1 s later, as 0.5 % fail: of 5 s that is 4.8 %, of 120 s nothing to speak of."""
    for length_s in (5.0, 120.0):
        achieved_per_s = 1_000 * 0.995 * (length_s - 0.1) / length_s
        assert is_held(1_000, achieved_per_s, length_s)
    assert not is_held(1_000, 950, 5)
    assert not is_held(1_000, 970, 120)


def offered(rate_per_s: float, utilisation: float, number: int = 1) -> Utilisation:
    """Build a probe as MeasureUtilisation leaves it, all of it acknowledged."""
    rates = {"offered_per_s": rate_per_s, "achieved_per_s": rate_per_s}
    return Utilisation(phase=f"probe-{number}", probe=True, utilisation=utilisation, text="", **rates)


@pytest.mark.parametrize(("rate_per_s", "utilisation"), [(97.0, 0.95), (104.0, 0.95), (0.0, 0.95)])
def test_a_bound_counts_as_tried_whatever_the_arrivals_drew(rate_per_s: float, utilisation: float) -> None:
    """Poisson arrivals at 100/s, the lowest rate, are never 100/s."""
    assert "lowest rate, 100/s, is too much already" in decide_after(FIND, [offered(rate_per_s, utilisation)]).text


@pytest.mark.parametrize("rate_per_s", [197.0, 203.0])
def test_the_highest_rate_is_not_tried_twice(rate_per_s: float) -> None:
    """With fewer arrivals than expected it is not taken for less than the highest either."""
    find = FIND.model_copy(update={"high_per_s": 200.0})
    decision = decide_after(find, [offered(100, 0.2), offered(rate_per_s, 0.4, 2)])
    assert "highest rate, 200/s, makes it only 40 % busy" in decision.text


@pytest.mark.parametrize("rate_per_s", [97.0, 104.0])
def test_what_is_found_lies_within_the_plan_s_rates(rate_per_s: float) -> None:
    """The plan was checked at the lowest."""
    found_per_s = decide_after(FIND, [offered(rate_per_s, 0.8)]).found_per_s
    assert found_per_s == max(100, rate_per_s)


def test_a_store_that_is_bored_at_the_highest_rate_has_no_rate() -> None:
    """It is not offered more either."""
    decision, probes = search(FIND, saturating(100_000))
    assert decision.found_per_s is None
    assert probes[-1].offered_per_s == FIND.high_per_s
    assert "highest rate, 20,000/s, makes it only 20 % busy" in decision.text


def test_a_generator_that_cannot_do_more_is_told_from_a_busy_store() -> None:
    """The writers are at their end at 3,000/s, and the store is 30 % busy."""
    decision, _ = search(FIND, lambda rate: ProbeResult(rate, min(rate, 3_000), min(rate, 3_000) / 10_000))
    assert decision.found_per_s is None
    assert "something else than the store's utilisation is the limit" in decision.text


@pytest.mark.parametrize(
    ("probes", "found_per_s", "text"),
    [
        ([ProbeResult(100, 100, 0.95)], None, "lowest rate, 100/s, is too much already: 95 % busy"),
        ([ProbeResult(100, 100, None)] * 2, None, "no metric"),
        (
            [ProbeResult(1_000, 1_000, 0.5), ProbeResult(2_000, 2_000, 1.0)],
            1_600,
            "read off the line between 1,000/s (50 %) and 2,000/s (100 %)",
        ),
        (
            [ProbeResult(100, 100, 0.01), ProbeResult(400, 400, 0.04)],
            None,
            "2 probes were not enough, each that is known was too little: 4.0 % busy at 400/s",
        ),
    ],
    ids=["busy at the lowest rate", "no metric twice", "enclosed", "on one side"],
)
def test_a_search_that_ends_says_with_what(probes: list[ProbeResult], found_per_s: float | None, text: str) -> None:
    """A busy store is not offered less than the plan allows; what no probes enclose is no rate."""
    decision = decide(FIND.model_copy(update={"probes": 2}), probes)
    assert decision[:2] == (None, found_per_s)
    assert text in decision.text


@given(
    capacity_per_s=st.floats(300, 15_000),
    power=st.floats(0.6, 2.0),
    idle=st.floats(0.0, 0.2),
    wanted=st.floats(0.3, 0.9),
)
def test_a_steady_store_s_rate_is_found(capacity_per_s: float, power: float, idle: float, wanted: float) -> None:
    """Whatever the curve: what is found makes it as busy as wanted, within the tolerance."""
    find = FIND.model_copy(update={"utilisation": wanted, "low_per_s": 20.0, "probes": 16})
    store = saturating(capacity_per_s, power, idle)
    if (store(find.low_per_s).utilisation or 0) > wanted:
        return
    decision, _ = search(find, store)
    busy = present(store(present(decision.found_per_s)).utilisation)
    # Rates have three digits, so beside the tolerance there is half a per cent of the steepest curve.
    assert abs(busy - wanted) <= find.tolerance + 0.02


@given(capacity_per_s=st.floats(300, 15_000), seed=st.integers(0, 2**32), noise=st.floats(0.0, 0.15))
def test_a_noisy_store_s_search_ends_within_bounds(capacity_per_s: float, seed: int, noise: float) -> None:
    """What it finds, if anything, lies within the plan's rates and near what noise allows."""
    rng = np.random.default_rng(seed)
    exact = saturating(capacity_per_s)

    def store(rate_per_s: float) -> ProbeResult:
        probe = exact(rate_per_s)
        return probe._replace(utilisation=max(0.0, (probe.utilisation or 0) * (1 + rng.normal(0, noise))))

    decision, probes = search(FIND, store)
    assert len(probes) <= FIND.probes
    if decision.found_per_s is not None:
        assert FIND.low_per_s <= decision.found_per_s <= FIND.high_per_s
    assert decision.text


@given(
    probes=st.lists(
        st.builds(
            ProbeResult, st.floats(100, 20_000), st.floats(0, 20_000), st.none() | st.floats(0, 3, allow_nan=False)
        ),
        max_size=8,
    )
)
def test_any_history_leads_to_one_decision(probes: list[ProbeResult]) -> None:
    """A next rate, or a rate, or neither with a reason; never two, never a rate outside the plan's."""
    decision = decide(FIND, probes)
    assert decision.next_per_s is None or decision.found_per_s is None
    for rate_per_s in (decision.next_per_s, decision.found_per_s):
        assert rate_per_s is None or (math.isfinite(rate_per_s) and rate_per_s > 0)
    if decision.next_per_s is not None:
        assert FIND.low_per_s <= decision.next_per_s <= FIND.high_per_s
        assert len(probes) < FIND.probes


@pytest.mark.parametrize("rate_per_s", [1_234.5, 98.76])
def test_rates_have_three_digits(rate_per_s: float) -> None:
    """No utilisation is as exact as that."""
    decision = decide(FIND, [ProbeResult(rate_per_s, rate_per_s, 0.41)])
    assert decision.next_per_s is not None
    assert decision.next_per_s == float(f"{decision.next_per_s:.3g}")
