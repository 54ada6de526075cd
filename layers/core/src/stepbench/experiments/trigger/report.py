"""What a report says of triggers: how long after a write the function runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.trigger.catalogue import features_section
from stepbench.experiments.trigger.handler import describe_handler, handler_sections, handler_tables
from stepbench.experiments.trigger.memory_report import memory_brief, memory_sections, memory_sentences
from stepbench.report import document as doc
from stepbench.report.numbers import CAVEATS, COUNT, LOST, PROVIDER, Field, bare_trigger, quantiles, window_table
from stepbench.report.run import describe_latency, window_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import RunSummary
    from stepbench.report.run import RunView, WindowRow

QUESTION = "How long after a write does the function run?"
LEADS = False


def answers(run: RunView) -> Iterator[doc.Node]:
    """Yield which memory is the cheapest that keeps the plan's thresholds, where the plan varies memory."""
    yield from memory_sentences(run.summary)


def sections(run: RunView) -> Iterator[doc.Section]:
    """Yield what only measured functions have, their memories and when they were done, and what the triggers can do."""
    yield from memory_sections(run)
    yield from handler_sections(run)
    if features := features_section(run):
        yield features


def brief(summary: RunSummary) -> Iterator[doc.Node]:
    """Yield which memory they take, and when measured functions were done."""
    yield from memory_brief(summary)
    if tables := handler_tables(summary):
        rows = [row for row in window_rows(summary.trials) if row.window.handler]
        said = (doc.named(row.label, row.trial, describe_handler(row)) for row in rows)
        yield doc.Sentences(tuple(said), most=None)
        yield from tables


def headline(summary: RunSummary) -> doc.Table | None:
    """Return the table of all windows."""
    bare = bare_trigger([trial for trial in summary.trials if trial.experiment == "trigger"])
    caption = (
        "Trigger latency (from the write's send, t1, to the function's first statement, t4) with "
        f"{doc.NINETY_FIVE} intervals."
    )
    lost = (
        "Lost: of n, not arrived by the drain limit; the ",
        doc.Span("accounting", href="#accounting"),
        " has those outside of the windows as well.",
    )
    table = doc.Table(
        "headline",
        caption,
        doc.columns("Store", short="trial"),
        (),
        style="cards",
        phone=True,
        note=(_BARE if bare else "", *lost),
    )
    fields = (PROVIDER, COUNT, *quantiles(), LOST, *bare, _CLOCK, CAVEATS)
    return window_table(table, summary, "trigger", fields, _rates)


_BARE = (
    "A bare trigger, measured in the same run before the trials, is an asynchronous invocation by HTTP without a "
    "store; for etcd, a put and its watch without the receiver. It shows how much of a latency is this machine's own, "
    "and is no lower bound: a trial below it ran while the machine was faster, or is DynamoDB's, which is invoked "
    "without a request. "
)


def _rates(row: WindowRow) -> Sequence[str]:
    return (f"{digits.rate(row.window.offered_per_s)}/s offered, {digits.rate(row.window.achieved_per_s)}/s achieved",)


def _clock(row: WindowRow) -> doc.Cell:
    clock = row.trial.clock
    data = {"metric": "clock.offset_ms", "value": clock.offset_ms, "bound": clock.bound_ms}
    return doc.Cell(digits.offset(clock.offset_ms, clock.bound_ms), data, title=clock.text or "")


_CLOCK = Field(doc.more("Clock offset", outputs=doc.PAGE), _clock)


def describe_window(row: WindowRow) -> str:
    """Answer for one window: how long it took, and whether it always came to an end."""
    accounting = row.trial.accounting
    kind = "matching" if accounting and accounting.held_back + accounting.leaked else "acknowledged"
    one = len(row.trial.windows) == 1  # the number is the trial's
    held_back = (
        f", {digits.count(accounting.held_back)} held back by the filter"
        if one and accounting and accounting.held_back
        else ""
    )
    text = f"{describe_latency(row.window.latency_ms, 'p90', row.judge)}; {_arrivals(row.window, kind)}{held_back}."
    handled = filter(None, (describe_handler(row),))
    return " ".join((text, *handled))


def _arrivals(window: WindowResult, kind: str) -> str:
    """Describe arrivals of events of a `kind`: with a filter not all that were acknowledged are among them."""
    missing, n = window.latency_ms.missing, window.n
    if n == 0:
        return f"no {kind} event was acknowledged" if kind == "matching" else "no event was acknowledged"
    if missing == 0:
        return f"the one {kind} event arrived" if n == 1 else f"all {digits.count(n)} {kind} events arrived"
    return f"{digits.count(missing)} of {digits.counted(n, f'{kind} event')} had not arrived by the drain limit"
