"""The caveats are all that should make a reader doubt a number, each with its remedy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.clocks import drift_ns, find_same_sandbox
from stepbench.analysis.found_rate import find_rate_caveats
from stepbench.analysis.omission import find_hidden_stalls
from stepbench.analysis.outcomes import find_outcome_caveats
from stepbench.analysis.reconciliation import find_log_disagreements
from stepbench.analysis.saturation import find_saturation_caveats
from stepbench.analysis.stall_report import find_stall_caveats
from stepbench.analysis.watch_gaps import find_watch_gap_caveats
from stepbench.analysis.windows import windows_with
from stepbench.contracts.measure import measure_of
from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget
from stepbench.digits import brief, count, counted
from stepbench.errors import TrialCancelledError
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.stalls import Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.result import Accounting, Clock, Failure, StoppedPhase

DRIFT_NS = 100_000
"""A clock that moved by more than this beside its bound is worth a word: a tenth of the fastest store's median."""
_SHOWN = 3
_CAUSE_CHARS = 120
_STOPPED_REMEDY = "The run was stopped: run it again, to its end."


@dataclass(frozen=True)
class Findings:
    """The findings are what was computed before the caveats."""

    accounting: Accounting | None
    """It is of the measured phases."""
    warm_up: Accounting | None
    """It is of the others."""
    windows: tuple[WindowResult, ...]
    clock: Clock
    failure: Failure | None = None
    stopped: tuple[StoppedPhase, ...] = ()
    measured_windows: tuple[MeasuredWindow, ...] = ()
    """The windows that `windows` has the results of."""
    stalls: tuple[Stall, ...] = ()

    @property
    def cancelled(self) -> bool:
        """Tell whether somebody stopped the run: nothing has to be mended."""
        return self.failure is not None and self.failure.error == TrialCancelledError.__name__

    def total(self, name: str) -> int:
        """Sum a count of the accounting over all phases."""
        return sum(getattr(each, name) for each in (self.accounting, self.warm_up) if each)


def find_caveats(evidence: Evidence, findings: Findings) -> tuple[Caveat, ...]:
    """Return all caveats, the graver first."""
    return (
        *_check_end(evidence, findings),
        *_check_losses(evidence, findings),
        *find_outcome_caveats(evidence, findings.measured_windows),
        *find_watch_gap_caveats(evidence, findings.total("watch_gap"), findings.measured_windows),
        *_check_load(evidence, findings),
        *find_stall_caveats(evidence, findings.stalls, findings.measured_windows),
        *find_saturation_caveats(evidence, findings.windows, findings.stalls),
        *find_hidden_stalls(evidence, findings.windows),
        *find_rate_caveats(evidence),
        *_check_samples(findings),
        *_check_precision(findings),
        *_check_clock(evidence, findings),
        *_check_sandboxes(evidence),
        *_check_deliveries(evidence, findings),
        *_check_target(evidence),
        *_check_logs(evidence),
        *find_log_disagreements(evidence),
    )


