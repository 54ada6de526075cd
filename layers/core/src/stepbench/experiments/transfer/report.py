"""What a report says of transfers, of a trial or of a dataset: how long a file takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.protocol import nothing
from stepbench.experiments.transfer import figures, tables, words
from stepbench.experiments.transfer.words import CAVEATS, TransferView, pair_name, read_cells
from stepbench.report import document as doc
from stepbench.report.numbers import trials_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.transfer.result import TransferFindings
    from stepbench.report.run import RunView, WindowRow

QUESTION = ""
"""Each trial's section has its own."""
LEADS = False
answers = nothing
FEW_PUBLISHED = 12
"""So many published numbers at most are not folded."""
MOST_BESIDE = 6
"""The rates of so many trials at most stand side by side."""


def headline(summary: RunSummary) -> doc.Table | None:  # noqa: ARG001 -- of the protocol
    """Return None: files that are read have no windows."""
    return None


def describe_window(row: WindowRow) -> str:
    """Return nothing: there is no window of transfers."""
    return row.label


def brief(summary: RunSummary) -> Iterator[doc.Node]:
    """Yield what Markdown says of a run's transfers, trial by trial."""
    for trial, label, _ in trials_of(summary, "transfer"):
        if trial.transfers is not None:
            yield doc.Sentence(doc.Span(label, "strong"))
            yield from brief_findings(trial.transfers, trial.stand_ins)


def brief_findings(found: TransferFindings, stand_ins: Mapping[str, str]) -> Iterator[doc.Node]:
    """Yield what Markdown says of one trial's transfers, or of a dataset's."""
    if stand_ins:
        yield doc.Sentence(doc.Span(words.describe_stand_ins(stand_ins), "strong"))
    if found.answers:
        yield doc.Sentences(tuple(map(doc.Sentence, found.answers)), most=None)
    if any(cell.n for cell in found.cells):
        yield tables.cells_table(found, stand_ins, "brief")
    yield from _changes(found, stand_ins)
    if scored := [each for each in found.published if each.ours.value is not None]:
        yield tables.published_table(scored, stand_ins, "brief")
    yield doc.Sentence(f"{words.describe_accounting(found.accounting)}.")


def _changes(found: TransferFindings, stand_ins: Mapping[str, str]) -> Iterator[doc.Node]:
    """Yield when the level of rates changes."""
    said = tuple(
        doc.Sentence(words.describe_change(pair_name(pair, stand_ins), change), data={"change": change.at.isoformat()})
        for pair in found.pairs
        for change in pair.changes
    )
    if said:
        yield doc.Sentences(said, most=None)


def sections(run: RunView) -> Iterator[doc.Section]:
    """Yield a section of all trials side by side, then one for each."""
    views = [
        TransferView(trial.label, trial.anchor, found, drawn, trial.summary.stand_ins)
        for trial in run.of("transfer")
        if (found := trial.summary.transfers) is not None and (drawn := trial.result.transfers) is not None
    ]
    if 1 < len(views) <= MOST_BESIDE:
        nodes = (tables.trials_table(views),)
        yield doc.Section("transfers-trials", "How do the trials' rates differ?", nodes, "Trials", "transfers")
    for view in views:
        yield transfer_section(view, alone=run.windowless and len(views) == 1)


def transfer_section(view: TransferView, *, alone: bool) -> doc.Section:
    """Return the section; `alone`: the page has no other of transfers."""
    title = "How long does a file take?" if alone else f"{view.label}: how long does a file take?"
    nodes = (*_answers(view), *_published(view), *_rates(view), *_steadiness(view), *_within(view), *_ending(view))
    return doc.Section(f"transfers-{view.anchor}", title, nodes, "Answer" if alone else view.label, "transfers")


def _answers(view: TransferView) -> Iterator[doc.Node]:
    found = view.findings
    if found.answers:
        yield doc.Sentences(tuple(map(doc.Sentence, found.answers)), "The others in sentences")
        if view.stand_ins:
            yield doc.Sentence(words.describe_stand_ins(view.stand_ins), "note")
    else:
        yield doc.Sentence("Nothing was read to its end, so there is no answer.")
    if read_cells(found):
        yield tables.cells_table(found, view.stand_ins, view.anchor)


