"""Everything that should make a reader doubt a number, each with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.clock import drift_ns
from stepbench.analysis.found_rate import rate_doubts
from stepbench.analysis.reconciliation import log_doubts
from stepbench.analysis.samples import written_and_received
from stepbench.analysis.saturation import saturation_doubts
from stepbench.analysis.stalls import stall_doubts
from stepbench.contracts.measure import measure_of
from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.result import Accounting, Clock, Failure, StoppedPhase

DRIFT_NS = 100_000
"""A clock that moved by more than this beside its bound is worth a word: a tenth of the fastest store's median."""
_SHOWN = 3


@dataclass(frozen=True)
class Findings:
    """What was computed before the doubts."""

    accounting: tuple[Accounting, ...]
    """Of measured phases, and of the others."""
    windows: tuple[WindowResult, ...]
    clock: Clock
    failure: Failure | None = None
    stopped: tuple[StoppedPhase, ...] = ()

    def total(self, name: str) -> int:
        """A count over all phases."""
        return sum(getattr(books, name) for books in self.accounting)


def doubts(evidence: Evidence, findings: Findings) -> tuple[Caveat, ...]:
    """All caveats, the graver first."""
    groups = (
        _ending,
        _losses,
        _load,
        saturation_doubts,
        stall_doubts,
        rate_doubts,
        _sample,
        _sureness,
        _clock,
        _sandboxes,
        _deliveries,
        _target,
        _logs,
        log_doubts,
    )
    return tuple(caveat for group in groups for caveat in group(evidence, findings))


