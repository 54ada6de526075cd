from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.finished_trials import PHASES, SECOND_NS
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.analysis.stalls import TICK_NS, Requests, end_unanswered, stalls_among
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.float64]

MS = 10**6
PLACES = 100
STOP_S, GOES_ON_S = 12.0, 17.0


def found(due_s: Times, sent_s: Times, ended_s: Times, places: int = PLACES) -> list[tuple[Any, ...]]:
    """Return begin and end in seconds, requests in flight and events, of each stall."""
    due, sent, ended = (np.sort(np.rint(each * 1e9 / TICK_NS)).astype(np.uint32) for each in (due_s, sent_s, ended_s))
    none = np.empty(0, np.uint32)
    requests, tick_s = Requests(due, sent, ended, none, none), TICK_NS / 1e9
    return [
        (begin * tick_s, end * tick_s, in_flight, events)
        for begin, end, in_flight, events in stalls_among(requests, places)
    ]


def closed_loop(
    clients: int, stalled_s: tuple[float, float], *, limit_s: float, reconnecting_s: float = 0.0
) -> tuple[Times, Times, NDArray[np.bool_]]:
    """Return when requests of clients in a loop of 10 ms are sent and end, and which are given up, for 40 s."""
    begin_s, end_s = stalled_s
    rows: list[tuple[float, float, bool]] = []
    for client in range(clients):
        sent_s = client / clients / 100
        while sent_s < 40:
            answered_s = sent_s + 0.01
            if begin_s <= answered_s < end_s:
                answered_s = end_s + client / clients / 100
            gives_up = answered_s > sent_s + limit_s
            ended_s = sent_s + limit_s if gives_up else answered_s
            rows.append((sent_s, ended_s, gives_up))
            sent_s = ended_s + (reconnecting_s if gives_up else 0)
    sent, ended, given_up = zip(*rows, strict=True)
    return np.array(sent), np.array(ended), np.array(given_up)


def unanswered(sent_s: Times, ended_s: Times, given_up: NDArray[np.bool_], places: int) -> list[tuple[Any, ...]]:
    """Return the stalls as `found` does, of requests of which some were given up before the next answer."""
    sent, ended = (np.rint(each * 1e9 / TICK_NS).astype(np.uint32) for each in (sent_s, ended_s))
    gone = end_unanswered(sent, ended, ~given_up)
    columns = [np.sort(each) for each in (sent, sent, ended, np.empty(0, np.uint32), gone)]
    tick_s = TICK_NS / 1e9
    return [(begin * tick_s, end * tick_s, *rest) for begin, end, *rest in stalls_among(Requests(*columns), places)]


def evenly(per_s: float, length_s: float = 30.0) -> Times:
    """Return due times at an even pace."""
    return np.arange(round(per_s * length_s)) / per_s


def stop(sent_s: Times, service_s: float = 0.002) -> Times:
    """Return when requests end at a store that is stopped from 12 s to 17 s."""
    ended_s = sent_s + service_s
    return np.where((ended_s >= STOP_S) & (ended_s < GOES_ON_S), GOES_ON_S + (ended_s - STOP_S) / 1e4, ended_s)


@pytest.mark.parametrize("per_s", [2, 20, 2_000])
def test_a_store_that_is_stopped_stalls_from_the_first_that_waits_to_the_first_that_is_answered(per_s: float) -> None:
    """It is named with its time and with all that waited, whatever the rate."""
    due_s = evenly(per_s)
    ((begin_s, end_s, in_flight, events),) = found(due_s, due_s, stop(due_s), places=100_000)
    assert (begin_s, end_s) == (pytest.approx(STOP_S, abs=0.005), pytest.approx(GOES_ON_S, abs=0.01))
    assert in_flight == events == pytest.approx(5 * per_s, abs=5)


@pytest.mark.parametrize("places", [1, 10])
def test_a_store_that_fills_all_places_stalls_though_nothing_more_is_sent(places: int) -> None:
    """At 200/s one is full at once and ten within 50 ms; the others of 1,000 events wait for one."""
    due_s = evenly(200)
    waits = (due_s >= STOP_S + places / 200) & (due_s < GOES_ON_S)
    sent_s = np.where(waits, GOES_ON_S + 1e-3, due_s)
    ((begin_s, end_s, in_flight, events),) = found(due_s, sent_s, stop(sent_s), places)
    assert (begin_s, end_s) == (pytest.approx(STOP_S), pytest.approx(GOES_ON_S))
    assert (in_flight, events) == (places, 1_000)


