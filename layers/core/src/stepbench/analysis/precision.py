"""
Phases that the run decides: how well a quantile is known while the load goes on, why it ended, and the rate found.

A look is made when the number of events due has grown by a quarter: so all looks together cost five times the last,
and there are few of them. To stop at the first interval that is narrow enough costs it some of its coverage;
`docs/decisions/0005-phases-that-the-run-decides.md` says how much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.findings import STOPPED_REMEDY
from stepbench.analysis.impossible import SETTLE_S, Impossible, ended_text
from stepbench.analysis.windows import NS_PER_S, MeasuredWindow
from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.findings import FoundRate, StoppedPhase
from stepbench.contracts.phase import SHORTEST_CHECK_PAUSE_S, LoadStep, PrecisionLook, PrecisionLooks, Window
from stepbench.contracts.result import Caveat
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.digits import counted
from stepbench.model.request import Outcome
from stepbench.records.join.sent import UNRECORDED
from stepbench.stats.bracketing import decide_after, describe_probe, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.contracts.findings import Utilisation
    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join.joined import Joined

PENDING_S = 60.0
GROWTH = 1.25
_REASONS = {
    "sure": "was sure",
    "max_events": "went on to its longest without being sure",
    "cancelled": "was cancelled before it was sure",
    "writers_gone": "lost all its writers before it was sure",
    "unchecked": "went on to its longest, because nobody looked to the end: see the log of CheckPrecision",
}


def take_look(joined: Joined, plan: TrialPlan, phase: int, start_ns: int, now_ns: int) -> PrecisionLook:
    """
    Estimate the phase's quantile from all events that were due `SETTLE_S` before now.

    What is still not there then counts as missing: left out, it would make the tail look shorter.
    An event without a row that was due in the last `PENDING_S` is perhaps waiting for its answer, or its row is still
    to come: it counts as acknowledged and not arrived. An older one is left out, as it will be by the analysis.

    Args:
        joined: the trial's records, as far as they go.
        plan: the trial's, of which `phase` has an `until`.
        phase: its number.
        start_ns: its time zero.
        now_ns: when the records were about to be read.
    """
    cut_ns = now_ns - round(SETTLE_S * NS_PER_S)
    since_ns = now_ns - round(PENDING_S * NS_PER_S)
    pending = (joined.outcome == UNRECORDED) & ~joined.arrived & (joined.t0_ns >= since_ns)
    waiting = replace(joined, outcome=np.where(pending, np.uint8(Outcome.OK), joined.outcome))
    planned = plan.phases[phase]
    span = Window(name=planned.name, from_s=0, to_s=min((cut_ns - start_ns) / NS_PER_S, planned.length_s))
    window = MeasuredWindow(waiting, plan, start_ns, phase, span, number=0)
    sample = window.sample(window.latency_ms())
    if planned.until is None:
        message = f"phase {planned.name} has no until"
        raise ValueError(message)
    width = relative_width(sample.estimate(QUANTILES[planned.until.metric]))
    return PrecisionLook(at_s=span.to_s, events=sample.finite.size, relative_width=width)


def relative_width(estimate: Estimate) -> float | None:
    """Return the whole interval over the quantile; None where one of them is missing."""
    if not estimate.value or estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / abs(estimate.value)


def first_look_s(phase: Phase) -> float:
    """Return when the first look is due, in seconds from the phase's start."""
    return phase.shortest_s + SETTLE_S


def next_look_s(phase: Phase, at_s: float) -> float:
    """
    Return when the look after one at `at_s` is due, in seconds from the phase's start.

    By the schedule and not by what came of it: a store that answers nothing is looked at as often as another.
    """
    more_s = (GROWTH - 1) * phase.events_by(at_s) / phase.steps[-1].rate_per_s
    return at_s + max(more_s, SHORTEST_CHECK_PAUSE_S) + SETTLE_S


def shorten_plan(plan: TrialPlan, evidence: Evidence) -> TrialPlan:
    """Return the plan with phases as long as they were in the end, and without probes that were passed over."""
    stops, planned = evidence.records.stops_ns, evidence.records.starts_ns
    phases = tuple(
        _shorten_phase(phase, evidence.records.offered_s(number)) if number in stops or not phase.is_open else phase
        for number, phase in enumerate(plan.phases)
        if number in planned or not phase.probe
    )
    return plan.model_copy(update={"phases": phases})


def stopped_phases(evidence: Evidence, windows: Sequence[WindowResult]) -> Iterator[StoppedPhase]:
    """Yield one entry for each phase with `until` that was planned."""
    for number, phase in enumerate(evidence.spec.offered.phases):
        looks = evidence.looks.get(number, PrecisionLooks())
        if looks.impossible is not None:
            yield _ended(phase, evidence.records.offered_s(number), looks.impossible)
            continue
        if phase.until is None or number not in evidence.records.starts_ns:
            continue
        last = looks.looks[-1] if looks.looks else None
        reason = looks.reason or "unchecked"
        first = next((window for window in windows if window.phase == phase.name), None)
        final = relative_width(getattr(first.latency_ms, phase.until.metric)) if first else None
        offered_s = evidence.records.offered_s(number)
        count = counted(len(looks.looks), "look")
        text = (
            f"Phase {phase.name} {_REASONS[reason]}: after {offered_s:.0f} s and {count}, the interval of "
            f"{phase.until.metric} was {_percent(last.relative_width if last else None)} wide, where "
            f"{_percent(phase.until.relative_width)} was asked for; over all its events it is {_percent(final)}."
        )
        yield StoppedPhase(
            phase=phase.name,
            metric=phase.until.metric,
            wanted=phase.until.relative_width,
            reached=last.relative_width if last else None,
            final=final,
            events=last.events if last else 0,
            looks=len(looks.looks),
            stopped_at_s=offered_s,
            reason=reason,
            text=text,
        )


def _ended(phase: Phase, offered_s: float, why: tuple[str, str, str]) -> StoppedPhase:
    found = Impossible(*why)
    return StoppedPhase(
        phase=phase.name,
        metric=parse_threshold(found.threshold).statistic,
        wanted=None,
        reached=None,
        final=None,
        events=0,
        looks=0,
        stopped_at_s=offered_s,
        threshold=found.threshold,
        window=found.window,
        reason="impossible",
        text=ended_text(phase, offered_s, found),
    )


def _shorten_phase(phase: Phase, offered_s: float) -> Phase:
    if phase.closed is not None:
        return phase.model_copy(update={"closed": phase.closed.model_copy(update={"duration_s": offered_s})})
    if phase.invoked is not None:
        return phase.model_copy(update={"invoked": phase.invoked.model_copy(update={"duration_s": offered_s})})
    kept, left_s = list[LoadStep](), offered_s
    for step in phase.steps:
        if left_s > 0:
            kept.append(step if step.length_s < left_s else LoadStep(rate_per_s=step.rate_per_s, duration_s=left_s))
        left_s -= step.length_s
    return phase.model_copy(update={"load": tuple(kept), "until": None})


def _percent(width: float | None) -> str:
    return "unknown" if width is None else f"{100 * width:.2g} %"


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