def _ending(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    failure = findings.failure
    if failure is not None:
        text = f"The trial failed ({failure.error}: {failure.cause[:200]}); what had been recorded until then is shown."
        yield Caveat(kind="incomplete", text=text, remedy="Remove the cause, and run the trial again.")
    if evidence.records.damaged:
        text = f"{len(evidence.records.damaged)} record files do not decode: {evidence.records.damaged[0]}"
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the bucket's object; run the trial again.")
    missing = _missing_writers(evidence)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        text = f"{len(missing)} writers did not run, or did not end in order: {shown}"
        remedy = "See the failed children of OfferLoad's map run, and the log of RunWriter."
        yield Caveat(kind="missing_writer", text=text, remedy=remedy)


def _losses(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    limit = f"{evidence.spec.plan.drain_limit_s:g} s"
    arrives = measure_of(evidence.spec.plan.experiment).arrives
    lost, late = findings.total("lost"), findings.total("late")
    if lost and arrives:
        text = f"{lost} acknowledged events had not arrived {limit} after the last acknowledgement ({late} came later)."
        remedy = "Look at the on-failure queues; raise drain_limit_s."
        if findings.failure is not None:
            text = f"{lost} acknowledged events had not arrived; the trial failed, and may not have waited {limit}."
            remedy = "Run the trial again: what is lost shows in one that goes to its end."
        yield Caveat(kind="lost_events", text=text, remedy=remedy)
    if leaked := findings.total("leaked"):
        text = f"{leaked} events arrived that the trigger's filter was to hold back; they are in no latency."
        yield Caveat(kind="filter_leaked", text=text, remedy="Look at the filter as the store has it.")
    if unknown := findings.total("unknown"):
        what = "writes" if arrives else "operations"
        text = f"{unknown} {what} got no answer, so nobody knows whether they happened; they are in no latency."
        yield Caveat(kind="unknown_outcomes", text=text, remedy="Lower the rate, or look at the store's health.")
    if unrecorded := findings.total("unrecorded"):
        text = f"{unrecorded} events may have been sent without a record of it; they are in no latency."
        yield Caveat(kind="unrecorded", text=text, remedy="Find out from its log why a writer ended early.")


def _load(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    for number, phase in enumerate(evidence.spec.plan.phases):
        if evidence.records.at_most_rows(number):
            text = f"A writer in phase {phase.name} stopped early: it had offered all operations that a trial may keep."
            text += " What came after that is of fewer clients."
            text += _windows_cut(phase, evidence.records.offered_s(number))
            yield Caveat(kind="unsent", text=text, remedy="Shorten the phase, or split the trial.")
    if unsent := findings.total("unsent"):
        text = (
            f"{unsent} of {findings.total('offered')} scheduled events were not sent: the load was less than planned."
        )
        remedy = "Give writers more time to start (lead), raise max_in_flight or writers, or lower the rate."
        yield Caveat(kind="unsent", text=text, remedy=remedy)


def _windows_cut(phase: Phase, offered_s: float) -> str:
    """What became of windows of one's own in a phase that ended before them."""
    held = {window.name: window.to_s for window in phase.all_windows(offered_s)}
    cut = [window.name for window in phase.windows if held.get(window.name, window.to_s) < window.to_s]
    missed = [window.name for window in phase.windows if phase.measured and window.name not in held]
    text = f" Cut where its load ended, after {offered_s:.1f} s: window {', '.join(cut)}." if cut else ""
    return text + (f" Not reached: window {', '.join(missed)}." if missed else "")


def _sample(_: Evidence, findings: Findings) -> Iterator[Caveat]:
    for window in findings.windows:
        measure = window.latency_ms
        named = {"p50": measure.p50, "p90": measure.p90, "p95": measure.p95, "p99": measure.p99}
        short = {
            name: each.reason
            for name, each in named.items()
            if each.value is None and each.reason and not each.reason.startswith(">")
        }
        if short:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in short.items())
            text = f"Window {window.name}: too few independent events for an interval ({reasons})."
            remedy = "Offer more events, over a longer time; p99 needs 368 independent ones, p99.9 3,688."
            yield Caveat(kind="short_sample", text=text, remedy=remedy)


def _sureness(_: Evidence, findings: Findings) -> Iterator[Caveat]:
    for phase in findings.stopped:
        if phase.reason != "sure" and (phase.final is None or phase.final > phase.wanted):
            remedy = "Raise until.max_events, ask for a wider interval, or for a quantile that is easier to know."
            yield Caveat(kind="not_sure", text=phase.text, remedy=remedy)


def _clock(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    if findings.clock.offset_ms is None and measure_of(evidence.spec.plan.experiment).arrives:
        one_clock = written_and_received(evidence) is not None
        what = "Response times and lateness" if one_clock else "Latencies that end at t4"
        text = f"{what} compare two clocks, {findings.clock.text}."
        remedy = "Set the stack's clock reference (an SNTP server that functions can reach)."
        yield Caveat(kind="clock_unmeasured", text=text, remedy=remedy)
    moved_ns = drift_ns(evidence)
    if moved_ns > DRIFT_NS:
        text = f"A clock moved by {moved_ns / 1e6:.3f} ms against its reference or its anchor during the trial."
        yield Caveat(kind="clock_drift", text=text, remedy="Shorten the phases, or subtract the offset by hand.")


def _deliveries(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
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
        yield Caveat(kind="cold_starts", text=text, remedy="Lengthen the warm-up, or use provisioned concurrency.")


def _target(evidence: Evidence, _: Findings) -> Iterator[Caveat]:
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


def _sandboxes(evidence: Evidence, _: Findings) -> Iterator[Caveat]:
    same = written_and_received(evidence)
    if same is None:
        return
    counted = evidence.joined.arrived & _measured(evidence)
    other = int(np.count_nonzero(counted & ~same))
    if other:
        text = f"{other} of {np.count_nonzero(counted)} events were not received by the sandbox that wrote them."
        remedy = "Compare clocks by the other events only, or run the trial again: Lambda had replaced the sandbox."
        yield Caveat(kind="other_sandbox", text=text, remedy=remedy)


def _logs(evidence: Evidence, _: Findings) -> Iterator[Caveat]:
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
    return [
        f"writer {grid.writer[slot]} in slice {grid.slice[slot]} of {evidence.spec.plan.phases[grid.phase[slot]].name}"
        for slot in np.nonzero(silent)[0].tolist()
    ]


def _measured(evidence: Evidence) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([phase.measured for phase in evidence.spec.plan.phases], dtype=np.bool_)[evidence.joined.phase]
