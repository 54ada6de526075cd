"""Samples too small for the precision that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.contracts.measure import HEADLINE_QUANTILES
from stepbench.contracts.result import Caveat
from stepbench.digits import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence


def find_short_windows(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each window that is too short for the interval of a quantile."""
    for place, window in enumerate(findings.windows):
        measure = window.latency_ms
        named = {name: getattr(measure, name) for name in HEADLINE_QUANTILES}
        short = [
            f"{name} {brief(each.reason)}"
            for name, each in named.items()
            if each.value is not None and each.low is None and each.reason
        ]
        if short:
            text = f"Window {window.name} is too short for an interval: {', '.join(short)}."
            remedy = "Offer more events, over a longer time: p99 needs 368 independent ones, p99.9 3,688."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="short_sample", text=text, remedy=remedy, windows=(place,))


def find_unsure_phases(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each phase that ended before its quantile was as sure as the plan asks."""
    for phase in findings.stopped:
        if phase.reason != "sure" and (phase.final is None or phase.final > phase.wanted):
            remedy = "Raise until.max_events, ask for a wider interval, or for a quantile that is easier to know."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="not_sure", text=phase.text, remedy=remedy)
