from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.phase_documents import PrecisionLook, PrecisionLooks
from stepbench.contracts.result import TrialResult
from stepbench.records import layout
from stepbench.testing.analysed_trials import AnalysedTrial

SECOND_NS = 10**9
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
    """A phase that was offered up to `to_s` and stopped at `stop_s`: 20 a second, of 100 s at most."""
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
    (books,) = [result.summary.accounting]
    assert books is not None
    assert (books.offered, books.sent, books.unsent, books.unrecorded, books.lost) == (400, 400, 0, 0, 0)
    span = result.phases[1]
    assert (span.to_s - span.from_s, span.steps[-1].to_s, span.windows[0].to_s) == (20, 20, 20)
    assert max(point.second for point in result.series) < span.to_s


def test_the_result_says_why_it_ended() -> None:
    """Beside the number that it was sure of: the last look's width, and that of the window."""
    (stopped,) = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary.stopped
    assert (stopped.phase, stopped.metric, stopped.reason) == ("steady", "p50", "sure")
    assert (stopped.reached, stopped.events, stopped.looks, stopped.stopped_at_s) == (0.4, 200, 1, 20)
    assert stopped.final is not None
    assert stopped.text.startswith("Phase steady was sure: after 20 s and 1 look, the interval of p50 was 40 % wide")


def test_the_last_width_is_that_of_the_window_shown() -> None:
    """A reader can work it out from the interval."""
    summary = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary
    p50 = summary.windows[0].latency_ms.p50
    assert p50.value is not None
    assert p50.low is not None
    assert p50.high is not None
    assert summary.stopped[0].final == pytest.approx((p50.high - p50.low) / p50.value)


@pytest.mark.parametrize(("wanted", "doubted"), [(0.001, True), (1.5, False)])
def test_a_phase_that_never_was_sure_is_doubted_unless_it_is_in_the_end(wanted: float, *, doubted: bool) -> None:
    """The window has more events than the last look had."""
    looks = PrecisionLooks(looks=(LOOK,), reason="max_events")
    summary = analysed(None, looks, to_s=100, wanted=wanted).summary
    assert (summary.stopped[0].reason, summary.stopped[0].stopped_at_s) == ("max_events", 100)
    assert ("not_sure" in {caveat.kind for caveat in summary.caveats}) is doubted


def test_a_phase_that_nobody_looked_at_to_the_end_says_so() -> None:
    """CheckPrecision failed: the load went on to its longest."""
    (stopped,) = analysed(None, None, to_s=100, wanted=0.001).summary.stopped
    assert (stopped.reason, stopped.reached, stopped.looks) == ("unchecked", None, 0)
    assert "CheckPrecision" in stopped.text


def test_events_sent_after_the_end_are_in_the_books_and_not_in_the_window() -> None:
    """The writer saw the stop a second late: 20 events."""
    result = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure"), to_s=21)
    assert result.summary.windows[0].n == 400
    assert result.summary.accounting is not None
    assert result.summary.accounting.offered == 420


def test_what_was_not_offered_is_not_paid_for() -> None:
    """100 s were estimated, 20 were offered."""
    longest = analysed(None, PrecisionLooks(reason="max_events"), to_s=100).summary.cost_usd
    stopped = analysed(20, PrecisionLooks(looks=(LOOK,), reason="sure")).summary.cost_usd
    assert stopped.actual is not None
    assert longest.actual is not None
    assert stopped.actual < longest.actual


def test_trials_without_until_have_nothing_to_say() -> None:
    """The list is empty, as in results of before."""
    assert AnalysedTrial().finish().result().summary.stopped == ()
