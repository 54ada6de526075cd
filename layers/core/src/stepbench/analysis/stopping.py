"""Why phases with `until` ended, and the plan as it was offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.precision import relative_width
from stepbench.contracts.phase import LoadStep
from stepbench.contracts.phase_documents import PrecisionLooks
from stepbench.contracts.result import StoppedPhase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.phase import Phase, Until
    from stepbench.contracts.plan import TrialPlan

_WHY = {
    "max_events": "went on to its longest without being sure",
    "cancelled": "was cancelled before it was sure",
    "writers_gone": "lost all its writers before it was sure",
    "unchecked": "went on to its longest, because nobody looked to the end: see the log of CheckPrecision",
}


def stopped(evidence: Evidence, windows: Sequence[WindowResult]) -> tuple[StoppedPhase, ...]:
    """One entry for each phase with `until` that was planned."""
    return tuple(_stopped(evidence, windows))


def _stopped(evidence: Evidence, windows: Sequence[WindowResult]) -> Iterator[StoppedPhase]:
    for number, phase in enumerate(evidence.spec.plan.phases):
        if phase.until is None or number not in evidence.records.starts_ns:
            continue
        looks = evidence.looks.get(number, PrecisionLooks())
        last = looks.looks[-1] if looks.looks else None
        reason = looks.reason or "unchecked"
        final = next((_width(window, phase.until) for window in windows if window.phase == phase.name), None)
        offered_s = evidence.records.offered_s(number)
        why = "was sure" if reason == "sure" else _WHY[reason]
        count = "1 look" if len(looks.looks) == 1 else f"{len(looks.looks)} looks"
        text = (
            f"Phase {phase.name} {why}: after {offered_s:.0f} s and {count}, the interval of "
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


def as_offered(plan: TrialPlan, evidence: Evidence) -> TrialPlan:
    """The plan with its phases as long as they were in the end, and without probes that were passed over."""
    stops, planned = evidence.records.stops_ns, evidence.records.starts_ns
    phases = tuple(
        _shortened(phase, evidence.records.offered_s(number)) if number in stops or phase.closed else phase
        for number, phase in enumerate(plan.phases)
        if number in planned or not phase.probe
    )
    return plan.model_copy(update={"phases": phases})


def _shortened(phase: Phase, offered_s: float) -> Phase:
    if phase.closed is not None:
        return phase.model_copy(update={"closed": phase.closed.model_copy(update={"duration_s": offered_s})})
    *before, last = phase.steps
    rest_s = offered_s - sum(step.length_s for step in before)
    step = LoadStep(rate_per_s=last.rate_per_s, duration_s=rest_s)
    return phase.model_copy(update={"load": (*before, step), "until": None})


def _width(window: WindowResult, until: Until) -> float | None:
    return relative_width(getattr(window.latency_ms, until.metric))


def _percent(width: float | None) -> str:
    return "not to be told" if width is None else f"{100 * width:.2g} %"