def _check_end(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    failure = findings.failure
    if failure is not None:
        text = f"The trial failed ({failure.error}: {failure.cause[:200]}); what had been recorded until then is shown."
        remedy = "Remove the cause, and run the trial again."
        if findings.cancelled:
            text = f"The run was stopped ({failure.cause[:200]}); what had been recorded until then is shown."
            if cut_off := findings.total("cut_off"):
                text += f" {counted(cut_off, 'acknowledged event')} had not arrived by then: cut off, not lost."
            remedy = _STOPPED_REMEDY
        yield Caveat(kind="incomplete", text=text, remedy=remedy)
    if evidence.records.damaged:
        text = f"Record files that do not decode: {len(evidence.records.damaged)}. {evidence.records.damaged[0]}"
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the bucket's object; run the trial again.")
    missing = _missing_writers(evidence)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        text = f"{counted(len(missing), 'writer')} did not run, or did not end in order: {shown}"
        remedy = "See the failed children of OfferLoad's map run, and the log of RunWriter."
        remedy = _STOPPED_REMEDY if findings.cancelled else remedy
        yield Caveat(kind="missing_writer", text=text, remedy=remedy)


def _check_losses(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    limit = f"{evidence.spec.plan.drain_limit_s:g} s"
    arrives = measure_of(evidence.spec.plan.experiment).arrives
    lost, late = findings.total("lost"), findings.total("late")
    if lost and arrives:
        events = counted(lost, "acknowledged event")
        text = f"{events} had not arrived {limit} after the last acknowledgement ({late} came later)."
        remedy = "Look at the on-failure queues; raise drain_limit_s."
        if findings.cancelled:
            text = f"{events} had not arrived after {limit}, when the run was stopped."
            remedy = _STOPPED_REMEDY
        elif findings.failure is not None:
            text = f"{events} had not arrived; the trial failed, and may not have waited {limit}."
            remedy = "Run the trial again: what is lost shows in one that goes to its end."
        text += _describe_failed_invocations(evidence, evidence.spec.plan.target.receiver)
        joined = evidence.joined
        about = windows_with(findings.measured_windows, joined.acknowledged & ~joined.arrived)
        yield Caveat(kind="lost_events", text=text, remedy=remedy, windows=about)
    if leaked := findings.total("leaked"):
        text = f"{counted(leaked, 'event')} arrived that the trigger's filter was to hold back; no latency has them."
        yield Caveat(kind="filter_leaked", text=text, remedy="Look at the filter as the store has it.")
    if unrecorded := findings.total("unrecorded"):
        text = f"{counted(unrecorded, 'event')} may have been sent without a record of it; no latency has them."
        text += _describe_failed_invocations(evidence, "RunWriter")
        about = windows_with(findings.measured_windows, evidence.joined.outcome == UNRECORDED)
        remedy = "Find out from its log why a writer ended early."
        yield Caveat(kind="unrecorded", text=text, remedy=remedy, windows=about)


def _describe_failed_invocations(evidence: Evidence, function: str) -> str:
    """Describe how Lambda ended invocations of a function, which took along what they held."""
    lines = (line for page in evidence.pages if page.function == function for line in page.lines)
    failures = Counter({line.request_id: line.failure for line in lines if line.failure}.values())
    counts = ", ".join(f"{count} by {failure}" for failure, count in failures.most_common())
    return f" Invocations of {function} that Lambda ended: {counts}." if counts else ""


def _check_load(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    for number, phase in enumerate(evidence.spec.plan.phases):
        if evidence.records.at_most_rows(number):
            text = f"A writer in phase {phase.name} stopped early: it had offered all operations that a trial may keep."
            text += " What came after that is of fewer clients."
            text += _describe_cut_windows(phase, evidence.records.offered_s(number))
            yield Caveat(kind="unsent", text=text, remedy="Shorten the phase, or split the trial.")
    parts = [
        f"{count(each.unsent)} of {counted(each.offered, 'scheduled event')} of {which}"
        for each, which in ((findings.accounting, "measured phases"), (findings.warm_up, "the warm-up"))
        if each and each.unsent
    ]
    if parts:
        text = f"{' and '.join(parts)} were not sent: the load was less than planned."
        remedy = "Writers began too late, or had no place in flight: raise max_in_flight or writers, or lower the rate."
        if findings.failure is not None and not findings.cancelled:
            text, remedy = f"{text.partition(':')[0]}: the trial had failed before.", "Mend that, and run it again."
        if findings.cancelled:
            text, remedy = f"{text.partition(':')[0]}: the run was stopped before.", _STOPPED_REMEDY
        about = windows_with(findings.measured_windows, evidence.joined.outcome == UNSENT)
        yield Caveat(kind="unsent", text=text, remedy=remedy, windows=about)


def _describe_cut_windows(phase: Phase, offered_s: float) -> str:
    """Describe what became of the plan's own windows in a phase that ended before them."""
    held = {window.name: window.to_s for window in phase.all_windows(offered_s)}
    cut = [window.name for window in phase.windows if held.get(window.name, window.to_s) < window.to_s]
    missed = [window.name for window in phase.windows if phase.measured and window.name not in held]
    text = f" Cut where its load ended, after {offered_s:.1f} s: window {', '.join(cut)}." if cut else ""
    return text + (f" Not reached: window {', '.join(missed)}." if missed else "")


def _check_samples(findings: Findings) -> Iterator[Caveat]:
    for place, window in enumerate(findings.windows):
        measure = window.latency_ms
        named = {"p50": measure.p50, "p90": measure.p90, "p95": measure.p95, "p99": measure.p99}
        short = [
            f"{name} {brief(each.reason)}"
            for name, each in named.items()
            if each.value is not None and each.low is None and each.reason
        ]
        if short:
            text = f"Window {window.name} is too short for an interval: {', '.join(short)}."
            remedy = "Offer more events, over a longer time: p99 needs 368 independent ones, p99.9 3,688."
            remedy = _STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="short_sample", text=text, remedy=remedy, windows=(place,))


def _check_precision(findings: Findings) -> Iterator[Caveat]:
    for phase in findings.stopped:
        if phase.reason != "sure" and (phase.final is None or phase.final > phase.wanted):
            remedy = "Raise until.max_events, ask for a wider interval, or for a quantile that is easier to know."
            yield Caveat(kind="not_sure", text=phase.text, remedy=remedy)


def _check_clock(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    if findings.clock.offset_ms is None and measure_of(evidence.spec.plan.experiment).arrives:
        one_clock = find_same_sandbox(evidence) is not None
        what = "Response times and lateness" if one_clock else "Latencies that end at t4"
        text = f"{what} compare two clocks, {findings.clock.text}."
        remedy = "Set the stack's clock reference (an SNTP server that functions can reach)."
        yield Caveat(kind="clock_unmeasured", text=text, remedy=remedy)
    moved_ns = drift_ns(evidence)
    if moved_ns > DRIFT_NS:
        text = f"A clock moved by {moved_ns / 1e6:.3f} ms against its reference or its anchor during the trial."
        yield Caveat(kind="clock_drift", text=text, remedy="Shorten the phases, or subtract the offset by hand.")


def _check_deliveries(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    duplicates, twice = findings.total("duplicates"), evidence.joined.sent_twice
    if not measure_of(evidence.spec.plan.experiment).arrives:
        if twice:
            text = f"{twice} operations were sent by two attempts of a writer."
            yield Caveat(kind="duplicates", text=text, remedy="The earlier attempt's count; look why it was repeated.")
        return
    if duplicates or twice:
        text = f"{duplicates} deliveries were repeats ({findings.total('retried')} of them Lambda's own retries)"
        text += f"; {twice} events were sent by two attempts of a writer." if twice else "."
        remedy = "The earliest arrival counts; make receivers of your own idempotent."
        yield Caveat(kind="duplicates", text=text, remedy=remedy)
    if evidence.malformed:
        text = f"{evidence.malformed} delivered records named no event."
        yield Caveat(kind="malformed_events", text=text, remedy="Keep other writers away from the target.")
    if evidence.records.in_fallback:
        text = f"{evidence.records.in_fallback} arrival records went to the bucket, since the results table was down."
        yield Caveat(kind="t4_in_fallback", text=text, remedy="Raise the results table's throughput.")
    cold = sum(
        int(np.count_nonzero(events.cold & events.arrived))
        for number, phase in enumerate(evidence.spec.plan.phases)
        if phase.measured
        for events in (evidence.joined.of_phase(number),)
    )
    if cold:
        events = "1 measured event was" if cold == 1 else f"{cold} measured events were"
        text = f"{events} received by a function's cold start."
        about = windows_with(findings.measured_windows, evidence.joined.cold)
        remedy = "Lengthen the warm-up, or use provisioned concurrency."
        yield Caveat(kind="cold_starts", text=text, remedy=remedy, windows=about)


def _check_target(evidence: Evidence) -> Iterator[Caveat]:
    target = evidence.spec.plan.target
    if evidence.emulated:
        text = f"{target.store} is played by {evidence.provider}: its latencies say nothing about AWS."
        yield Caveat(kind="emulated", text=text, remedy="Run the plan on AWS (sam deploy).")
    if isinstance(target, DynamoDbTarget):
        if target.filter is not None:
            text = "A filter holds events back, which count as not arrived."
            yield Caveat(kind="filtered", text=text, remedy="Compare `lost` with what the filter should hold back.")
        if target.batching_window_s and evidence.emulated:
            text = f"{evidence.provider} ignores the batching window of {target.batching_window_s} s."
            yield Caveat(kind="batching_window_ignored", text=text, remedy="Measure batching windows on AWS.")


def _check_sandboxes(evidence: Evidence) -> Iterator[Caveat]:
    same = find_same_sandbox(evidence)
    if same is None:
        return
    measured = np.array([phase.measured for phase in evidence.spec.plan.phases], dtype=np.bool_)
    counted = evidence.joined.arrived & measured[evidence.joined.phase]
    other = int(np.count_nonzero(counted & ~same))
    if other:
        text = f"{other} of {np.count_nonzero(counted)} events were not received by the sandbox that wrote them."
        remedy = "Compare clocks by the other events only, or run the trial again: Lambda had replaced the sandbox."
        yield Caveat(kind="other_sandbox", text=text, remedy=remedy)


def _check_logs(evidence: Evidence) -> Iterator[Caveat]:
    collection = evidence.collection
    remedy = "Durations and cold starts come from logs only; the latencies do not."
    if collection is None:
        yield Caveat(kind="missing_logs", text="The functions' logs were not collected.", remedy=remedy)
    elif collection.every > 1:
        text = f"Of the receiver's log every {collection.every}th minute was read; its counts are a sample."
        yield Caveat(kind="missing_logs", text=text, remedy=remedy)
    elif collection.seen < collection.expected:
        missing = collection.expected - collection.seen
        text = f"{missing} of {collection.expected} receiver invocations left no REPORT line."
        yield Caveat(kind="missing_logs", text=text, remedy=remedy)


def _missing_writers(evidence: Evidence) -> list[str]:
    grid = evidence.joined.grid
    ended = {
        grid.slot(file.header.phase, file.header.writer, file.header.slice)
        for file in evidence.records.files
        if file.header.last
    }
    silent = ((grid.count > 0) | grid.closed) & ~np.isin(np.arange(grid.count.size), list(ended))
    slots = [(int(grid.phase[n]), int(grid.writer[n]), int(grid.slice[n])) for n in np.nonzero(silent)[0].tolist()]
    return [_describe_writer(slot, evidence) for slot in slots]


def _describe_writer(slot: tuple[int, int, int], evidence: Evidence) -> str:
    phase, writer, slice_ = slot
    failure = evidence.missing.get(slot)
    why = f" ({failure.error}: {failure.cause[:_CAUSE_CHARS]})" if failure else ""
    return f"writer {writer} in slice {slice_} of {evidence.spec.plan.phases[phase].name}{why}"
