from __future__ import annotations

import numpy as np
import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.contracts.measures import MOST_GENERATOR_CPU
from stepbench.model.request import Outcome

MS = 10**6
EVENTS, EACH_NS = 200, 50 * MS
DUE_NS = np.arange(EVENTS) * EACH_NS
STOP_NS, GOES_ON_NS = 3 * SECOND_NS, 6 * SECOND_NS
STOPPED = (DUE_NS >= STOP_NS) & (DUE_NS < GOES_ON_NS)
"""60 events, of which an unbounded writer sends all on time."""


def stopped(places: int) -> Trial:
    """Leave rows of a store that answers nothing from 3 s to 6 s; beyond the places in flight, events queue."""
    lateness_ns = np.where(STOPPED & (np.cumsum(STOPPED) > places), GOES_ON_NS - DUE_NS, 0)
    service_ns = np.where(STOPPED & (lateness_ns == 0), GOES_ON_NS - DUE_NS, 2 * MS)
    return Trial(max_in_flight=places).measured_rows(lateness_ns, service_ns, cpu_share=0.03)


def test_a_generator_that_was_late_and_had_no_cpu_to_spare_is_the_bottleneck() -> None:
    """Writes are 3 ms late and take 2 ms."""
    trial = Trial().measured_rows(3 * MS, 2 * MS, cpu_share=MOST_GENERATOR_CPU)
    (caveat,) = trial.caveats("saturated_generator")
    assert "3.00 ms late, which makes p50 of response times 5.00 ms instead of 2.00 ms" in caveat.text
    assert "more writers" in caveat.remedy
    assert "host_jitter" not in trial.kinds()


def test_a_late_writer_with_cpu_to_spare_suffers_from_its_host() -> None:
    """At 20 events a second on an idle CPU, more writers would be late as often."""
    trial = Trial().measured_rows(3 * MS, 2 * MS, cpu_share=0.03)
    (caveat,) = trial.caveats("host_jitter")
    assert "used 3 % of the CPU" in caveat.text
    assert "more writers do not help" in caveat.remedy
    assert "saturated_generator" not in trial.kinds()


def test_lateness_that_changes_no_response_time_is_not_worth_a_caveat() -> None:
    """16 of 200 are sent 2 ms late: their writes take 1 ms, and every fifth of the others 30 ms."""
    lateness_ns = np.where(np.arange(EVENTS) % 25 < 2, 2 * MS, 0)
    trial = Trial().measured_rows(lateness_ns, np.where(np.arange(EVENTS) % 5 == 2, 30 * MS, MS), cpu_share=0.03)
    assert not {"saturated_generator", "host_jitter"} & trial.kinds()
    assert {"host_jitter"} <= Trial().measured_rows(lateness_ns, MS, cpu_share=0.03).kinds()


def test_a_few_late_sends_are_no_quantile() -> None:
    """5 of 200 are sent 9 ms late: above p95, and for p99 there are too few."""
    trial = Trial().measured_rows(np.where(np.arange(EVENTS) % 40 == 0, 9 * MS, 0), MS, cpu_share=0.03)
    assert not {"saturated_generator", "host_jitter"} & trial.kinds()


