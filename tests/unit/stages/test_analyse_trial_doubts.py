from __future__ import annotations

import numpy as np
import pytest

from stepbench.drivers.protocol import Outcome
from stepbench.errors import AccountingError
from stepbench.load.arrivals import phase_offsets_ns
from stepbench.records import layout
from stepbench.records.clock_sample import ClockSample
from stepbench.records.columns import UNSENT, Rows, encode
from stepbench.records.t4 import Entry, encode_fallback
from stepbench.testing.analysed_trials import SECOND_NS, START_NS
from stepbench.testing.analysed_trials import AnalysedTrial as Trial
from stepbench.testing.records import column_header, t4_item

MS = 10**6


def test_unread_clocks_are_said_to_be_unmeasured() -> None:
    """Not zero."""
    trial = Trial()
    trial.records.phase(1, clocks=False)
    clock = trial.result().summary.clock
    assert (clock.offset_ms, clock.bound_ms) == (None, None)
    assert "writers and receivers" in clock.text
    assert "clock_unmeasured" in trial.kinds()


def test_a_clock_that_moved_is_a_caveat() -> None:
    """By 1 ms, with bounds of 0.5 µs."""
    trial = Trial().finish()
    trial.memory.services.table.add_clock(trial.ref.tag, ClockSample("writer", "writer-1", START_NS + 1, MS, 500))
    assert "clock_drift" in trial.kinds()


def rows_of(trial: Trial, lateness_ns: int, service_ns: int, outcome: list[int] | None = None) -> None:
    """The measured phase's rows, all sent so late and answered so slowly; no arrivals."""
    trial.records.plan_phase(1)
    t0_ns = phase_offsets_ns(trial.plan, 1, 0) + trial.records.start_of(1)
    ends = np.array(outcome or [Outcome.OK] * t0_ns.size, dtype=np.uint8)
    t1_ns = np.where(ends == UNSENT, 0, t0_ns + lateness_ns)
    t2_ns = np.where(ends == UNSENT, 0, t1_ns + service_ns)
    rows = Rows(np.arange(t0_ns.size), t0_ns, t1_ns, t2_ns, ends, np.zeros(t0_ns.size, dtype=np.uint16))
    key = layout.column_file_key(trial.ref, layout.attempt_id(1, 0, 0, 0), 0)
    header = column_header(trial.ref, phase=1, last=True, drift_ns=0)
    trial.memory.services.runs.put_bytes(key, encode(header, rows))


def test_a_generator_that_was_late_is_said_to_be_the_bottleneck() -> None:
    """3 ms late where a write takes 2 ms."""
    trial = Trial()
    rows_of(trial, lateness_ns=3 * MS, service_ns=2 * MS)
    texts = [caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "saturated_generator"]
    assert len(texts) == 1
    assert "3.00 ms late, against a median write of 5.00 ms" in texts[0]


def test_events_that_queued_at_the_cap_are_counted() -> None:
    """Every 50 ms an event that takes 150 ms: with two places in flight, the third has to wait."""
    trial = Trial(max_in_flight=2)
    rows_of(trial, lateness_ns=2 * MS, service_ns=150 * MS)
    texts = [caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "saturated_generator"]
    assert len(texts) == 1
    assert "199 of 200 measured events waited for one of 2 places" in texts[0]


def test_one_place_in_flight_that_is_always_free_is_no_saturation() -> None:
    """The paper's unloaded run: concurrency 1."""
    assert "saturated_generator" not in Trial(max_in_flight=1).finish().kinds()


def test_unknown_and_unsent_events_are_caveats() -> None:
    """The load was not what was planned, and some writes are in no latency."""
    trial = Trial()
    rows_of(trial, 0, MS, [Outcome.OK] * 150 + [Outcome.UNKNOWN] * 30 + [UNSENT] * 20)
    assert {"unknown_outcomes", "unsent"} <= trial.kinds()


def test_contradicting_records_stop_the_analysis() -> None:
    """An event arrived that its writer says it did not send."""
    trial = Trial()
    rows_of(trial, 0, MS, [Outcome.OK] * 199 + [UNSENT])
    trial.records.deliver(1, 199, START_NS + 20 * SECOND_NS)
    with pytest.raises(AccountingError):
        trial.result()


def test_odd_deliveries_are_caveats() -> None:
    """A repeat, a malformed record, an item in the bucket, a cold start in the measured phase."""
    trial = Trial().finish(lost=(3,))
    services, start_ns = trial.memory.services, trial.records.start_of(1)
    trial.records.deliver(1, 5, start_ns + SECOND_NS * 9)
    services.table.put_malformed("s3", start_ns, "r", 0, "junk")
    body = encode_fallback(layout.t4_sk("r", 1), t4_item([Entry(1, 0, 0, 0, 0, 3, start_ns + SECOND_NS)]))
    services.runs.put_bytes(layout.t4_fallback_key(trial.ref.tag, "r", 1), body)
    assert {"duplicates", "malformed_events", "t4_in_fallback", "cold_starts"} <= trial.kinds()
    books = trial.result().summary.accounting
    assert books is not None
    assert (books.duplicates, books.retried, books.malformed, books.lost) == (1, 1, 1, 0)


def test_an_emulated_store_is_labelled_and_its_quirks_named() -> None:
    """Nobody should take these latencies for AWS's."""
    target = {"filter": {"eventName": ["INSERT"]}, "batching_window_s": 5}
    trial = Trial(store="dynamodb", target=target).finish()
    noted = {"provider": "MiniStack 1.5.33", "emulated": True}
    trial.memory.services.runs.put_json(layout.trial_key(trial.ref, "provider.json"), noted)
    assert {"emulated", "filtered", "batching_window_ignored"} <= trial.kinds()
    assert trial.result().summary.provider == "MiniStack 1.5.33"


def test_damaged_records_are_unrecorded_and_named() -> None:
    """One bad object; the trial's other records stand."""
    trial = Trial().finish()
    key = layout.column_file_key(trial.ref, layout.attempt_id(1, 0, 0, 0), 1)
    trial.memory.services.runs.put_bytes(key, b"junk")
    texts = [caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "unrecorded"]
    assert len(texts) == 1
    assert "000001.sbc" in texts[0]
