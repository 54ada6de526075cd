from __future__ import annotations

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS, START_NS
from tests.samples.finished_trials import AnalysedTrial as Trial
from tests.samples.records import t4_item

from stepbench.errors import AccountingError
from stepbench.model.result import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.formats.t4 import Entry, encode_fallback
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample

MS = 10**6


def test_unread_clocks_are_said_to_be_unmeasured() -> None:
    """An unmeasured offset is not zero."""
    trial = Trial()
    trial.records.phase(1, clocks=False)
    clock = trial.result().summary.clock
    assert (clock.offset_ms, clock.bound_ms) == (None, None)
    assert "writers and receivers" in clock.text
    assert "clock_unmeasured" in trial.kinds()


def test_a_clock_that_moved_is_a_caveat() -> None:
    """It moved by 1 ms, with bounds of 0.5 µs."""
    trial = Trial().finish()
    trial.memory.services.table.add_clock(trial.ref.tag, ClockSample("writer", "writer-1", START_NS + 1, MS, 500))
    assert "clock_drift" in trial.kinds()


def test_unsent_events_are_a_caveat_and_not_among_those_that_were_sent() -> None:
    """The load was not what was planned, and some writes are in no latency."""
    trial = Trial()
    trial.measured_rows(0, MS, [Outcome.OK] * 150 + [Outcome.UNKNOWN] * 30 + [UNSENT] * 20)
    assert "unknown_outcomes" in trial.kinds()
    (caveat,) = trial.caveats("unsent")
    assert caveat.text == "20 of 200 scheduled events of measured phases were not sent: the load was less than planned."
    assert trial.result().summary.windows[0].sent == 180


def test_contradicting_records_stop_the_analysis() -> None:
    """An event arrived that its writer says it did not send."""
    trial = Trial()
    trial.measured_rows(0, MS, [Outcome.OK] * 199 + [UNSENT])
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
    accounting = present(trial.result().summary.accounting)
    assert (accounting.duplicates, accounting.retried, accounting.malformed, accounting.lost) == (1, 1, 1, 0)


def test_an_emulated_store_is_labelled_and_its_quirks_named() -> None:
    """Nobody should take these latencies for AWS's."""
    target = {"filter": {"eventName": ["INSERT"]}, "batching_window_s": 5}
    trial = Trial(store="dynamodb", target=target).finish(lost=(3,))
    noted = {"provider": "MiniStack 1.5.33", "emulated": True}
    trial.memory.services.runs.put_json(layout.trial_key(trial.ref, "provider.json"), noted)
    assert {"emulated", "filtered", "batching_window_ignored"} <= trial.kinds()
    assert trial.result().summary.provider == "MiniStack 1.5.33"


def test_damaged_records_are_unrecorded_and_named() -> None:
    """One bad object; the trial's other records stand."""
    trial = Trial().finish()
    key = layout.column_file_key(trial.ref, layout.attempt_id(1, 0, 0, 0), 1)
    trial.memory.services.runs.put_bytes(key, b"junk")
    (text,) = (caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "unrecorded")
    assert "000001.sbc" in text
