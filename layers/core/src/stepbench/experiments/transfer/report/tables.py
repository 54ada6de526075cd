"""The tables that a report has of transfers: rates by cell, published numbers, steadiness, variance, stalls, reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.transfer.report import words
from stepbench.experiments.transfer.report.view import CAVEATS, pair_name, phone_sizes, read_cells
from stepbench.report.document import (
    NINETY_FIVE,
    NOT_ON_A_TERMINAL,
    Body,
    Cell,
    Column,
    Row,
    Span,
    Table,
    body,
    estimate,
    joined,
    number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.transfer.result import TransferCell, TransferFindings, TransferPair
    from stepbench.experiments.transfer.report.view import PublishedRow, TransferView
    from stepbench.report.document import Data


def cells_table(found: TransferFindings, stand_ins: Mapping[str, str], anchor: str) -> Table:
    """Return the rates by source, platform and file size; `anchor` is unique on the page."""
    caption = (
        f"Rates of whole transfers by source, platform and file size, with {NINETY_FIVE} intervals. A rate is all "
        "bytes of the file over the time from its request (EFS: its first read) to its last byte."
    )
    columns = (
        Column("File", number=False, short="file"),
        Column("n", style="more", outputs=NOT_ON_A_TERMINAL),
        Column("Mean", short="mean", outputs=NOT_ON_A_TERMINAL),
        Column("Median", style="more", short="median", outputs=NOT_ON_A_TERMINAL),
        Column("p5", style="more", outputs=NOT_ON_A_TERMINAL),
        Column("p95", style="more", outputs=NOT_ON_A_TERMINAL),
        Column("Slowest / fastest", short="slowest / fastest", outputs=NOT_ON_A_TERMINAL),
        Column("Variation", style="more"),
        Column("Median time"),
        Column("Modes, MiB/s", number=False, style="more wide", short="modes, MiB/s", outputs=NOT_ON_A_TERMINAL),
        Column("Caveats", number=False, style="caveat-cell"),
    )
    cells = read_cells(found)
    first = phone_sizes(cells)
    bodies = (
        Body(
            tuple(
                _cell(cell, anchor, on_phone=cell.file_size_mib in first)
                for cell in cells
                if (cell.platform, cell.source) == (pair.platform, pair.source)
            ),
            (f"{pair_name(pair, stand_ins)} ", Span(digits.counted(pair.n, "transfer"), "note")),
        )
        for pair in found.pairs
    )
    return Table(
        f"cells-{anchor}", caption, columns, tuple(bodies), "reference cards headline", phone=True, whose="transfers"
    )


def _cell(cell: TransferCell, anchor: str, *, on_phone: bool) -> Row:
    failed = f"{cell.failed} failed, {cell.unknown} unknown" if cell.failed or cell.unknown else ""
    size = f"{digits.count(cell.file_size_mib)} MiB"
    modes: Data = {"metric": "modes", "value": len(cell.modes.modes) if cell.modes.found else 1}
    links = (Span(CAVEATS[kind][0], "caveat", f"#transfer-caveats-{anchor}", CAVEATS[kind][1]) for kind in cell.caveats)
    cells = (
        number("n", cell.n),
        estimate("mean_mib_per_s", cell.mean_mib_per_s, "mib_per_s"),
        estimate("median_mib_per_s", cell.median_mib_per_s, "mib_per_s"),
        estimate("p5_mib_per_s", cell.p5_mib_per_s, "mib_per_s"),
        estimate("p95_mib_per_s", cell.p95_mib_per_s, "mib_per_s"),
        _extremes(cell.slowest_over_fastest, cell.fastest_s, cell.slowest_s),
        Cell(digits.percent(cell.variation), {"metric": "variation", "value": cell.variation}),
        estimate("p50_ms", cell.p50_s.over(0.001)),
        Cell(words.format_modes(cell.modes), modes, title=cell.modes.reason or ""),
        Cell(joined(links, " ") if cell.caveats else Span("none", "note")),
    )
    data: Data = {"platform": cell.platform, "source": cell.source, "mib": cell.file_size_mib}
    first = Cell((size, (" ", Span(failed, "note")) if failed else ""), line=f"{size} ({failed})" if failed else size)
    return Row(first, cells, data, "kept" if on_phone else "more")


def _extremes(ratio: float | None, fastest_s: float | None = None, slowest_s: float | None = None) -> Cell:
    """Return how far apart the slowest and the fastest lie."""
    times = digits.NONE if ratio is None else f"{digits.rounded(ratio)} {digits.TIMES.name}"
    known = fastest_s is not None and slowest_s is not None
    ends = f"{digits.latency(1000 * (fastest_s or 0))} to {digits.latency(1000 * (slowest_s or 0))}"
    data: Data = {"metric": "slowest_over_fastest", "value": ratio}
    return Cell((times, Span(ends, "interval") if known else ""), data, line=times)


def published_table(view: TransferView) -> Table:
    """Return published numbers beside ours."""
    stood_in = " What stood in for AWS's services replicates no number of theirs."
    caption = (
        "Published numbers beside ours. A ratio is ours over the published number; its interval is that of ours alone."
        f"{stood_in if view.stand_ins else ''}"
    )
    columns = (
        Column("Number", number=False),
        *map(Column, ("Published", "Ours", "Ratio")),
        Column("Source", number=False, style="wide"),
    )
    return Table(f"published-{view.anchor}", caption, columns, body(map(_published, view.published)))


def _published(row: PublishedRow) -> Row:
    published = row.published
    unit = "ratio" if published.metric == "slowest_over_fastest" else "mib_per_s"
    shown = f"{digits.rounded(published.value)} {digits.TIMES.name if unit == 'ratio' else 'MiB/s'}"
    cells = (
        Cell(shown, {"value": published.value}),
        estimate("ours", row.ours, unit) if row.ours else Cell("not measured"),
        estimate("ratio", row.ratio, "ratio"),
        Cell(published.citation),
    )
    return Row(Cell(row.label), cells, {"metric": published.metric})


def pairs_table(view: TransferView) -> Table:
    """Return what all sizes of a source and a platform show together."""
    caption = (
        "What all sizes show together. Whatever is called found would be found in no more than one report of twenty "
        "where there is nothing. Slowest over fastest is the mean over sizes."
    )
    columns = (
        Column("Transfers", number=False),
        Column("Slowest / fastest"),
        *(Column(heading, number=False, style="wide") for heading in ("Modes", "Size")),
        *(Column(heading, number=False, style="wide more") for heading in ("Hour", "Weekday")),
    )
    rows = (
        Row(
            Cell(view.name(pair)),
            (
                _extremes(pair.slowest_over_fastest),
                Cell(words.describe_modes(pair.modes)),
                Cell(words.describe_plateau(pair.plateau)),
                Cell(words.describe_hours(pair.hours)),
                Cell(words.describe_weekdays(pair.weekdays)),
            ),
            {"platform": pair.platform, "source": pair.source},
        )
        for pair in view.findings.pairs
    )
    return Table(f"pairs-{view.anchor}", caption, columns, body(rows), phone=True)


def variance_table(view: TransferView) -> Table:
    """Return what makes rates differ."""
    below = "; below the table stands what the two reads of one have in common" if view.findings.sandboxes else ""
    caption = (
        "What makes rates differ: shares of the variance of their logarithms. Where each sandbox made one transfer "
        f"only, what it makes is in the rest{below}."
    )
    columns = (
        Column("Transfers", number=False),
        *(
            Column(name, style="more" if name in {"Sandbox", "Rest"} else "")
            for name in ("Sandbox", "Hour", "Size", "Rest")
        ),
    )
    return Table(
        f"variance-{view.anchor}",
        caption,
        columns,
        body(_variance(view, pair) for pair in view.findings.pairs),
        phone=True,
    )


def _variance(view: TransferView, pair: TransferPair) -> Row:
    cells = (estimate(f"variance.{name}", share, "share") for name, share in words.shares_of(pair))
    return Row(Cell(view.name(pair)), tuple(cells), {"platform": pair.platform, "source": pair.source})


def stalls_table(view: TransferView) -> Table:
    """Return how transfers went on."""
    caption = (
        "Within transfers: when the first byte was there, at which rate the rest came, and which stood still. CPU: "
        "median of the process's CPU time over the transfer's."
    )
    columns = (
        Column("Cell", number=False),
        *map(Column, ("First byte, p50", "First byte, p95", "Steady rate", "CPU")),
        Column("Stalled", number=False, style="wide"),
    )
    return Table(f"stalls-{view.anchor}", caption, columns, body(_stalls(view, cell) for cell in view.stalled))


def _stalls(view: TransferView, cell: TransferCell) -> Row:
    cells = (
        estimate("first_byte_p50_ms", cell.first_byte_p50_ms),
        estimate("first_byte_p95_ms", cell.first_byte_p95_ms),
        estimate("steady_mib_per_s", cell.steady_mib_per_s, "mib_per_s"),
        Cell(digits.percent(cell.cpu_share), {"metric": "cpu_share", "value": cell.cpu_share}),
        Cell(words.describe_stalls(cell.stalls), {"metric": "stalled", "value": cell.stalls.transfers}),
    )
    data: Data = {"platform": cell.platform, "source": cell.source, "mib": cell.file_size_mib}
    return Row(Cell(f"{view.name(cell)}, {digits.count(cell.file_size_mib)} MiB"), cells, data)


def reads_table(view: TransferView) -> Table:
    """Return what became of all reads."""
    caption = (
        "offered = ok + failed + unknown + missing; rows = ok + failed + unknown = cold + warm + not told. Rates are "
        "of the ok ones only."
    )
    columns = (Column("Reads", number=False), Column("Number"))
    return Table(f"reads-{view.anchor}", caption, columns, body(_reads(view.findings)), "reference narrow")


def _reads(found: TransferFindings) -> Iterator[Row]:
    for title, field, count, depth in words.accounting_rows(found.accounting):
        yield Row(Cell(title), (number(f"accounting.{field}", count),), style=f"depth-{depth}")
    for error, count in found.accounting.errors.items():
        name = ("error ", Span(error, "code"))
        yield Row(Cell(name), (number("errors", count),), {"error": error}, "depth-1")
