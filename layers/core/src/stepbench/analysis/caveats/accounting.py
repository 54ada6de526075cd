"""
Events that were not sent, that did not arrive or arrived otherwise than planned, or of which there is no record.

Otherwise: against a filter, twice, without a name, by a second way, at a cold start, or while nobody watched.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.findings import STOPPED_REMEDY
from stepbench.analysis.windows import NS_PER_S, windows_with
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.contracts.phase import Phase
    from stepbench.records.join.arrivals import WatchGap
    from stepbench.records.join.joined import Joined

REFUSED_REMEDY = "See the receiver's log of that time, and its throttles."
_SHOWN = 3
LONG_CONNECTING_S = 0.25
"""As no shorter silence is a stall."""


def find_shortened_phases(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report phases that had offered all operations that a trial may keep before their end."""
    for number, phase in enumerate(evidence.spec.offered.phases):
        if evidence.records.at_most_rows(number):
            text = f"A writer in phase {phase.name} stopped early: it had offered all operations that a trial may keep."
            text += " What came after that is of fewer clients."
            text += _describe_cut_windows(phase, evidence.records.offered_s(number))
            yield Caveat(kind="unsent", text=text, remedy="Shorten the phase, or split the trial.")


def find_unsent_events(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report scheduled events that were not sent."""
    parts = [
        f"{count(each.unsent)} of {counted(each.offered, 'scheduled event')} of {which}"
        for each, which in ((findings.accounting, "measured phases"), (findings.warm_up, "the warm-up"))
        if each and each.unsent
    ]
    if parts:
        text = f"{' and '.join(parts)} were not sent: the load was less than planned."
        remedy = "Writers began too late, or had no place in flight: raise max_in_flight or writers, or lower the rate."
        if any(phase.invoked for phase in evidence.spec.offered.phases):
            remedy = "Invocations never came, or later than invoked.duration_s allows: raise max_concurrency or "
            remedy += "duration_s, or lower writers."
        if (waited_s := _longest_connecting_s(evidence)) >= LONG_CONNECTING_S:
            text += f" Writers were still connecting up to {waited_s:.1f} s after load was due."
            remedy = "Look at the store's log of that time, and at how busy the writers' machine was."
        if findings.failure is not None and not findings.cancelled:
            text, remedy = f"{text.partition(':')[0]}: the trial had failed before.", "Mend that, and run it again."
        if findings.cancelled:
            text, remedy = f"{text.partition(':')[0]}: the run was stopped before.", STOPPED_REMEDY
        about = windows_with(findings.measured_windows, evidence.joined.outcome == UNSENT)
        yield Caveat(kind="unsent", text=text, remedy=remedy, windows=about)


def _longest_connecting_s(evidence: Evidence) -> float:
    """Return how long at most a writer was still connecting when its load was due."""
    return max((file.header.connecting_ns for file in evidence.records.files), default=0) / NS_PER_S


def _describe_cut_windows(phase: Phase, offered_s: float) -> str:
    """Describe what became of the plan's own windows in a phase that ended before them."""
    held = {window.name: window.to_s for window in phase.all_windows(offered_s)}
    cut = [window.name for window in phase.windows if held.get(window.name, window.to_s) < window.to_s]
    missed = [window.name for window in phase.windows if phase.measured and window.name not in held]
    text = f" Cut where its load ended, after {offered_s:.1f} s: window {', '.join(cut)}." if cut else ""
    return text + (f" Not reached: window {', '.join(missed)}." if missed else "")


def find_lost_events(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report acknowledged events that did not arrive."""
    limit = f"{evidence.spec.offered.drain_limit_s:g} s"
    arrives = measure_of(evidence.spec.offered.experiment).arrives
    lost, late = findings.total("lost") - findings.own.failed, findings.total("late")
    if lost > 0 and arrives:
        events = counted(lost, "acknowledged event")
        text = f"{events} had not arrived {limit} after the last acknowledgement ({late} came later)."
        remedy = "See whether the function ran, by its log and throttles; raise drain_limit_s if it was late."
        if findings.cancelled:
            text = f"{events} had not arrived after {limit}, when the run was stopped."
            remedy = STOPPED_REMEDY
        elif findings.failure is not None:
            text = f"{events} had not arrived; the trial failed, and may not have waited {limit}."
            remedy = "Run the trial again: what is lost shows in one that goes to its end."
        if refused := _describe_refusals(evidence):
            text, remedy = text + refused, REFUSED_REMEDY
        text += _describe_failed_invocations(evidence, evidence.spec.offered.receiver)
        about = windows_with(findings.measured_windows, evidence.lost)
        yield Caveat(kind="lost_events", text=text, remedy=remedy, windows=about)


def _describe_refusals(evidence: Evidence) -> str:
    """Describe which of the lost events Lambda gave up to deliver, and why."""
    found: dict[int, str] = {}
    lost, unnamed = evidence.lost, 0
    for each in evidence.refused.deliveries:
        why = f"{each.condition}: {each.error}" if each.error else each.condition
        events = evidence.joined.grid.find(each.entries())
        found |= dict.fromkeys(events[lost[events]].tolist(), why)
        unnamed += 0 if each.events else each.records
    text = ""
    if found:
        reasons = ", ".join(f"{number} by {why}" for why, number in Counter(found.values()).most_common(_SHOWN))
        shown = ", ".join(_name(evidence.joined, event) for event in list(found)[:_SHOWN])
        more = ", …" if len(found) > _SHOWN else ""
        text = f" Given up by Lambda, and out of the on-failure queue: {counted(len(found), 'event')} ({reasons}),"
        text += f" such as {shown}{more}; refused.json beside the trial names all."
    if unnamed:
        text += f" Of {counted(unnamed, 'record')} that it gave up nobody can say any more which they were."
    return text


def _name(joined: Joined, event: int) -> str:
    """Name an event by its place in the schedule."""
    own, grid = joined.part(event, event + 1), joined.grid
    slot = int(own.slot[0])
    place = f"phase {grid.phase[slot]}, writer {grid.writer[slot]}, slice {grid.slice[slot]}"
    return f"sequence {own.sequence[0]} ({place})"


def find_leaked_events(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that a filter let through against the plan."""
    if leaked := findings.total("leaked"):
        text = f"{counted(leaked, 'event')} arrived that the trigger's filter was to hold back; no latency has them."
        yield Caveat(kind="filter_leaked", text=text, remedy="Look at the filter as the store has it.")


def find_unrecorded_events(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events of which no writer left a record."""
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
    counts = ", ".join(f"{number} by {failure}" for failure, number in failures.most_common())
    return f" Invocations of {function} that Lambda ended: {counts}." if counts else ""


def find_duplicates(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that were delivered or sent more than once."""
    duplicates, twice = findings.total("duplicates"), evidence.joined.sent_twice
    arrives = measure_of(evidence.spec.offered.experiment).arrives
    if not arrives or evidence.joined.processing is not None:  # what it processed again has a caveat of its own
        noun, kept = ("event", "earliest arrival counts") if arrives else ("operation", "earlier attempt's count")
        if twice:
            text = f"{counted(twice, noun, 'was', 'were')} sent by two attempts of a writer."
            yield Caveat(kind="duplicates", text=text, remedy=f"The {kept}; look why it was repeated.")
        return
    if duplicates or twice:
        retried = findings.total("retried")
        text = f"Repeated deliveries: {count(duplicates)} ({count(retried)} of them Lambda's own retries)"
        text += f"; {counted(twice, 'event', 'was', 'were')} sent by two attempts of a writer." if twice else "."
        remedy = "The earliest arrival counts; make receivers of your own idempotent."
        yield Caveat(kind="duplicates", text=text, remedy=remedy)


def find_malformed_events(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report delivered records that name no event."""
    if evidence.malformed and measure_of(evidence.spec.offered.experiment).arrives:
        text = f"{evidence.malformed} delivered records named no event."
        yield Caveat(kind="malformed_events", text=text, remedy="Keep other writers away from the target.")


def find_records_in_fallback(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report arrivals that the results table could not take."""
    if evidence.records.in_fallback and measure_of(evidence.spec.offered.experiment).arrives:
        text = f"{evidence.records.in_fallback} arrival records went to the bucket, since the results table was down."
        yield Caveat(kind="t4_in_fallback", text=text, remedy="Raise the results table's throughput.")


def find_cold_starts(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report measured events that a cold start received."""
    if not measure_of(evidence.spec.offered.experiment).arrives:
        return
    cold = sum(
        int(np.count_nonzero(events.cold & events.arrived))
        for number, phase in enumerate(evidence.spec.offered.phases)
        if phase.measured
        for events in (evidence.joined.of_phase(number),)
    )
    if cold:
        events = counted(cold, "measured event", "was", "were")
        text = f"{events} received by a function's cold start."
        about = windows_with(findings.measured_windows, evidence.joined.cold)
        remedy = "Lengthen the warm-up, or use provisioned concurrency."
        yield Caveat(kind="cold_starts", text=text, remedy=remedy, windows=about)


def find_watch_gaps(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Yield a caveat if any events were acknowledged while nobody watched."""
    if not (events := findings.total("watch_gap")):
        return
    gaps = _gaps_under_load(evidence)
    spans = "; ".join(_describe_gap(evidence, gap) for gap in gaps[:_SHOWN]) + ("; …" if len(gaps) > _SHOWN else "")
    text = (
        f"{counted(events, 'event', 'was', 'were')} acknowledged while nobody watched "
        f"{evidence.spec.offered.target.store} ({spans}). What arrives when the watch is taken up again "
        "says nothing about the store: it is in no latency."
    )
    remedy = "Find out from WatchChanges' log why its watcher ended or stood still; run the trial again."
    about = windows_with(findings.measured_windows, evidence.joined.watch_gap)
    yield Caveat(kind="watch_gap", text=text, remedy=remedy, windows=about)


def _gaps_under_load(evidence: Evidence) -> list[WatchGap]:
    first_ns = min(evidence.records.starts_ns.values(), default=0)
    return [gap for gap in evidence.records.watch_gaps if gap.to_ns > first_ns]


def _describe_gap(evidence: Evidence, gap: WatchGap) -> str:
    """Return the span in seconds of the phase in which it began, or of the first one."""
    starts_ns = evidence.records.starts_ns
    phase = max((each for each in starts_ns if starts_ns[each] <= gap.from_ns), default=min(starts_ns))
    from_s, to_s = ((at_ns - starts_ns[phase]) / NS_PER_S for at_ns in (gap.from_ns, gap.to_ns))
    return f"{evidence.spec.offered.phases[phase].name}: {from_s:.1f} s to {to_s:.1f} s"
