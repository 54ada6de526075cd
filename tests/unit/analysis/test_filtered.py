"""A trial half of whose events the trigger's filter is to hold back: the even ones."""

from __future__ import annotations

import numpy as np
import pytest

from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.testing.analysed_trials import SECOND_NS, START_NS
from stepbench.testing.analysed_trials import AnalysedTrial as Trial

EVEN = tuple(range(0, 200, 2))


def filtered(not_delivered: tuple[int, ...] = EVEN) -> Trial:
    """A warm-up whose filter held back what it should, and a measured phase that did not deliver these."""
    trial = Trial(record={"matching_share": 0.5})
    trial.records.phase(0, lost=EVEN[:20])
    trial.records.phase(1, lost=not_delivered)
    return trial


def test_what_the_filter_holds_back_is_not_lost() -> None:
    """Nor missing from any quantile; the rates are those of the whole load."""
    trial = filtered()
    result = trial.result()
    books, (window,), (curve,) = result.summary.accounting, result.summary.windows, result.ecdf
    assert books is not None
    assert (books.offered, books.ok, books.received, books.ok_arrived) == (200, 200, 100, 100)
    assert (books.held_back, books.leaked, books.lost) == (100, 0, 0)
    assert result.summary.warm_up is not None
    assert result.summary.warm_up.held_back == 20
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
    assert {(point.offered, point.acknowledged, point.not_matching, point.arrived) for point in points} == {
        (20, 20, 10, 10)
    }
    assert all(point.max_ms is not None for point in points)


def test_arrivals_are_awaited_of_the_matching_only() -> None:
    """Else every trial with a filter would last until its drain limit."""
    trial = filtered()
    found = await_arrivals(AwaitArrivalsInput(ref=trial.ref), trial.memory.services)
    assert (found.done, found.expected, found.arrived) == (True, 120, 120)


def test_a_leaked_event_does_not_pass_for_a_lost_one() -> None:
    """By the counters, 120 of 120 are there."""
    trial = Trial(record={"matching_share": 0.5})
    trial.records.phase(0, lost=EVEN[:20])
    trial.records.phase(1, lost=(*EVEN[1:], 7))
    trial.memory.services.clock.sleep((START_NS - trial.memory.services.clock.now_ns()) / SECOND_NS + 60)
    found = await_arrivals(AwaitArrivalsInput(ref=trial.ref), trial.memory.services)
    assert (found.done, found.expected, found.arrived) == (False, 120, 119)
