"""
What the load did: invocations with their cold starts and records, and how busy it made the store.

The search for the rate that makes a store so busy is a sentence, and its probes a table.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from stepbench.contracts.findings import FoundRate, Utilisation
    from stepbench.contracts.invocations import Deliveries, Invocations
    from stepbench.report.run import RunView, TrialView

_NAMED = 5


def describe_deliveries(found: Deliveries) -> str:
    """Describe the records per invocation: `1 record per invocation in all 960 invocations`, or how they spread."""
    invocations = digits.counted(found.invocations, "invocation")
    if found.min == found.max:
        return f"{digits.counted(found.max, 'record')} per invocation in all {invocations}"
    sizes = (f"{digits.count(each.records)} ({digits.counted(each.invocations, 'time')})" for each in found.commonest)
    commonest = ", ".join(islice(sizes, _NAMED))
    return (
        f"{digits.count(found.min)} to {digits.count(found.max)} records per invocation in {invocations}, median "
        f"{found.p50:g}, p90 {found.p90:g}, mean {digits.rounded(found.mean)}; most often {commonest}"
    )


def invocations_section(run: RunView) -> doc.Section:
    """Return the section on what the functions' own logs say."""
    delivered = tuple(
        doc.named(
            row.label,
            row.trial,
            f"{describe_deliveries(found)}.",
            {"trial": row.trial.index, "window": row.window.name},
        )
        for row in run.rows
        if (found := row.window.deliveries)
    )
    every = [each for view in run.trials for each in view.summary.invocations]
    cold = digits.counted(sum(each.cold_starts for each in every), "cold start")
    summary = f"{cold} in {digits.counted(sum(each.invocations for each in every), 'invocation')}"
    table = doc.Fold(summary, (_table(run),)) if every else doc.Sentence("No logs were collected.")
    first = (doc.Group("deliveries", (doc.Sentences(delivered, "The others"),)),) if delivered else ()
    return doc.Section("invocations", "Invocations and cold starts", (*first, table), link="Cold starts")


def _table(run: RunView) -> doc.Table:
    headings = (
        *("Invocations", "Cold starts", "Init, p50", "Init, max", "Duration, p50", "Duration, max", "Billed"),
        "Memory, max",
    )
    bodies = (
        doc.Body(
            tuple(map(_row, view.summary.invocations)),
            (view.label, doc.badges(view.summary)),
            {"trial": view.summary.index},
        )
        for view in run.trials
        if view.summary.invocations
    )
    columns = doc.columns("Function", *headings)
    caption = "What the functions' own logs say of the trial."
    return doc.Table("invocations-table", caption, columns, tuple(bodies), "reference")


def _row(each: Invocations) -> doc.Row:
    memory = digits.NONE if each.max_memory_mb is None else f"{digits.count(each.max_memory_mb)} MB"
    cells = (
        numbers.number("invocations", each.invocations),
        numbers.number("cold_starts", each.cold_starts),
        *(
            numbers.time(name, getattr(each, name))
            for name in ("init_ms_p50", "init_ms_max", "duration_ms_p50", "duration_ms_max")
        ),
        numbers.value("billed_ms", each.billed_ms, digits.duration(each.billed_ms / 1000)),
        numbers.value("max_memory_mb", each.max_memory_mb, memory),
    )
    return doc.Row(doc.Cell(each.function), cells, {"function": each.function})


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
    rows = doc.body(_phase_row(view, phase) for view, rate in found for phase in rate.phases)
    table = doc.Table("probes", caption, columns, rows, phone=True)
    return doc.Section(
        "load", "Which rate makes the store so busy?", (doc.Sentences(said, "The other trials"), table), link="Load"
    )


def _phase_row(view: TrialView, phase: Utilisation) -> doc.Row:
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
