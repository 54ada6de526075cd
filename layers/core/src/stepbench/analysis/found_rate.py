"""The result of the search for a rate, and the caveats about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.contracts.findings import FoundRate
from stepbench.contracts.result import Caveat
from stepbench.stats.bracketing import decide_after, describe_probe, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.findings import Utilisation
    from stepbench.contracts.phase import Phase

MISSED_TOLERANCES = 2
"""A phase that is held at the found rate may be so many tolerances off, before that is worth a word."""


def found_rate(evidence: Evidence) -> FoundRate | None:
    """Return the search's result from what was measured in it; None for a trial without a search."""
    find = evidence.spec.offered.find_rate
    if find is None:
        return None
    decision = decide_after(find, evidence.utilisations)
    text = decision.text
    if decision.next_per_s is not None:
        text = f"the trial ended before the search did: {text}"
    return FoundRate(wanted=find.utilisation, rate_per_s=decision.found_per_s, text=text, phases=evidence.utilisations)


def find_rate_caveats(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report a rate that was not found, metrics that did not come, and phases that were not as busy as planned."""
    found, find = found_rate(evidence), evidence.spec.offered.find_rate
    if found is None or find is None:
        return
    if found.rate_per_s is None:
        text = f"No rate was found that makes the store {100 * found.wanted:.0f} % busy: {found.text}."
        remedy = "Widen find_rate.low_per_s and high_per_s, raise probes, tolerance or writers."
        remedy = STOPPED_REMEDY if findings.cancelled else remedy
        yield Caveat(kind="rate_not_found", text=text, remedy=remedy)
    for phase in found.phases:
        if phase.utilisation is None:
            text = f"How busy the store was in phase {phase.phase} is not known: {phase.text}."
            yield Caveat(kind="utilisation_unknown", text=text, remedy="Look at the metric in CloudWatch.")
    limit = MISSED_TOLERANCES * find.tolerance
    for measured, planned in _held(evidence):
        off = 0.0 if measured.utilisation is None else measured.utilisation - found.wanted
        held = is_held(measured.offered_per_s, measured.achieved_per_s, planned.length_s)
        if held and abs(off) <= limit:
            continue
        text = f"Phase {measured.phase} was to make the store {100 * found.wanted:.0f} % busy, and did not: "
        remedy = "Lengthen find_rate.probe_s or the settle time; other work on the same machine moves it as well."
        cap_per_s = min(step.rate_per_s for step in planned.load)
        if held and off < 0 and found.rate_per_s is not None and cap_per_s < found.rate_per_s:
            text += f"its rate_per_s, {cap_per_s:,.4g}, is below the {found.rate_per_s:,.4g}/s that were found; "
            remedy = "Raise the rate_per_s of its load: it caps what find_rate finds."
        yield Caveat(kind="utilisation_missed", text=text + describe_probe(measured) + ".", remedy=remedy)


def _held(evidence: Evidence) -> Iterator[tuple[Utilisation, Phase]]:
    """Yield phases that are to be at exactly the rate that was found, as measured and as planned."""
    phases = {phase.name: phase for phase in evidence.spec.offered.phases}
    for measured in evidence.utilisations:
        planned = phases[measured.phase]
        if not measured.probe and {step.of_found for step in planned.load} == {1.0}:
            yield measured, planned