def _published(view: TransferView) -> Iterator[doc.Node]:
    number = len(view.findings.published)
    if number:
        yield doc.Heading("Against published numbers")
        table = tables.published_table(view.findings.published, view.stand_ins, view.anchor)
        yield doc.Fold(f"Published numbers and ours ({number})", (table,), plain=number <= FEW_PUBLISHED)


def _rates(view: TransferView) -> Iterator[doc.Node]:
    found, (by_size, over_time) = view.findings, figures.rate_figures(view)
    if by_size:
        without = sum(pair.left_out for pair in view.charts.points)
        which = "evenly over the ranks of their cell, whose fastest and slowest are drawn"
        left_out = f"; {digits.count(without)} of {digits.count(found.n)} have none, {which}" if without else ""
        caption = (
            f"Each point is a transfer{left_out}. The line goes through the means of each size, the band is their "
            f"{doc.NINETY_FIVE} interval. Points of one size are drawn a little apart."
        )
        yield _multiples("Throughput by file size", by_size, caption)
    if over_time:
        changes = " Dashed: changes of level, with their interval." if any(pair.changes for pair in found.pairs) else ""
        caption = f"Rates of transfers of all sizes, by when they began.{changes}"
        charts = (node for chart in over_time for node in (doc.Heading(chart.title, 4), chart))
        yield doc.Figure((doc.Heading("Throughput over time"), *charts), caption, "zooms")


def _multiples(title: str, charts: Iterable[doc.Chart], caption: str, *, zooms: bool = False) -> doc.Figure:
    return doc.Figure((doc.Heading(title), doc.Multiples(tuple(charts))), caption, "zooms" if zooms else "still")


def _steadiness(view: TransferView) -> Iterator[doc.Node]:
    found = view.findings
    if found.pairs:
        yield doc.Heading("Steadiness")
        yield tables.pairs_table(view)
        yield from _changes(found, view.stand_ins)
        for pair in found.pairs:
            if pair.changes_reason:
                said = f"Changes of level of {view.name(pair)} are not looked for: {pair.changes_reason}."
                yield doc.Sentence(said, "note")
        yield tables.variance_table(view)
    for each in found.sandboxes:
        yield doc.Sentence(words.describe_sandboxes(each, view.stand_ins), "note", {"sandboxes": each.platform})


def _within(view: TransferView) -> Iterator[doc.Node]:
    if hours := [*figures.hour_figures(view)]:
        caption = (
            "The level of each hour (UTC): the geometric mean of its transfers' rates, each over that of its cell, so "
            "that sizes that happen to be drawn do not matter; 1 is what is usual. Of twenty levels the one that lies "
            "furthest off may lie beyond the colours' ends. Empty: no transfer began there."
        )
        yield _multiples("By hour and weekday", hours, caption)
    if curves := [*figures.curve_figures(view)]:
        caption = (
            "Empirical distribution of transfer times, a curve for each file size; the number on it is its size in "
            "MiB. Of many transfers, a level stretch within a curve is a gap between two modes."
        )
        yield _multiples("Transfer times by size", curves, caption, zooms=True)
    if progress := [*figures.progress_figures(view)]:
        caption = (
            "How many MiB of the file were there after how long, of the fastest, the median and the slowest transfer "
            "of one size, and of one that stalled and is none of these, if there was any. A long level stretch is a "
            "stall."
        )
        yield _multiples("Within a transfer", progress, caption, zooms=True)
    if judged := [cell for cell in read_cells(view.findings) if cell.stalls.judged]:
        cells = digits.counted(len(judged), "cell")
        yield doc.Fold(f"First byte, steady rate and stalls of {cells}", (tables.stalls_table(view, judged),))


def _ending(view: TransferView) -> Iterator[doc.Node]:
    yield doc.Heading("What became of all reads")
    yield doc.Fold(words.describe_accounting(view.findings.accounting), (tables.reads_table(view),))
    terms = tuple(
        doc.Term(
            CAVEATS[kind][0],
            (doc.Sentence((f"{CAVEATS[kind][1]} ", doc.Span(CAVEATS[kind][2], "remedy"))),),
            {"kind": kind},
        )
        for kind in dict.fromkeys(kind for cell in read_cells(view.findings) for kind in cell.caveats)
    )
    if terms:
        parts = (doc.Heading("Caveats of these numbers"), doc.Terms(terms))
        yield doc.Group(f"transfer-caveats-{view.anchor}", parts, "transfer-caveats")
