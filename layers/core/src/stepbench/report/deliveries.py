"""Invocations and their cold starts, and how many records each was handed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from stepbench.contracts.measures import Deliveries
    from stepbench.contracts.result import Invocations
    from stepbench.report.run import RunView

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
