"""What a report says of operations: how fast the store answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measure import QUANTILES
from stepbench.experiments.operations.report import words
from stepbench.experiments.operations.report.percentiles import (
    format_percentile,
    percentile_figures,
    percentile_levels,
    percentile_sources,
    percentile_tables,
    published_percentiles,
)
from stepbench.experiments.operations.report.scaling import scaling_figures, scaling_nodes, scaling_sentences
from stepbench.report.document import (
    EVERYWHERE,
    NINETY_FIVE,
    Body,
    Cell,
    Chart,
    Column,
    Figure,
    Fold,
    Heading,
    Row,
    Section,
    Sentence,
    Span,
    Table,
    badges,
    estimate,
    harm,
    minus,
    number,
    of_window,
)
from stepbench.report.figures import Drawing
from stepbench.report.windows import CAVEATS, COUNT, PROVIDER, Field, off_page, quantile, window_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import KindResult, OperationsResult, PercentileRow, Replication, WindowResult
    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.operations.report.percentiles import PercentileFigure
    from stepbench.report.document import Data, Node, Text
    from stepbench.report.labels import WindowRow
    from stepbench.report.run import RunView

QUESTION = "How fast is the store?"
LEADS = False
describe_window = words.describe_operations
_QUANTILES = {name: "p99.9" if name == "p999" else name for name in QUANTILES}
FEW_WINDOWS = 4
"""Kinds of operations of so many windows at most are not folded."""


def headline(summary: RunSummary) -> Table | None:
    """Return the table of all windows."""
    more = (
        "Throughput is what was answered with success. Failed: the store said no or had no such record, or the "
        "operation was never sent. Unknown: no answer."
    )
    caption = (
        (
            "Operation latency (service time, from the operation's send, t1, to its answer, t2) with "
            f"{NINETY_FIVE} intervals. "
        ),
        Span(more, "more"),
    )
    heads = (Column("Store", number=False, short="trial"),)
    table = Table("operations-headline", caption, heads, (), "cards headline", phone=True)
    return window_table(table, summary, "operations", _FIELDS)


def _clients(row: WindowRow) -> Cell:
    clients = row.window.operations.clients if row.window.operations else None
    offered = Span(f"{digits.rate(row.window.offered_per_s)}/s offered", "interval")
    return Cell(digits.count(clients) if clients else (digits.NONE, offered), {"metric": "clients", "value": clients})


def _throughput(row: WindowRow) -> Cell:
    per_s = row.window.throughput_per_s
    return Cell(words.format_throughput(per_s), {"metric": "throughput_per_s", "value": per_s})


def _outcome(name: str) -> Field:
    def count(row: WindowRow) -> Cell:
        kinds = row.window.operations.kinds if row.window.operations else ()
        return harm(name, sum(getattr(kind, name) for kind in kinds), "more")

    return Field(Column(name.capitalize()), count)


_FIELDS = (
    PROVIDER,
    off_page(COUNT),
    Field(Column("Clients", style="more"), _clients),
    Field(Column("Throughput", short="throughput", outputs=EVERYWHERE), _throughput),
    *map(quantile, ("p50", "p90")),
    off_page(quantile("p95")),
    quantile("p99"),
    quantile("p999", "p99.9")._replace(column=Column("p99.9", style="more")),
    _outcome("failed"),
    _outcome("unknown"),
    CAVEATS,
)


def answers(run: RunView) -> Iterator[Node]:
    """Yield where more clients stop helping."""
    if run.summary.scaling:
        yield scaling_sentences(scaling_figures(run.summary))


def brief(summary: RunSummary) -> Iterator[Node]:  # noqa: ARG001 -- of the protocol
    """Yield nothing that Markdown has beside the headline."""
    yield from ()


def sections(run: RunView) -> Iterator[Section]:
    """Yield the section on percentiles, kinds, connections, and clients."""
    if not run.answered:
        return
    measured = [row for row in run.rows if row.window.operations]
    nodes = [_figure(place, figure) for place, figure in enumerate(percentile_figures(run.results))]
    nodes += [*_tables(measured, emulated=run.manifest.emulated)] if measured else []
    nodes += scaling_nodes(scaling_figures(run.summary)) if run.summary.scaling else ()
    nothing = () if measured else (Sentence("No operations were measured."),)
    yield Section("operations", "Operations", (*nothing, *nodes), link="Operations")


def _figure(place: int, figure: PercentileFigure) -> Node:
    legend, work = figure.legend, figure.work
    data = {"percentiles": figure.percentiles, "percentiles-names": legend.names}
    chart = "percentiles-runs" if legend.repeated else "percentiles"
    drawing = Drawing(f"percentiles-{place}", chart, data, legend.params, experiment="operations")
    described = f"Service time by percentile for {f'{work}: ' if work else ''}{legend.text}"
    caption = (
        "Operation latency (service time) by "
        f"percentile{f' of {work}' if work else ''}.{'' if work else legend.common_words}{legend.line_words} Each "
        "further nine takes the same room, so the tail can be read; a curve ends with its slowest operation."
    )
    summary = f"Service time by percentile of {work or legend.some}"
    return Fold(summary, (Figure((Chart(drawing, described),), caption, "still"),), plain=place == 0)


def _tables(measured: Sequence[WindowRow], *, emulated: bool) -> Iterator[Node]:
    few = len(measured) <= FEW_WINDOWS
    yield Fold("Each kind of operation in each window", (_kinds_table(measured),), plain=few)
    notes: tuple[Node, ...] = ()
    if sources := percentile_sources(measured):
        machine = " None of the ratios replicates a number of AWS's: this run was made on one machine."
        text = f"Published percentiles and counts: {'; '.join(sources)}.{machine if emulated else ''}"
        notes = (Sentence(text, "note"),)
    yield Fold("Service time by percentile, with counts", (_percentile_table(measured), *notes))
    if connecting := [row for row in measured if row.window.operations and row.window.operations.connecting]:
        yield Heading("A connection for each operation", name="connections")
        yield Fold("What connecting takes of it, in a table", (_connecting_table(connecting),))


def _kinds_table(measured: Sequence[WindowRow]) -> Table:
    caption = (
        f"Operations by kind. Service time: {minus('t2', 't1')}. Response time: {minus('t2', 't0')}, from when the "
        "operation was due; in a closed loop that is when its client was free. Latencies are of those that were "
        "answered with success."
    )
    headings = ("ok", "failed", "unknown", "Throughput", *_QUANTILES.values())
    columns = (Column("Kind", number=False), *map(Column, headings))
    return Table("kinds", caption, columns, tuple(map(_kinds, measured)), "reference")


def _kinds(row: WindowRow) -> Body:
    window, found = row.window, row.window.operations
    kinds = found.kinds if found else ()
    rows = tuple(each for kind in kinds for each in _kind_rows(window, kind))
    note = Span(tuple(_work(window, found)), "note") if found else ""
    return Body(rows, (row.label, badges(row.trial), " ", note), of_window(row))


def _work(window: WindowResult, found: OperationsResult) -> Iterator[Text]:
    if found.clients:
        yield f"{digits.counted(found.clients, 'client')} in a closed loop"
    else:
        yield f"{digits.rate(window.offered_per_s)}/s offered"
    if found.wall_s:
        yield "; "
        yield Span(words.format_wall(found), data={"metric": "wall_s", "value": found.wall_s})
    if found.retries:
        yield f"; retries after conflicts: {digits.count(found.retries)}"
    if window.errors:
        yield f"; {', '.join(f'{code}: {digits.count(number)}' for code, number in window.errors.items())}"


def _kind_rows(window: WindowResult, kind: KindResult) -> Iterator[Row]:
    per_s = words.kind_per_s(window, kind)
    cells = (
        number("ok", kind.ok),
        harm("failed", kind.failed),
        harm("unknown", kind.unknown),
        Cell(words.format_throughput(per_s), {"metric": "per_s", "value": per_s}),
        *(estimate(f"service_ms.{name}", getattr(kind.service_ms, name)) for name in _QUANTILES),
    )
    served = (f"{words.format_kind(kind)} ", Span(f"t2 {digits.MINUS} t1", "formula"))
    yield Row(Cell(served), cells, {"kind": kind.kind})
    responded = ("response ", Span(f"t2 {digits.MINUS} t0", "formula"))
    cells = (
        Cell(span=4),
        *(Cell() for _ in range(3)),
        *(estimate(f"response_ms.{name}", getattr(kind.response_ms, name)) for name in _QUANTILES),
    )
    yield Row(Cell(responded, style="sub"), cells, {"kind": kind.kind, "response": True})


def _percentile_table(measured: Sequence[WindowRow]) -> Table:
    levels = percentile_levels(measured)
    caption = (
        "Service time by percentile, and how many operations took at most so long. Each column halves what is left to "
        f"100{digits.NBSP}%, or more. A dash: no operation came so far."
    )
    columns = (Column("Operations", number=False), *(Column(format_percentile(level)) for level in levels))
    bodies = (
        Body(tuple(_percentile_rows(row, levels)), (row.label, badges(row.trial)), of_window(row)) for row in measured
    )
    return Table("percentile-table", caption, columns, tuple(bodies), "reference")


def _percentile_rows(row: WindowRow, levels: Sequence[float]) -> Iterator[Row]:
    for name, table in percentile_tables(row):
        cells = [*map(_percentile, table), *(Cell(digits.NONE) for _ in range(len(levels) - len(table)))]
        yield Row(Cell(name), tuple(cells), {"kind": name})
    published = published_percentiles(row)
    if published:
        found = [published.get(level) for level in levels]
        cells = [_published(level, each) for level, each in zip(levels, found, strict=True)]
        yield Row(Cell("published", style="sub"), tuple(cells), {"kind": "published"})
        ratios = tuple(estimate("ratio", each.ratio if each else None, "ratio") for each in found)
        yield Row(Cell("ours over it", style="sub"), ratios, {"kind": "ratio"})


def _percentile(each: PercentileRow) -> Cell:
    known = each.value_ms is not None
    data: Data = {"metric": "percentile", "percentile": each.percentile, "value": each.value_ms, "unit": "ms"}
    count = Span(digits.count(each.count), "interval") if known else ""
    return Cell((Span(digits.latency(each.value_ms), "value"), count), {**data, "count": each.count if known else None})


def _published(level: float, each: Replication | None) -> Cell:
    if each is None:
        return Cell(digits.NONE)
    data: Data = {"metric": "published", "percentile": level, "value": each.published, "count": each.published_count}
    count = Span(digits.count(each.published_count), "interval")
    return Cell((Span(digits.latency(each.published), "value"), count), {**data, "unit": "ms"})


def _connecting_table(measured: Sequence[WindowRow]) -> Table:
    caption = (
        "What the service time of operations without connection reuse is made of. Share: of all their service times "
        "together."
    )
    columns = (Column("Part", number=False), *map(Column, ("Share", "p50")), Column("p90", style="more"), Column("p99"))
    return Table("connecting", caption, columns, tuple(map(_connecting, measured)), phone=True)


def _connecting(row: WindowRow) -> Body:
    found = row.window.operations.connecting if row.window.operations else None
    parts = words.connecting_parts(found) if found else ()
    share = words.format_part_share(found.unaccounted_share if found else None)
    note = Span(f"{share} in none of the parts", "note")
    rows = (
        Row(
            Cell(part.name),
            (
                Cell(words.format_part_share(part.share), {"metric": "share", "value": part.share}),
                *(estimate(f"part_ms.{name}", getattr(part.latency, name)) for name in ("p50", "p90", "p99")),
            ),
            {"part": part.name},
        )
        for part in parts
    )
    return Body(tuple(rows), (row.label, badges(row.trial), " ", note), of_window(row))
