from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS, START_NS
from tests.samples.finished_trials import AnalysedTrial as Trial
from tests.samples.records import t4_item

from stepbench.analysis.caveats.windows import find_short_windows
from stepbench.analysis.findings import Findings
from stepbench.contracts.findings import Clock
from stepbench.contracts.measures import Estimate
from stepbench.errors import AccountingError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.formats.t4 import Entry, encode_fallback
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence

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


@pytest.mark.parametrize(("ahead_ms", "is_said"), [(4_000, True), (-11, True), (9, False)])
def test_clocks_that_were_set_to_different_times_are_a_caveat(ahead_ms: int, *, is_said: bool) -> None:
    """A writer's was 4 s ahead from the start, so that every latency was below zero, and nothing said why."""
    trial = Trial()
    trial.records.phase(1, clocks=False)
    for role, offset_ns in (("writer", ahead_ms * MS), ("receiver", 0)):
        sample = ClockSample(role, f"{role}-1", START_NS, offset_ns, 500)
        trial.memory.services.table.add_clock(trial.ref.tag, sample)
    said = [caveat.text for caveat in trial.caveats("clock_drift")]
    text = f"Latencies that end at t4 are off by {-ahead_ms:+.3f} ms ± 0.001 ms: so far are receivers' clocks from "
    assert said == ([f"{text}writers'."] if is_said else [])


def test_unsent_events_are_a_caveat_and_not_among_those_that_were_sent() -> None:
    """The load was not what was planned, and some writes are in no latency."""
    trial = Trial()
    trial.measured_rows(0, MS, [Outcome.OK] * 150 + [Outcome.UNKNOWN] * 30 + [UNSENT] * 20)
    assert "unknown_outcomes" in trial.kinds()
    (caveat,) = trial.caveats("unsent")
    assert caveat.text == "20 of 200 scheduled events of measured phases were not sent: the load was less than planned."
    assert trial.result().summary.windows[0].sent == 180


def test_a_store_that_lets_no_writers_in_is_why_events_were_not_sent() -> None:
    """It stood still between two phases; "raise writers" would be no help."""
    trial = Trial()
    trial.measured_rows(0, MS, [UNSENT] * 36 + [Outcome.OK] * 164, connecting_ns=4_960 * MS)
    (caveat,) = trial.caveats("unsent")
    assert caveat.text.endswith("Writers were still connecting up to 5.0 s after load was due.")
    assert caveat.remedy == "Look at the store's log of that time, and at how busy the writers' machine was."


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


def test_memory_and_snap_start_have_no_effect_on_an_emulator() -> None:
    """A matrix over them would compare this machine with itself."""
    function = {"name": "orders", "memory_mib": 512, "snap_start": True}
    trial = Trial(store="dynamodb", target={"function": function}).finish()
    assert "setting_without_effect" not in trial.kinds()
    noted = {"provider": "MiniStack 1.5.33", "emulated": True}
    trial.memory.services.runs.put_json(layout.trial_key(trial.ref, "provider.json"), noted)
    found = {each.setting for each in trial.result().summary.caveats if each.kind == "setting_without_effect"}
    assert found == {"target.function.memory_mib", "target.function.snap_start"}


def test_damaged_records_are_unrecorded_and_named() -> None:
    """One bad object; the trial's other records stand."""
    trial = Trial().finish()
    key = layout.column_file_key(trial.ref, layout.attempt_id(1, 0, 0, 0), 1)
    trial.memory.services.runs.put_bytes(key, b"junk")
    (text,) = (caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "unrecorded")
    assert "000001.sbc" in text


@pytest.mark.parametrize(
    ("reason", "kind", "text", "remedy"),
    [
        ("n=200 < 368", "short_sample", "Window steady is too short for an interval: p99 needs", "Offer more"),
        (
            "32 of 155807 independent < 368", "dependent_sample",
            "Window steady has no interval for p99: its 155,807 events resemble",
            "A longer load hardly helps, nor do such repeats.",
        ),
        ("100 of 155807 independent < 368", "dependent_sample", "Window steady has no", "Offer load for about 4 ×"),  # noqa: RUF001 -- times
        ("fell behind: kept up with 96 of 200/s", "", "", ""),
    ],
)  # fmt: skip
def test_events_that_are_alike_are_no_short_sample(reason: str, kind: str, text: str, remedy: str) -> None:
    """155,807 operations were called too few, and a run 990 times as long was asked for."""
    whole = Trial().finish().result().summary.windows[0]
    times = {name: Estimate(value=1, low=1, high=1) for name in ("p50", "p90", "p95")}
    latency = whole.latency_ms.model_copy(update={**times, "p99": Estimate(value=9, reason=reason)})
    findings = Findings(None, None, (whole.model_copy(update={"latency_ms": latency}),), Clock(offset_ms=0, bound_ms=0))
    found = list(find_short_windows(cast("Evidence", None), findings))
    assert [each.kind for each in found] == [kind] * bool(kind)
    assert all(each.text.startswith(text) and each.remedy.startswith(remedy) for each in found)
