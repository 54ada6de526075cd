"""What is said of a store's stalls: their spans on the time line, and a caveat of each measured phase."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.chart_data import StallSpan
from stepbench.contracts.result import Caveat
from stepbench.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.stalls import Stall

MAX_SPANS = 200
_SHOWN = 3
_LENGTH = attrgetter("length_ns")


def stall_spans(evidence: Evidence, stalls: Sequence[Stall]) -> tuple[StallSpan, ...]:
    """Return where stalls lie on the trial's time axis; of very many the longest."""
    zero_ns = evidence.joined.grid.timetable.first_ns()
    longest = sorted(stalls, key=_LENGTH, reverse=True)[:MAX_SPANS]
    return tuple(
        StallSpan(
            phase=evidence.spec.offered.phases[stall.phase].name,
            from_s=(stall.begin_ns - zero_ns) / NS_PER_S,
            to_s=(stall.end_ns - zero_ns) / NS_PER_S,
            in_flight=stall.in_flight,
            events=stall.events,
        )
        for stall in sorted(longest)
    )


def find_stall_caveats(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each measured phase in which the store stalled: when, how long, how much waited.

    Not the others: what is cold at first stands still in a warm-up, and that is what it is for. The time line has them.
    """
    zero_ns = evidence.joined.grid.timetable.first_ns()
    for number, phase in enumerate(evidence.spec.offered.phases):
        own = [stall for stall in findings.stalls if stall.phase == number]
        if not phase.measured or not own:
            continue
        longest = max(own, key=_LENGTH)
        at = datetime.fromtimestamp(longest.begin_ns // NS_PER_S, UTC)
        text = (
            f"Phase {phase.name}: the store answered nothing {_describe_span(longest, zero_ns)} of the trial "
            f"({at:%H:%M:%S} UTC), with {counted(longest.in_flight, 'request')} in flight at its end; "
            f"{counted(longest.events, 'event')} waited."
        )
        if others := [_describe_span(stall, zero_ns) for stall in own if stall is not longest]:
            shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
            total = counted(sum(stall.events for stall in own), "event")
            text += f" It was the longest of {len(own)} stalls; the others: {shown}. In all {total} waited."
        remedy = (
            "Look at the store's log of that time (a pause, a flush, a fail-over). Latencies contain the wait; run the "
            "trial again if it is not what you measure."
        )
        about = tuple(
            place
            for place, window in enumerate(findings.measured_windows)
            if window.phase == number and any(window.meets(stall.begin_ns, stall.end_ns) for stall in own)
        )
        yield Caveat(kind="store_stalled", text=text, remedy=remedy, windows=about)


def _describe_span(stall: Stall, zero_ns: int) -> str:
    from_s, to_s = ((each - zero_ns) / NS_PER_S for each in (stall.begin_ns, stall.end_ns))
    return f"between {from_s:.1f} s and {to_s:.1f} s"
