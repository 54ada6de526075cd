"""How well a quantile is known while the load goes on, and why phases ended."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.samples.estimates import numbers, present
from tests.samples.finished_trials import SECOND_NS, START_NS, AnalysedTrial, FinishedTrial
from tests.samples.services import MemoryServices, small_plan, stored_trial

from stepbench.analysis.impossible import SETTLE_S
from stepbench.analysis.precision import GROWTH, PENDING_S, next_look_s, relative_width, take_look
from stepbench.contracts.measures import Estimate
from stepbench.contracts.phase import LoadStep, Phase, PrecisionLook, PrecisionLooks, Until
from stepbench.contracts.result import TrialResult
from stepbench.records.join.joined import Joined
from stepbench.records.join.reader import read_records
from stepbench.records.join.sent import UNRECORDED, none_of
from stepbench.records.storage import layout

PHASE = {
    "name": "steady",
    "load": [{"rate_per_s": 10, "duration_s": 20}],
    "until": {"metric": "p90", "relative_width": 0.1, "max_events": 2_000},
}
PLAN = small_plan(phases=[PHASE])


@pytest.fixture(scope="module")
def joined() -> Joined:
    """Join ten events a second, of which all arrived that were due in the first 95 s."""
    memory = MemoryServices()
    ref = stored_trial(memory.services, PLAN)
    FinishedTrial(memory.services, ref, PLAN, START_NS).phase(0, to_s=95, last=False)
    return read_records(memory.services.trial(ref), memory.services.runs, memory.services.table).joined


def without_rows(joined: Joined, from_s: int, to_s: int) -> Joined:
    """Take the rows and the arrivals of a span's events away."""
    outcome, response_ns = joined.outcome.copy(), joined.first_arrivals.response_ns.copy()
    outcome[from_s * 10 : to_s * 10] = UNRECORDED
    response_ns[from_s * 10 : to_s * 10] = none_of(response_ns)
    return replace(joined, outcome=outcome, first_arrivals=joined.first_arrivals._replace(response_ns=response_ns))


def looked(joined: Joined) -> PrecisionLook:
    """Take a look 100 s after the phase's start."""
    return take_look(joined, PLAN, 0, START_NS, START_NS + 100 * SECOND_NS)


def test_what_was_due_some_seconds_before_is_looked_at(joined: Joined) -> None:
    """Later events have no rows yet, or have not arrived: the slow ones would be missing."""
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
        take_look(joined, small_plan(phases=[{**PHASE, "until": None}]), 0, START_NS, START_NS + 100 * SECOND_NS)


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
    """There are few in the 600 s that a phase may have: each comes after a quarter more events, or 5 s."""
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


PHASES: list[dict[str, Any]] = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]},
    {
        "name": "steady",
        "load": [{"rate_per_s": 20, "duration_s": 10}],
        "until": {"metric": "p50", "relative_width": 0.5, "max_events": 2_000},
    },
]
LOOK = PrecisionLook(at_s=10, events=200, relative_width=0.4)


def analysed(
    stop_s: float | None, looks: PrecisionLooks | None, *, to_s: float = 20, wanted: float = 0.5
) -> TrialResult:
    """Analyse a phase that was offered up to `to_s` and stopped at `stop_s`: 20 a second, of 100 s at most."""
    steady = {**PHASES[1], "until": {**PHASES[1]["until"], "relative_width": wanted}}
    trial = AnalysedTrial(phases=[PHASES[0], steady])
    runs, table = trial.memory.services.runs, trial.memory.services.table
    trial.records.phase(0)
    trial.records.phase(1, to_s=to_s)
    if stop_s is not None:
        table.set_stop(trial.ref.tag, 1, trial.records.start_of(1) + round(stop_s * SECOND_NS))
    if looks is not None:
        runs.put_model(layout.phase_key(trial.ref, 1, "until.json"), looks)
    trial.memory.services.clock.advance(200 * SECOND_NS)  # type: ignore[attr-defined]
    return trial.result()


def test_the_window_ends_where_the_phase_did() -> None:
    """Rates would be too low, and a block bootstrap would have empty blocks, over the schedule's 100 s."""
    result = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure"))
    (window,) = result.summary.windows
    assert (window.n, window.offered_per_s, window.achieved_per_s) == (400, 20, 20)
    found = present(result.summary.accounting)
    assert (found.offered, found.sent, found.unsent, found.unrecorded, found.lost) == (400, 400, 0, 0, 0)
    span = result.phases[1]
    assert (span.to_s - span.from_s, span.steps[-1].to_s, span.windows[0].to_s) == (20, 20, 20)
    assert max(point.second for point in result.series) < span.to_s


def test_the_result_says_why_it_ended() -> None:
    """The last look's width, and that of the window, stand beside the number that it was sure of."""
    (stopped,) = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary.stopped
    assert (stopped.phase, stopped.metric, stopped.reason) == ("steady", "p50", "sure")
    assert (stopped.reached, stopped.events, stopped.looks, stopped.stopped_at_s) == (0.4, 200, 1, 20)
    assert stopped.final is not None
    assert stopped.text.startswith("Phase steady was sure: after 20 s and 1 look, the interval of p50 was 40 % wide")


def test_the_last_width_is_that_of_the_window_shown() -> None:
    """A reader can work it out from the interval."""
    summary = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary
    low, value, high = numbers(summary.windows[0].latency_ms.p50)
    assert summary.stopped[0].final == pytest.approx((high - low) / value)


@pytest.mark.parametrize(("wanted", "has_caveat"), [(0.001, True), (1.5, False)])
def test_a_phase_that_never_was_sure_has_a_caveat_unless_it_is_in_the_end(wanted: float, *, has_caveat: bool) -> None:
    """The window has more events than the last look had."""
    looks = PrecisionLooks(looks=(LOOK,), reason="max_events")
    summary = analysed(None, looks, to_s=100, wanted=wanted).summary
    assert (summary.stopped[0].reason, summary.stopped[0].stopped_at_s) == ("max_events", 100)
    assert ("not_sure" in {caveat.kind for caveat in summary.caveats}) is has_caveat


def test_a_phase_that_nobody_looked_at_to_the_end_says_so() -> None:
    """CheckPrecision failed: the load went on to its longest."""
    (stopped,) = analysed(None, None, to_s=100, wanted=0.001).summary.stopped
    assert (stopped.reason, stopped.reached, stopped.looks) == ("unchecked", None, 0)
    assert "CheckPrecision" in stopped.text


def test_events_sent_after_the_end_are_in_the_books_and_not_in_the_window() -> None:
    """The writer saw the stop a second late: 20 events."""
    result = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure"), to_s=21)
    assert result.summary.windows[0].n == 400
    assert present(result.summary.accounting).offered == 420


def test_what_was_not_offered_is_not_paid_for() -> None:
    """100 s were estimated, 20 were offered."""
    longest = analysed(None, PrecisionLooks(reason="max_events"), to_s=100).summary.cost_usd
    stopped = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary.cost_usd
    assert present(stopped.actual) < present(longest.actual)


def test_trials_without_until_have_nothing_to_say() -> None:
    """The list is empty, as in results of before."""
    assert AnalysedTrial().finish().result().summary.stopped == ()
