from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from stepbench.analysis.precision import GROWTH, PENDING_S, SETTLE_S, look, next_look_s, relative_width
from stepbench.contracts.measures import Estimate
from stepbench.contracts.phase_documents import PrecisionLook
from stepbench.contracts.plan import LoadStep, Phase, Until
from stepbench.records.joined import Joined
from stepbench.records.narrow import none_of
from stepbench.records.reader import read_records
from stepbench.records.sent import UNRECORDED
from stepbench.testing.finished_trials import FinishedTrial
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.trials import small_plan, stored_trial

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 10**9
PHASE = {
    "name": "steady",
    "load": [{"rate_per_s": 10, "duration_s": 20}],
    "until": {"metric": "p90", "relative_width": 0.1, "max_events": 2_000},
}
PLAN = small_plan(phases=[PHASE])


@pytest.fixture(scope="module")
def joined() -> Joined:
    """Ten events a second, all arrived that were due in the first 95 s."""
    memory = MemoryServices()
    ref = stored_trial(memory.services, PLAN)
    FinishedTrial(memory.services, ref, PLAN, START_NS).phase(0, to_s=95, last=False)
    return read_records(memory.services.trial(ref), memory.services.runs, memory.services.table).joined()


def without_rows(joined: Joined, from_s: int, to_s: int) -> Joined:
    """Events of a span whose rows are not there; their arrivals neither."""
    outcome, response_ns = joined.outcome.copy(), joined.came.response_ns.copy()
    outcome[from_s * 10 : to_s * 10] = UNRECORDED
    response_ns[from_s * 10 : to_s * 10] = none_of(response_ns)
    return replace(joined, outcome=outcome, came=joined.came._replace(response_ns=response_ns))


def looked(joined: Joined) -> PrecisionLook:
    """100 s after the phase's start."""
    return look(joined, PLAN, 0, START_NS, START_NS + 100 * SECOND_NS)


def test_what_was_due_some_seconds_before_is_looked_at(joined: Joined) -> None:
    """What is due later has no rows yet, or has not arrived: the slow ones would be missing."""
    found = looked(joined)
    assert (found.at_s, found.events) == (100 - SETTLE_S, 850)
    assert found.relative_width is not None


def test_a_recent_event_without_a_row_counts_as_missing(joined: Joined) -> None:
    """A stalled write has no row before it is answered. Two in ten: p90 is not to be known."""
    found = looked(without_rows(joined, 65, 85))
    assert (found.events, found.relative_width) == (650, None)


def test_an_old_event_without_a_row_is_left_out(joined: Joined) -> None:
    """Its writer died; the analysis will not know its latency either."""
    assert PENDING_S < 100 - 30
    found = looked(without_rows(joined, 10, 30))
    assert found.events == 650
    assert found.relative_width is not None


def test_a_plan_without_until_cannot_be_looked_at(joined: Joined) -> None:
    """There is no quantile to look at."""
    with pytest.raises(ValueError, match="has no until"):
        look(joined, small_plan(phases=[{**PHASE, "until": None}]), 0, START_NS, START_NS + 100 * SECOND_NS)


@pytest.mark.parametrize(
    ("estimate", "width"),
    [
        (Estimate(value=2.0, low=1.5, high=2.5), 0.5),
        (Estimate(value=-2.0, low=-2.5, high=-1.5), 0.5),
        (Estimate(value=2.0, low=1.5, high=None, reason="upper limit > drain limit"), None),
        (Estimate(value=None, reason="n=200 < 368"), None),
        (Estimate(value=0.0, low=0.0, high=1.0), None),
    ],
)
def test_width_is_the_whole_interval_over_the_quantile(estimate: Estimate, width: float | None) -> None:
    """Clocks that differ make latencies negative; no interval, no width."""
    assert relative_width(estimate) == width


def test_looks_are_few() -> None:
    """From 1 s to the 600 s that a phase may have: each after a quarter more events, or 5 s."""
    until = Until(relative_width=0.1, max_events=600_000)
    phase = Phase(name="long", load=(LoadStep(rate_per_s=1_000, duration_s=1),), until=until)
    cuts = [1.0]
    while cuts[-1] < 600:
        cuts.append(next_look_s(phase, cuts[-1]) - SETTLE_S)
    assert len(cuts) <= 25
    assert [later / earlier for earlier, later in pairwise(cuts[5:])] == pytest.approx([GROWTH] * (len(cuts) - 6))


def test_events_count_and_not_seconds() -> None:
    """After 100 s at 1/s and 10 s at 100/s, a quarter of 1,100 events is 2.75 s away, and the shortest pause is 5 s."""
    steps = (LoadStep(rate_per_s=1, duration_s=100), LoadStep(rate_per_s=100, duration_s=10))
    phase = Phase(name="steps", load=steps, until=Until(relative_width=0.1, max_events=20_000))
    assert next_look_s(phase, 110) == 110 + 5 + SETTLE_S
    assert next_look_s(phase, 210) == pytest.approx(210 + 0.25 * 11_100 / 100 + SETTLE_S)
