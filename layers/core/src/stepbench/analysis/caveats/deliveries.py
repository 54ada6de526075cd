"""Arrivals that are repeats, name no event, took a second way, met a cold start, or came while nobody watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.windows import NS_PER_S, windows_with
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.records.join.arrivals import WatchGap

_SHOWN = 3


def find_duplicates(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that were delivered or sent more than once."""
    duplicates, twice = findings.total("duplicates"), evidence.joined.sent_twice
    if not measure_of(evidence.spec.offered.experiment).arrives:
        if twice:
            text = f"{counted(twice, 'operation', 'was', 'were')} sent by two attempts of a writer."
            yield Caveat(kind="duplicates", text=text, remedy="The earlier attempt's count; look why it was repeated.")
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