def test_a_generator_that_stands_still_is_no_stall_of_the_store() -> None:
    """Four requests were in flight when it was stopped, and 996 that were due meanwhile are sent when it goes on."""
    due_s = evenly(200)
    frozen = (due_s >= STOP_S) & (due_s < GOES_ON_S)
    sent_s = np.where(frozen, GOES_ON_S + (due_s - STOP_S) / 1e3, due_s)
    assert found(due_s, sent_s, stop(sent_s, service_s=0.02)) == []


def test_one_writer_of_two_that_gets_no_answer_is_no_stall_of_the_store() -> None:
    """The other one's requests were answered all the time: its own connection, or its host, stood still."""
    first_s, second_s = evenly(20), evenly(20) + 0.025
    due_s = np.concatenate([first_s, second_s])
    assert found(due_s, due_s, np.concatenate([stop(first_s), second_s + 0.002])) == []
    assert len(found(due_s, due_s, stop(due_s))) == 1


@pytest.mark.parametrize("per_s", [0.5, 2, 20, 200])
def test_gaps_between_arrivals_are_no_stalls(per_s: float) -> None:
    """Poisson arrivals leave seconds in which nothing was in flight."""
    rng = np.random.default_rng(5)
    due_s = np.cumsum(rng.exponential(1 / per_s, 2_000))
    assert found(due_s, due_s, due_s + 0.002) == []


@pytest.mark.parametrize("places", [1, 20])
def test_a_store_that_is_slow_all_the_time_does_not_stall(places: int) -> None:
    """Every answer takes a second or so: closed loop of one client and of twenty in step, without pauses."""
    service_s = np.random.default_rng(6).lognormal(0, 0.3, 200)
    ended_s = np.repeat(np.cumsum(service_s), places)
    sent_s = np.repeat(np.cumsum(service_s) - service_s, places)
    assert found(sent_s, sent_s, ended_s, places) == []


@pytest.mark.parametrize("service_s", [0.3, 2.0])
def test_the_time_to_the_first_answer_of_a_slow_store_is_no_stall(service_s: float) -> None:
    """At 200/s dozens wait for it, and from then on answers are 5 ms apart; a stall of the same store is one."""
    due_s = evenly(200)
    assert found(due_s, due_s, due_s + service_s, places=1_000) == []
    ((begin_s, end_s, *_),) = found(due_s, due_s, stop(due_s, service_s), places=10_000)
    assert (begin_s, end_s) == (pytest.approx(STOP_S, abs=0.01), pytest.approx(GOES_ON_S, abs=0.01))


@pytest.mark.parametrize("per_s", [1, 5, 20, 200])
def test_a_long_tail_is_no_stall(per_s: float) -> None:
    """One request in a hundred takes more than 0.3 s, and others are answered meanwhile."""
    rng = np.random.default_rng(7)
    due_s = np.cumsum(rng.exponential(1 / per_s, 5_000))
    assert found(due_s, due_s, due_s + 0.030 * rng.lognormal(0, 1.05, due_s.size)) == []


def test_one_slow_request_is_no_stall() -> None:
    """Once in five minutes one takes 1.9 s; the other that is sent meanwhile is answered as fast as ever."""
    due_s = evenly(1, 1_800)
    assert found(due_s, due_s, due_s + np.where(np.arange(due_s.size) % 300 == 150, 1.9, 0.002)) == []


@pytest.mark.parametrize("clients", [1, 10])
def test_a_closed_loop_waits_through_a_stall(clients: int) -> None:
    """All that may be in flight is: one request is enough where there is but one client."""
    sent_s, ended_s = [np.arange(0, STOP_S, 0.01)] * clients, [np.arange(0.01, STOP_S, 0.01)] * clients
    later_s = np.arange(GOES_ON_S, 30, 0.01)
    sent = np.concatenate([*sent_s, *[later_s] * clients])
    ended = np.concatenate([*ended_s, np.full(clients, GOES_ON_S), *[later_s + 0.01] * clients])
    assert found(sent, sent, ended, clients) == [(pytest.approx(11.99), GOES_ON_S, clients, clients)]


def test_a_stall_in_a_short_phase_is_not_usual() -> None:
    """Of 60 events, 1 % is none: the one long silence must not be what silences are held against."""
    due_s = evenly(20, 3.0)
    ended_s = np.where((due_s >= 1) & (due_s < 2), 2.0, due_s + 0.002)
    assert found(due_s, due_s, ended_s) == [(pytest.approx(1.0), pytest.approx(2.0), 20, 20)]


