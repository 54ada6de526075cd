"""Load that was planned and not offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.analysis.windows import NS_PER_S, windows_with
from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted
from stepbench.records.formats.columns import UNSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.phase import Phase


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
        if (waited_s := _longest_connecting_s(evidence)) >= LONG_CONNECTING_S:
            text += f" When load was due, the store did not let writers in for {waited_s:.1f} s."
            remedy = "Look at the store's log of that time."
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