@pytest.mark.parametrize("stop_ns", [0, STOP_NS])
def test_a_writer_that_stood_still_is_not_saturated_by_what_had_become_due(stop_ns: int) -> None:
    """It stops for 3 s, or from the beginning; then 60 events wait for two places, for 2 ms each."""
    since_ns = DUE_NS - stop_ns
    due = (since_ns >= 0) & (since_ns < 3 * SECOND_NS)
    lateness_ns = np.where(due, 3 * SECOND_NS - since_ns + (np.cumsum(due) - 1) // 2 * 2 * MS, 0)
    trial = Trial(max_in_flight=2).measured_rows(lateness_ns, 2 * MS, cpu_share=0.03)
    (caveat,) = trial.caveats("host_jitter")
    assert "s of the trial a writer stood still, with events due." in caveat.text
    assert not {"saturated_generator", "store_stalled"} & trial.kinds()


def test_a_writer_whose_cpu_nobody_knows_is_said_to_be_the_bottleneck() -> None:
    """It did not end in order; that the host was late is not shown."""
    assert {"saturated_generator", "host_jitter"} & Trial().measured_rows(3 * MS, 2 * MS).kinds() == {
        "saturated_generator"
    }


def test_cpu_counts_where_the_load_was() -> None:
    """A tenth of the CPU over a phase of 10 s and 100 s is all of it in the 10 s with six times the mean rate."""
    load = [{"rate_per_s": 100, "count": 1_000}, {"rate_per_s": 1, "count": 100}]
    phases = [{"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]}]
    phases += [{"name": "steps", "load": load, "windows": [{"name": "busy", "from_s": 0, "to_s": 10}]}]
    trial = Trial(phases=phases).measured_rows(3 * MS, 2 * MS, cpu_share=0.1)
    assert {"saturated_generator", "host_jitter"} & trial.kinds() == {"saturated_generator"}


def test_events_that_queued_at_the_cap_are_counted() -> None:
    """Every 50 ms an event that takes 150 ms: with two places in flight, the third has to wait; no host makes it."""
    trial = Trial(max_in_flight=2).measured_rows(100 * MS, 150 * MS, cpu_share=0.03)
    late, queued = trial.caveats("saturated_generator")
    assert "100.00 ms late" in late.text
    assert "198 of 200 measured events waited for one of 2 places" in queued.text
    assert "host_jitter" not in trial.kinds()


def test_one_place_in_flight_that_is_always_free_is_no_saturation() -> None:
    """The paper's unloaded run has a concurrency of 1."""
    assert "saturated_generator" not in Trial(max_in_flight=1).finish().kinds()


def test_a_queue_behind_a_stalled_store_is_not_the_generator_s() -> None:
    """50 of 60 events waited for a place, up to 2.5 s, because the store answered nothing."""
    trial = stopped(places=10)
    assert {"store_stalled", "saturated_generator", "host_jitter"} & trial.kinds() == {"store_stalled"}
    assert present(trial.result().summary.windows[0].lateness_ms.max) == 2_500


def test_a_late_generator_is_named_beside_a_stall() -> None:
    """What is late before the stall and after it has nothing to do with it."""
    lateness_ns = np.where(STOPPED, 0, 3 * MS)
    service_ns = np.where(STOPPED, GOES_ON_NS - DUE_NS, 2 * MS)
    trial = Trial().measured_rows(lateness_ns, service_ns, cpu_share=0.9)
    assert {"store_stalled", "saturated_generator"} <= trial.kinds()


def test_a_generator_that_never_catches_up_is_late_for_another_reason() -> None:
    """After a stall of 1 s it is late for 6 s: what a stall explains ends as long after it as it took."""
    late = DUE_NS >= STOP_NS
    lateness_ns = np.where(DUE_NS >= STOP_NS + SECOND_NS, 20 * MS, 0)
    service_ns = np.where(late & (DUE_NS < STOP_NS + SECOND_NS), STOP_NS + SECOND_NS - DUE_NS, 2 * MS)
    trial = Trial().measured_rows(lateness_ns, service_ns, cpu_share=0.9)
    assert {"store_stalled", "saturated_generator"} <= trial.kinds()


@pytest.mark.parametrize(("places", "service_ms"), [(1, 2), (2, 60)])
def test_a_late_send_with_a_place_to_spare_did_not_wait_for_one(places: int, service_ms: int) -> None:
    """Taking the last free place is no queue: one had been free when it was due."""
    trial = Trial(max_in_flight=places).measured_rows(20 * MS, service_ms * MS, cpu_share=0.03)
    assert {"saturated_generator", "host_jitter"} & trial.kinds() == {"host_jitter"}


def test_requests_without_an_answer_do_not_hide_what_lateness_does_to_the_others() -> None:
    """6 % get no answer for 3 s, and hold p95 and p99 of all; of those that were answered, 4 % were sent 50 ms late."""
    numbers = np.arange(2_000)
    unknown = numbers % 50 < 3
    phases = [{"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]}]
    phases += [{"name": "steady", "load": [{"rate_per_s": 20, "count": 2_000}]}]
    trial = Trial(phases=phases).measured_rows(
        np.where((numbers % 25 == 10) & ~unknown, 50 * MS, 0),
        np.where(unknown, 3_000 * MS, 2 * MS),
        np.where(unknown, Outcome.UNKNOWN, Outcome.OK).tolist(),
        cpu_share=0.03,
    )
    (caveat,) = trial.caveats("host_jitter")
    assert "52.0 ms instead of 2.00 ms" in caveat.text


def test_a_short_standstill_in_a_long_window_is_named_though_no_quantile_shows_it() -> None:
    """One second of 500 s: below 1 %, but the mean and the largest are its doing."""
    phases = [{"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]}]
    phases += [{"name": "steady", "load": [{"rate_per_s": 20, "count": 10_000}]}]
    due_ns = np.arange(10_000) * EACH_NS
    lateness_ns = np.where((due_ns >= STOP_NS) & (due_ns < STOP_NS + SECOND_NS), STOP_NS + SECOND_NS - due_ns, 0)
    (caveat,) = Trial(phases=phases).measured_rows(lateness_ns, 2 * MS, cpu_share=0.03).caveats("host_jitter")
    assert "a writer stood still, with events due" in caveat.text


def test_a_load_host_s_writers_get_no_advice_about_functions() -> None:
    """Their CPU is the host's, and no function's memory changes it."""
    for place, remedy in (("lambda", "more memory (CPU) per writer"), ("host", "a load host with more cores")):
        (caveat,) = Trial(load_from=place).measured_rows(3 * MS, 2 * MS).caveats("saturated_generator")
        assert f"Use more writers, {remedy}, or a lower rate" in caveat.remedy
