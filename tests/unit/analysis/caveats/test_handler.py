"""Doubts about a measured function, of the planted trial."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import PHASES, AnalysedTrial
from tests.samples.measured_functions import BATCH, FUNCTION, RETRY_S, MeasuredTrial

from stepbench.analysis.thresholds import judge
from stepbench.contracts.identity import EventId
from stepbench.contracts.invocations import FunctionMetrics
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.records.formats.function_lines import Begin, End, Invocation
from stepbench.records.formats.platform_lines import platform_item
from stepbench.records.formats.second_sources import LogCollection, RefusedDeliveries, RefusedDelivery
from stepbench.records.storage import layout
from stepbench.workload.arrivals import phase_offsets_ns

WINDOWS = [{"name": name, "from_s": 0, "to_s": 10} for name in ("one", "two")]
_ERRORS = (
    "2 invocations of the measured function failed (KeyError 1, never ended 1); 1 invocation named records of the "
    "batch as failed; 24 events failed at least once."
)


class SilentTrial(MeasuredTrial):
    """Its function does all that it is handed, but one batch, which it never ends."""

    def _invoke_measured(self, number: int) -> None:
        took: dict[str, Any] = {"took_ns": 0} if number == 4 else {}
        self._invoke(1, number, **took)


class RetryingTrial(MeasuredTrial):
    """One batch fails, and is done at the second try."""

    def _invoke_measured(self, number: int) -> None:
        if number == 4:
            self._invoke(1, number, error="KeyError")
        self._invoke(1, number, after_s=RETRY_S if number == 4 else 0)


class ManyErrorsTrial(MeasuredTrial):
    """Each batch fails, by five types of errors."""

    def _invoke_measured(self, number: int) -> None:
        self._invoke(1, number, error="AAABBCCDE"[number % 9])


PLATFORM = {"name": "orders", "times": "platform", "attempts": 1}
OVERLAPPING = 7
"""Of the measured events; its invocation begins after the next event was sent."""


class PlatformTrial(AnalysedTrial):
    """Its invocations name no event; each begins 20 ms after an event was due, 30 before the next, but for one."""

    def __init__(self) -> None:
        super().__init__(store="s3", target={"function": PLATFORM}, drain_limit_s=60)
        for phase in (0, 1):
            self.records.plan_phase(phase)
            due_ns = phase_offsets_ns(self.plan, phase, 0) + self.records.start_of(phase)
            self.records.rows(phase, due_ns)
            for number, at_ns in enumerate(due_ns.tolist()):
                late_ms = 60 if (phase, number) == (1, OVERLAPPING) else 20
                self._invoke(f"r-{phase}-{number}", at_ns + late_ms * 10**6)

    def _invoke(self, request: str, t4_ns: int) -> None:
        begin = Begin(trial=self.records.ref.tag, request=request, t4=t4_ns, sandbox="s", batch=0)
        end = End(trial=begin.trial, request=request, t4=t4_ns, t5=t4_ns + 4 * 10**6)
        item = present(platform_item(Invocation(begin=begin, end=end)))
        self.records.services.table.put_t4(begin.trial, request, t4_ns, item)


def test_events_without_a_latency_of_their_own_are_counted_and_said() -> None:
    """Two could be each other's: they are in no quantile of the trigger, and in those of the handler."""
    summary = PlatformTrial().result().summary
    (window,), accounting = summary.windows, present(summary.accounting)
    caveats = {caveat.kind: caveat for caveat in summary.caveats}
    assert (accounting.received, accounting.lost, accounting.unpaired, accounting.processed) == (200, 0, 2, 200)
    assert (window.n, window.latency_ms.max, window.lost) == (198, 19.98, 0)
    handler = present(window.handler)
    assert (handler.handler_ms.n, handler.handler_ms.p50.value, handler.invocations) == (200, 4, 200)
    assert caveats["unpaired_events"].text.startswith("2 of 240 events that arrived have no latency of their own")
    assert caveats["unpaired_events"].windows == (0,)
    assert "whole milliseconds" in caveats["platform_times"].text


@pytest.mark.parametrize(("resolution_ns", "said"), [(1_000_000, "1.00 ms"), (1_000, "")])
def test_a_coarse_clock_of_the_function_is_a_caveat(resolution_ns: int, said: str) -> None:
    """Node.js without its own WASI has whole milliseconds; with it, microseconds."""
    trial = RetryingTrial()
    at_ns = trial.records.start_of(1) + 90 * 10**9
    trial.records.invoke(1, range(1), at_ns, batch=1, t4_resolution_ns=resolution_ns)
    caveats = {caveat.kind: caveat.text for caveat in trial.result().summary.caveats}
    assert (f" as coarse as {said}: " in caveats.get("coarse_times", "")) == bool(said)
    assert ("coarse_times" in caveats) == bool(said)


def test_no_clock_reference_helps_a_measured_function() -> None:
    """Its layer reads no other clock, whatever the stack's parameter says."""
    (remedy,) = (each.remedy for each in MeasuredTrial().result().summary.caveats if each.kind == "clock_unmeasured")
    assert remedy.startswith("Nothing measures a function's own clock: ")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the trial's caveats by kind."""
    return {caveat.kind: caveat.text for caveat in MeasuredTrial().result().summary.caveats}


