"""The tables that a report has of transfers: rates by cell, published numbers, steadiness, variance, stalls, reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measures import Estimate
from stepbench.experiments.transfer import words
from stepbench.experiments.transfer.words import CAVEATS, pair_name, read_cells
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.transfer.result import ScoredTransfer, TransferCell, TransferFindings
    from stepbench.experiments.transfer.words import TransferView

ANSWERED_MIB = 500
"""The answers are about files of this size, or the next smaller one."""


def cells_table(found: TransferFindings, stand_ins: Mapping[str, str], anchor: str) -> doc.Table:
    """Return the rates by source, platform and file size; `anchor` is unique on the page."""
    caption = (
        f"Rates of whole transfers by source, platform and file size, with {doc.NINETY_FIVE} intervals. A rate is all "
        "bytes of the file over the time from its request (EFS: its first read) to its last byte."
    )
    columns = doc.columns(
        *("File", doc.more("n"), "Mean", doc.more("Median"), doc.more("p5"), doc.more("p95"), "Slowest / fastest"),
        *(doc.more("Variation", outputs=doc.PAGE), doc.Column("Median time", outputs=doc.PAGE)),
        *(doc.words("Modes, MiB/s", "more wide"), doc.words("Caveats", "caveat-cell", outputs=doc.PAGE)),
    )
    cells = read_cells(found)
    first = _phone_sizes(cells)
    bodies = (
        doc.Body(
            tuple(
                _cell(cell, anchor, on_phone=cell.file_size_mib in first)
                for cell in cells
                if (cell.platform, cell.source) == (pair.platform, pair.source)
            ),
            (f"{pair_name(pair, stand_ins)} ", doc.Span(digits.counted(pair.n, "transfer"), "note")),
        )
        for pair in found.pairs
    )
    return doc.Table(
        f"cells-{anchor}", caption, columns, tuple(bodies), "reference cards headline", phone=True, whose="transfers"
    )


def _phone_sizes(cells: Sequence[TransferCell]) -> frozenset[int]:
    """Return the sizes that a phone shows first: the smallest, the middle one, and that of the answers."""
    sizes = sorted({cell.file_size_mib for cell in cells})
    answered = max((size for size in sizes if size <= ANSWERED_MIB), default=sizes[0])
    return frozenset({sizes[0], sizes[len(sizes) // 2], answered})


def _cell(cell: TransferCell, anchor: str, *, on_phone: bool) -> doc.Row:
    failed = f"{cell.failed} failed, {cell.unknown} unknown" if cell.failed or cell.unknown else ""
    size = f"{digits.count(cell.file_size_mib)} MiB"
    modes: doc.Data = {"metric": "modes", "value": len(cell.modes.modes) if cell.modes.found else 1}
    links = (
        doc.Span(CAVEATS[kind][0], "caveat", f"#transfer-caveats-{anchor}", CAVEATS[kind][1]) for kind in cell.caveats
    )
    cells = (
        numbers.number("n", cell.n),
        numbers.estimate("mean_mib_per_s", cell.mean_mib_per_s, "mib_per_s"),
        numbers.estimate("median_mib_per_s", cell.median_mib_per_s, "mib_per_s"),
        numbers.estimate("p5_mib_per_s", cell.p5_mib_per_s, "mib_per_s"),
        numbers.estimate("p95_mib_per_s", cell.p95_mib_per_s, "mib_per_s"),
        _extremes(cell.slowest_over_fastest, cell.fastest_s, cell.slowest_s),
        numbers.value("variation", cell.variation, digits.percent(cell.variation)),
        numbers.estimate("p50_ms", cell.p50_s.over(0.001)),
        doc.Cell(words.format_modes(cell.modes), modes, title=cell.modes.reason or ""),
        doc.Cell(doc.joined(links, " ") if cell.caveats else doc.Span("none", "note")),
    )
    data: doc.Data = {"platform": cell.platform, "source": cell.source, "mib": cell.file_size_mib}
    first = doc.Cell(
        (size, (" ", doc.Span(failed, "note")) if failed else ""), line=f"{size} ({failed})" if failed else size
    )
    return doc.Row(first, cells, data, "kept" if on_phone else "more")


def _extremes(ratio: float | None, fastest_s: float | None = None, slowest_s: float | None = None) -> doc.Cell:
    """Return how far apart the slowest and the fastest lie."""
    times = digits.NONE if ratio is None else f"{digits.rounded(ratio)} {digits.TIMES.name}"
    known = ratio is not None and fastest_s is not None and slowest_s is not None
    ends = f"{digits.latency(1000 * (fastest_s or 0))} to {digits.latency(1000 * (slowest_s or 0))}"
    data: doc.Data = {"metric": "slowest_over_fastest", "value": ratio}
    return doc.Cell((times, doc.Span(ends, "interval") if known else ""), data, line=times)


def trials_table(views: Sequence[TransferView]) -> doc.Table:
    """Return the mean rates of several trials side by side: what more transfers at once, or more connections, make."""
    caption = f"Mean rates of several trials side by side, with {doc.NINETY_FIVE} intervals: a row for each cell."
    cells = [{(each.platform, each.source, each.file_size_mib): each for each in view.findings.cells} for view in views]
    names = {key: pair_name(cell, views[0].stand_ins) for of_trial in cells for key, cell in of_trial.items()}
    rows = (
        doc.Row(
            doc.Cell(f"{name}, {digits.count(key[2])} MiB"),
            tuple(
                numbers.estimate(
                    "mean_mib_per_s", cell.mean_mib_per_s if (cell := found.get(key)) else None, "mib_per_s"
                )
                for found in cells
            ),
            {"platform": key[0], "source": key[1], "mib": key[2]},
        )
        for key, name in names.items()
    )
    columns = doc.columns("Cell", *(view.label for view in views))
    return doc.Table("transfers-side-by-side", caption, columns, doc.body(rows), phone=True)


def published_table(published: Iterable[ScoredTransfer], stand_ins: Mapping[str, str], anchor: str) -> doc.Table:
    """Return published numbers beside ours."""
    stood_in = " What stood in for AWS's services replicates no number of theirs."
    caption = (
        "Published numbers beside ours. A ratio is ours over the published number; its interval is that of ours alone."
        f"{stood_in if stand_ins else ''}"
    )
    columns = doc.columns("Number", "Published", "Ours", "Ratio", doc.words("Source", "wide"))
    rows = (_published(each, stand_ins) for each in published)
    return doc.Table(f"published-{anchor}", caption, columns, doc.body(rows))


def _published(scored: ScoredTransfer, stand_ins: Mapping[str, str]) -> doc.Row:
    """Return a published number beside ours, if that was measured."""
    published, unit = scored.published, scored.published.unit
    over = f" over {words.name_of(published.over_source, stand_ins)}" if published.over_source else ""
    size = "all sizes" if published.file_size_mib is None else f"{digits.count(published.file_size_mib)} MiB"
    label = f"{pair_name(published, stand_ins)}, {size}, {words.PUBLISHED[published.metric]}{over}"
    note = doc.Span(published.note, "note")
    cells = (
        doc.Cell(str(digits.shown(Estimate(value=published.value), numbers.UNITS[unit])), {"value": published.value}),
        numbers.estimate("ours", scored.ours, unit),
        numbers.estimate("ratio", scored.ratio if scored.ours.value is not None else None, "ratio"),
        doc.Cell((f"{published.citation}. ", note) if published.note else published.citation),
    )
    return doc.Row(doc.Cell(label), cells, {"metric": published.metric})


def pairs_table(view: TransferView) -> doc.Table:
    """Return what all sizes of a source and a platform show together."""
    caption = (
        "What all sizes show together. Whatever is called found would be found in no more than one report of twenty "
        "where there is nothing. Slowest over fastest is the mean over sizes."
    )
    shown = (doc.words("Modes", "wide"), doc.words("Size", "wide"))
    folded = (doc.words("Hour", "wide more"), doc.words("Weekday", "wide more"))
    columns = doc.columns("Transfers", "Slowest / fastest", *shown, *folded)
    rows = (
        doc.Row(
            doc.Cell(view.name(pair)),
            (
                _extremes(pair.slowest_over_fastest),
                doc.Cell(words.describe_modes(pair.modes)),
                doc.Cell(words.describe_plateau(pair.plateau)),
                doc.Cell(words.describe_hours(pair.hours)),
                doc.Cell(words.describe_weekdays(pair.weekdays)),
            ),
            {"platform": pair.platform, "source": pair.source},
        )
        for pair in view.findings.pairs
    )
    return doc.Table(f"pairs-{view.anchor}", caption, columns, doc.body(rows), phone=True)


def variance_table(view: TransferView) -> doc.Table:
    """Return what makes rates differ."""
    below = "; below the table stands what the two reads of one have in common" if view.findings.sandboxes else ""
    caption = (
        "What makes rates differ: shares of the variance of their logarithms. Where each sandbox made one transfer "
        f"only, what it makes is in the rest{below}."
    )
    columns = doc.columns("Transfers", doc.more("Sandbox"), "Hour", "Size", doc.more("Rest"))
    names = ("sandbox", "hour", "size", "rest")
    rows = (
        doc.Row(
            doc.Cell(view.name(pair)),
            tuple(numbers.estimate(f"variance.{name}", getattr(pair.variance, name), "share") for name in names),
            {"platform": pair.platform, "source": pair.source},
        )
        for pair in view.findings.pairs
    )
    return doc.Table(f"variance-{view.anchor}", caption, columns, doc.body(rows), phone=True)


def stalls_table(view: TransferView, judged: Sequence[TransferCell]) -> doc.Table:
    """Return how transfers went on, in cells in which that is known."""
    caption = (
        "Within transfers: when the first byte was there, at which rate the rest came, and which stood still. CPU: "
        "median of the process's CPU time over the transfer's."
    )
    headings = ("First byte, p50", "First byte, p95", "Steady rate", "CPU")
    columns = doc.columns("Cell", *headings, doc.words("Stalled", "wide"))
    return doc.Table(f"stalls-{view.anchor}", caption, columns, doc.body(_stalls(view, cell) for cell in judged))


def _stalls(view: TransferView, cell: TransferCell) -> doc.Row:
    cells = (
        numbers.estimate("first_byte_p50_ms", cell.first_byte_p50_ms),
        numbers.estimate("first_byte_p95_ms", cell.first_byte_p95_ms),
        numbers.estimate("steady_mib_per_s", cell.steady_mib_per_s, "mib_per_s"),
        numbers.value("cpu_share", cell.cpu_share, digits.percent(cell.cpu_share)),
        numbers.value("stalled", cell.stalls.transfers, words.describe_stalls(cell.stalls)),
    )
    data: doc.Data = {"platform": cell.platform, "source": cell.source, "mib": cell.file_size_mib}
    return doc.Row(doc.Cell(f"{view.name(cell)}, {digits.count(cell.file_size_mib)} MiB"), cells, data)


def reads_table(view: TransferView) -> doc.Table:
    """Return what became of all reads."""
    caption = (
        "offered = ok + failed + unknown + missing; rows = ok + failed + unknown = cold + warm + unknown. Rates are "
        "of the ok ones only."
    )
    columns = doc.columns("Reads", "Number")
    return doc.Table(f"reads-{view.anchor}", caption, columns, doc.body(_reads(view.findings)), "reference narrow")


def _reads(found: TransferFindings) -> Iterator[doc.Row]:
    for title, field, count, depth in words.accounting_rows(found.accounting):
        yield doc.Row(doc.Cell(title), (numbers.number(f"accounting.{field}", count),), style=f"depth-{depth}")
    for error, count in found.accounting.errors.items():
        name = ("error ", doc.Span(error, "code"))
        yield doc.Row(doc.Cell(name), (numbers.number("errors", count),), {"error": error}, "depth-1")
