"""The search for the rate that makes a store so busy: a sentence, and its probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from stepbench.contracts.findings import FoundRate, Utilisation
    from stepbench.report.run import RunView, TrialView


def describe_search(found: FoundRate) -> str:
    """Describe which utilisation was wanted, what was found or why not, and how busy the load made the store."""
    outcome = found.text if found.rate_per_s is not None else f"no rate was found: {found.text}"
    held = "; ".join(
        f"phase {phase.phase} was then offered {digits.rate(phase.offered_per_s)}/s, of which "
        f"{digits.rate(phase.achieved_per_s)}/s were acknowledged, and was {_describe_utilisation(phase)}"
        for phase in found.phases
        if not phase.probe
    )
    return f"{digits.percent(found.wanted)} busy was wanted: {outcome}." + (
        f" {held[:1].upper()}{held[1:]}." if held else ""
    )


def _describe_utilisation(phase: Utilisation) -> str:
    """Format `31 % busy`, or that it is not known."""
    return "busy to an unknown degree" if phase.utilisation is None else f"{digits.percent(phase.utilisation)} busy"


def load_section(run: RunView) -> doc.Section | None:
    """Return the section; None of a run that has not searched."""
    found = [(view, view.summary.found_rate) for view in run.trials if view.summary.found_rate is not None]
    if not found:
        return None
    caption = (
        "The probes in order, then the load at the rate that they found. Achieved: acknowledged before the phase's "
        f"end. The search takes a probe of which less than 98{digits.NBSP}% was achieved, but for what was on its way "
        "in the last 0.1\N{NO-BREAK SPACE}s, as too much. Probes are in no latency of this report."
    )
    source = doc.words("Read from", "wide more")
    columns = doc.columns("Phase", "Offered, per s", "Achieved, per s", "Utilisation", source)
    said = tuple(doc.named(view.label, view.summary, describe_search(rate)) for view, rate in found)
    rows = doc.body(_row(view, phase) for view, rate in found for phase in rate.phases)
    table = doc.Table("probes", caption, columns, rows, phone=True)
    return doc.Section(
        "load", "Which rate makes the store so busy?", (doc.Sentences(said, "The other trials"), table), link="Load"
    )


def _row(view: TrialView, phase: Utilisation) -> doc.Row:
    cells = (
        numbers.value("offered_per_s", phase.offered_per_s, digits.rate(phase.offered_per_s)),
        numbers.value("achieved_per_s", phase.achieved_per_s, digits.rate(phase.achieved_per_s)),
        numbers.value("utilisation", phase.utilisation, digits.percent(phase.utilisation)),
        doc.Cell(phase.text),
    )
    data: doc.Data = {"trial": view.summary.index, "phase": phase.phase, "probe": phase.probe}
    return doc.Row(
        doc.head(view.label, view.summary, f"{'' if phase.probe else 'the load: '}{phase.phase}"), cells, data
    )
