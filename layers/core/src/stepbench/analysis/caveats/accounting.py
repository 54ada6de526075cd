"""Events that were acknowledged and did not arrive, or arrived against the plan, or of which there is no record."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.analysis.windows import windows_with
from stepbench.contracts.measure import measure_of
from stepbench.contracts.result import Caveat
from stepbench.digits import counted
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.records.join.joined import Joined

REFUSED_REMEDY = "See the receiver's log of that time, and its throttles."
_SHOWN = 3


def find_lost_events(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report acknowledged events that did not arrive."""
    limit = f"{evidence.spec.offered.drain_limit_s:g} s"
    arrives = measure_of(evidence.spec.offered.experiment).arrives
    lost, late = findings.total("lost") - findings.own.failed, findings.total("late")
    if lost > 0 and arrives:
        events = counted(lost, "acknowledged event")
        text = f"{events} had not arrived {limit} after the last acknowledgement ({late} came later)."
        remedy = "Look at the on-failure queues; raise drain_limit_s."
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
        reasons = ", ".join(f"{count} by {why}" for why, count in Counter(found.values()).most_common(_SHOWN))
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
    counts = ", ".join(f"{count} by {failure}" for failure, count in failures.most_common())
    return f" Invocations of {function} that Lambda ended: {counts}." if counts else ""