EVENTS, EACH_NS = 200, 50 * MS
DUE_NS = np.arange(EVENTS) * EACH_NS


def stopped_at(*spans_s: tuple[float, float]) -> NDArray[np.int64]:
    """Return service times at a store that answers nothing in these spans of the measured phase."""
    service_ns = np.full(EVENTS, 2 * MS)
    for from_s, to_s in spans_s:
        waits = (from_s * SECOND_NS <= DUE_NS) & (to_s * SECOND_NS > DUE_NS)
        service_ns[waits] = round(to_s * SECOND_NS) - DUE_NS[waits]
    return service_ns


def test_stalls_are_named_and_drawn_with_their_times() -> None:
    """The trial's axis begins with its first phase; 7 s later the measured one did."""
    trial = Trial()
    trial.records.phase(0)
    trial.measured_rows(0, stopped_at((3, 6), (8, 8.5)))
    (caveat,) = trial.caveats("store_stalled")
    assert caveat.text.startswith(
        "Phase steady: the store answered nothing between 10.0 s and 13.0 s of the trial (22:13:30 UTC), "
        "with 60 requests in flight at its end; 60 events waited."
    )
    assert "the longest of 2 stalls; the others: between 15.0 s and 15.5 s. In all 70 events waited." in caveat.text
    spans_s = [(each.from_s, each.to_s) for each in trial.result().stalls]
    assert np.array(spans_s) == pytest.approx(np.array([(10, 13), (15, 15.5)]), abs=1e-3)
    assert [(each.phase, each.in_flight) for each in trial.result().stalls] == [("steady", 60), ("steady", 10)]


def test_a_request_without_an_answer_makes_no_silence() -> None:
    """Two wait 8 s for nothing; the others, half a second apart, are answered after 2 ms."""
    phases = [{"name": "warm-up", "load": [{"rate_per_s": 1, "count": 1}]}]
    phases += [{"name": "steady", "load": [{"rate_per_s": 2, "count": 60}]}]
    service_ns, outcome = np.full(60, 2 * MS), np.zeros(60, np.uint8)
    service_ns[[20, 22]], outcome[[20, 22]] = 8 * SECOND_NS, Outcome.UNKNOWN
    trial = Trial(phases=phases).measured_rows(0, service_ns, outcome.tolist())
    assert trial.result().stalls == ()
    assert "unknown_outcomes" in trial.kinds()


def test_a_store_that_never_answers_again_stalls_until_the_last_is_given_up() -> None:
    """From 6 s on nothing is answered; 80 events are given up together, at 12 s."""
    late = DUE_NS >= 6 * SECOND_NS
    outcome = np.where(late, int(Outcome.UNKNOWN), int(Outcome.OK))
    trial = Trial().measured_rows(0, np.where(late, 12 * SECOND_NS - DUE_NS, 2 * MS), outcome.tolist())
    ((span),) = trial.result().stalls
    assert span.to_s - span.from_s == pytest.approx(6, abs=1e-3)
    assert span.in_flight == 80


@pytest.mark.parametrize("limit_s", [2.0, 0.2])
def test_requests_that_are_given_up_do_not_end_a_stall(limit_s: float) -> None:
    """From 3 s to 6 s nothing is answered; whoever waits longer than the limit gives up, and others still wait."""
    service_ns, limit_ns = stopped_at((3, 6)), round(limit_s * SECOND_NS)
    outcome = np.where(service_ns > limit_ns, int(Outcome.UNKNOWN), int(Outcome.OK))
    trial = Trial().measured_rows(0, np.minimum(service_ns, limit_ns), outcome.tolist())
    ((span),) = trial.result().stalls
    assert span.to_s - span.from_s == pytest.approx(3, abs=1e-3)
    assert span.events == 60
    assert span.in_flight == pytest.approx(20 * limit_s, abs=1)


@pytest.mark.parametrize("clients", [1, 4, 32])
@pytest.mark.parametrize("reconnecting_s", [0.0, 0.02])
def test_a_stall_that_is_longer_than_the_time_out_is_told_whole(clients: int, reconnecting_s: float) -> None:
    """From 12 s to 32 s nothing is answered, and clients give up after 10 s: once it was said to take half as long."""
    sent_s, ended_s, given_up = closed_loop(clients, (12.0, 32.0), limit_s=10.0, reconnecting_s=reconnecting_s)
    ((begin_s, end_s, in_flight, _),) = unanswered(sent_s, ended_s, given_up, clients)
    assert (begin_s, end_s) == (pytest.approx(12, abs=0.02), pytest.approx(32, abs=0.02))
    assert in_flight == clients


