"""A span in which nobody watched a pull trigger makes latencies that are not the store's, which a caveat names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.windows import NS_PER_S, windows_with
from stepbench.contracts.result import Caveat
from stepbench.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.records.join.watch_gaps import WatchGap

_SHOWN = 3


def find_watch_gaps(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Yield a caveat if any events were acknowledged while nobody watched."""
    if not (events := findings.total("watch_gap")):
        return
    gaps = _under_load(evidence)
    spans = "; ".join(_describe(evidence, gap) for gap in gaps[:_SHOWN]) + ("; …" if len(gaps) > _SHOWN else "")
    text = (
        f"{counted(events, 'event', 'was', 'were')} acknowledged while nobody watched "
        f"{evidence.spec.offered.target.store} ({spans}). What arrives when the watch is taken up again "
        "says nothing about the store: it is in no latency."
    )
    remedy = "Find out from WatchChanges' log why its watcher ended or stood still; run the trial again."
    about = windows_with(findings.measured_windows, evidence.joined.watch_gap)
    yield Caveat(kind="watch_gap", text=text, remedy=remedy, windows=about)


def _under_load(evidence: Evidence) -> list[WatchGap]:
    first_ns = min(evidence.records.starts_ns.values(), default=0)
    return [gap for gap in evidence.records.watch_gaps if gap.to_ns > first_ns]


def _describe(evidence: Evidence, gap: WatchGap) -> str:
    """Tell the span in seconds of the phase in which it began, or of the first one."""
    starts_ns = evidence.records.starts_ns
    phase = max((each for each in starts_ns if starts_ns[each] <= gap.from_ns), default=min(starts_ns))
    from_s, to_s = ((at_ns - starts_ns[phase]) / NS_PER_S for at_ns in (gap.from_ns, gap.to_ns))
    return f"{evidence.spec.offered.phases[phase].name}: {from_s:.1f} s to {to_s:.1f} s"