def test_errors_are_counted_by_type_in_invocations(texts: dict[str, str]) -> None:
    """A partial failure is none, though four of its events are among those that failed; what never ended is one."""
    assert texts["handler_errors"] == _ERRORS


def test_of_many_types_of_errors_the_most_frequent_are_named_and_the_others_counted() -> None:
    """An ellipsis hides whether it stands for one or for a thousand."""
    (text,) = (each.text for each in ManyErrorsTrial().result().summary.caveats if each.kind == "handler_errors")
    assert "(A 8, C 4, B 4, and 4 of 2 other types)" in text


def test_windows_that_overlap_count_each_invocation_and_event_once() -> None:
    """Two windows of the whole phase: the same as one."""
    phases = [PHASES[0], {**PHASES[1], "windows": WINDOWS}]
    found = {caveat.kind: caveat for caveat in MeasuredTrial(phases=phases).result().summary.caveats}
    assert found["handler_errors"].text == _ERRORS
    assert found["handler_errors"].windows == (0, 1)


def test_a_healthy_retry_is_no_duplicate() -> None:
    """What failed came again, and was done once: neither a caveat nor a missed threshold says otherwise."""
    result = RetryingTrial().result()
    (window,) = result.summary.windows
    assert (present(window.handler).failed_once, window.duplicates) == (10, 0)
    assert present(result.summary.accounting).duplicates == 0
    kinds = {caveat.kind for caveat in result.summary.caveats}
    assert "handler_errors" in kinds
    assert not kinds & {"duplicates", "processed_twice"}
    (found,) = judge([parse_threshold("duplicates == 0")], [result.summary])
    assert found.state == "passed"


def test_what_is_processed_twice_is_a_duplicate_with_one_caveat(texts: dict[str, str]) -> None:
    """The other would call all that was tried again duplicates."""
    assert "duplicates" not in texts
    (window,) = MeasuredTrial().result().summary.windows
    assert window.duplicates == 10


def test_an_invocation_that_never_ended_is_an_error_by_itself() -> None:
    """Nothing else went wrong, and no line says why it did not end."""
    found = {caveat.kind: caveat.text for caveat in SilentTrial().result().summary.caveats}
    assert found["handler_errors"] == (
        "1 invocation of the measured function failed (never ended 1); 10 events failed at least once."
    )


def test_what_was_never_processed_is_grave(texts: dict[str, str]) -> None:
    """The invocation that never ended had ten."""
    assert texts["never_processed"] == (
        "10 events arrived, and 120 s after the last acknowledgement no invocation had processed them."
    )
    assert list(texts)[:2] == ["never_processed", "handler_errors"]


def test_what_lambda_gave_up_is_counted_once_among_what_was_never_processed() -> None:
    """Both windows have the ten of the invocation that never ended, and two that came in the end are none of them."""
    trial = MeasuredTrial(phases=[PHASES[0], {**PHASES[1], "windows": WINDOWS}])
    event = EventId(tag=trial.ref.tag, phase=1, writer=0, slice=0, attempt=0, sequence=0)
    events = tuple(event._replace(sequence=number).text() for number in range(88, 100))
    gone = RefusedDelivery(message_id="one", condition="RetryAttemptsExhausted", records=12, events=events)
    trial.memory.services.runs.put_model(
        layout.trial_key(trial.ref, "refused.json"), RefusedDeliveries(deliveries=(gone,))
    )
    (text,) = (caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "never_processed")
    assert text.startswith("10 events arrived")
    assert text.endswith("; Lambda gave up 10.")


def test_what_was_processed_twice_calls_for_an_idempotent_function(texts: dict[str, str]) -> None:
    """One batch of ten was delivered again though it had been processed."""
    assert texts["processed_twice"].startswith("Processed again, after the first time: 10 events")


@pytest.mark.parametrize(
    ("function", "remedy"),
    [({}, "Raise the account's concurrency"), ({"reserved_concurrency": 5}, "Raise target.function.reserved_con")],
)
def test_throttles_are_a_doubt_with_what_limits_the_function(function: dict[str, int], remedy: str) -> None:
    """Latency is the wait for concurrency then, and neither the trigger's nor the function's."""
    trial = MeasuredTrial(target={"function": {**FUNCTION, **function}, "batch_size": BATCH})
    for throttles in (0, 3):
        metrics = FunctionMetrics(until="2023-11-14T22:16:00+00:00", throttles=throttles)
        collection = LogCollection(every=1, expected=1, seen=1, metrics=metrics)
        trial.memory.services.runs.put_model(layout.trial_key(trial.ref, "logs/collection.json"), collection)
        summary = trial.result().summary
        assert summary.function_metrics == metrics
        found = [caveat for caveat in summary.caveats if caveat.kind == "throttled"]
        assert len(found) == bool(throttles)
    assert found[0].text.startswith("Lambda throttled the measured function 3 times up to 2023-11-14 22:16:00 UTC")
    assert found[0].remedy.startswith(remedy)