@pytest.mark.parametrize(("limit_s", "length_s"), [(2.0, 7.0), (5.0, 5.5), (1.0, 20.0), (10.0, 9.0)])
def test_the_length_of_a_stall_does_not_depend_on_the_time_out(limit_s: float, length_s: float) -> None:
    """However many time-outs fit into it."""
    sent_s, ended_s, given_up = closed_loop(8, (12.0, 12.0 + length_s), limit_s=limit_s)
    ((begin_s, end_s, *_),) = unanswered(sent_s, ended_s, given_up, 8)
    assert end_s - begin_s == pytest.approx(length_s, abs=0.02)


def test_two_stalls_with_answers_between_them_stay_two() -> None:
    """What is joined is what no answer has parted."""
    sent_s, ended_s, given_up = closed_loop(4, (12.0, 15.0), limit_s=2.0)
    later_s, later_ended_s, later_given_up = closed_loop(4, (12.0, 17.0), limit_s=2.0)
    both = [np.concatenate(pair) for pair in ((sent_s, later_s + 40), (ended_s, later_ended_s + 40))]
    found = unanswered(both[0], both[1], np.concatenate([given_up, later_given_up]), 4)
    assert [end - begin for begin, end, *_ in found] == [pytest.approx(3, abs=0.02), pytest.approx(5, abs=0.02)]


@pytest.mark.parametrize("error", ["timeout", "withdrawn", "connect: timeout"])
def test_a_time_out_before_anything_was_sent_is_no_answer(error: str) -> None:
    """It counts as failed, since nothing can have happened; the store has said nothing all the same."""
    service_ns = stopped_at((3, 6))
    outcome = np.where(service_ns > SECOND_NS, int(Outcome.FAILED), int(Outcome.OK))
    trial = Trial().measured_rows(0, np.minimum(service_ns, SECOND_NS), outcome.tolist(), error=error)
    ((span),) = trial.result().stalls
    assert span.to_s - span.from_s == pytest.approx(3, abs=1e-3)
    refused = Trial().measured_rows(0, np.minimum(service_ns, SECOND_NS), outcome.tolist(), error="throttled")
    assert [span.to_s - span.from_s for span in refused.result().stalls] == [pytest.approx(1, abs=0.1)]


def test_a_stall_ends_where_all_that_waited_are_given_up() -> None:
    """Ten wait from 3 s on and are given up at 4 s; the next is sent at 6 s, and nobody waited in between."""
    service_ns, outcome = np.full(EVENTS, 2 * MS), np.zeros(EVENTS, np.uint8)
    service_ns[60:70], outcome[60:70], outcome[70:120] = 4 * SECOND_NS - DUE_NS[60:70], Outcome.UNKNOWN, UNSENT
    ((span),) = Trial().measured_rows(0, service_ns, outcome.tolist()).result().stalls
    assert span.to_s - span.from_s == pytest.approx(1, abs=1e-3)
    assert span.in_flight == 10


def test_a_generator_that_stands_still_to_its_end_is_no_stall_of_the_store() -> None:
    """Two were in flight when it was stopped, 4 s before the end of the phase: the 78 that were due are never sent."""
    service_ns, outcome = np.full(EVENTS, 60 * MS), np.zeros(EVENTS, np.uint8)
    service_ns[[120, 121]], outcome[122:] = [6_000 * MS, 5_950 * MS], UNSENT
    trial = Trial().measured_rows(0, service_ns, outcome.tolist())
    assert trial.result().stalls == ()


def test_a_stall_of_a_phase_that_is_not_measured_is_only_drawn() -> None:
    """What is cold stands still in the warm-up, which is there for that; it is in no number."""
    trial = Trial(phases=[PHASES[0], {**PHASES[1], "measured": False}, {**PHASES[1], "name": "later"}])
    trial.measured_rows(0, stopped_at((3, 6)))
    assert len(trial.result().stalls) == 1
    assert trial.caveats("store_stalled") == []


def test_a_trial_without_stalls_has_none() -> None:
    """Latencies of some milliseconds, at an even pace."""
    trial = Trial().finish()
    assert trial.result().stalls == ()
    assert "store_stalled" not in trial.kinds()
