"""Samples too small, or too alike, for the precision that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.contracts.measure import HEADLINE_QUANTILES
from stepbench.contracts.result import Caveat
from stepbench.digits import MOST_TIMES_LONGER, brief, count, counted, listed, longer
from stepbench.stats.over_runs import dependence_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.stats.over_runs import Dependence


def find_short_windows(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each window that is too short for the interval of a quantile, or whose events depend on one another.

    Of many that do so, a longer load makes few more: what makes them alike has to be found. What fell behind has a
    caveat of its own.
    """
    for place, window in enumerate(findings.windows):
        named = {name: getattr(window.latency_ms, name) for name in HEADLINE_QUANTILES}
        open_ = {
            name: each.reason
            for name, each in named.items()
            if each.value is not None and each.low is None and each.reason and not each.fell_behind
        }
        dependent = {name: found for name, reason in open_.items() if (found := dependence_in(reason))}
        short = [f"{name} {brief(reason)}" for name, reason in open_.items() if name not in dependent]
        if short:
            text = f"Window {window.name} is too short for an interval: {', '.join(short)}."
            remedy = "Offer more events, over a longer time: p99 needs 368 independent ones, p99.9 3,688."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="short_sample", text=text, remedy=remedy, windows=(place,))
        if dependent:
            yield _dependent(window.name, place, dependent)


def _dependent(window: str, place: int, found: Mapping[str, Dependence]) -> Caveat:
    worth = min(found.values())
    text = (
        f"Window {window} has no interval for {listed(list(found))}: its {count(worth.events)} events resemble those "
        f"before them, and are worth {counted(worth.independent, 'independent one')}."
    )
    times = max(each.needed / max(1, each.independent) for each in found.values())
    repeats = (
        ", or in repeats, which do not depend on one another"
        if all(each.counts_over_runs for each in found.values())
        else ""
    )
    remedy = (
        f"Offer load for {longer(times)}{repeats}."
        if times <= MOST_TIMES_LONGER
        else "A longer load hardly helps, nor do such repeats. Look on the time line for what comes in spells "
        "(stalls, a drift, other work on the machine)."
    )
    return Caveat(kind="dependent_sample", text=text, remedy=remedy, windows=(place,))


def find_unsure_phases(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each phase that ended before its quantile was as sure as the plan asks."""
    for phase in findings.stopped:
        if phase.reason != "sure" and (phase.final is None or phase.final > phase.wanted):
            remedy = "Raise until.max_events, ask for a wider interval, or for a quantile that is easier to know."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="not_sure", text=phase.text, remedy=remedy)
