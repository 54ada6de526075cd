"""What a report says of operations: how fast the store answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import QUANTILES
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
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.figures import Drawing
from stepbench.report.windows import CAVEATS, COUNT, PROVIDER, Field, off_page, quantile, window_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.findings import Replication
    from stepbench.contracts.measures import KindResult, OperationsResult, PercentileRow, WindowResult
    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.operations.report.percentiles import PercentileFigure
    from stepbench.report.run import RunView, WindowRow

QUESTION = "How fast is the store?"
LEADS = False
describe_window = words.describe_operations
_QUANTILES = {name: "p99.9" if name == "p999" else name for name in QUANTILES}
FEW_WINDOWS = 4
"""Kinds of operations of so many windows at most are not folded."""


def headline(summary: RunSummary) -> doc.Table | None:
    """Return the table of all windows."""
    more = (
        "Throughput is what was answered with success. Failed: the store said no or had no such record, or the "
        "operation was never sent. Unknown: no answer."
    )
    caption = (
        (
            "Operation latency (service time, from the operation's send, t1, to its answer, t2) with "
            f"{doc.NINETY_FIVE} intervals. "
        ),
        doc.Span(more, "more"),
    )
    heads = doc.columns("Store", short="trial")
    table = doc.Table("operations-headline", caption, heads, (), "cards headline", phone=True)
    return window_table(table, summary, "operations", _FIELDS)


def _clients(row: WindowRow) -> doc.Cell:
    clients = row.window.operations.clients if row.window.operations else None
    offered = doc.Span(f"{digits.rate(row.window.offered_per_s)}/s offered", "interval")
    return numbers.value("clients", clients, digits.count(clients) if clients else (digits.NONE, offered))


def _throughput(row: WindowRow) -> doc.Cell:
    per_s = row.window.throughput_per_s
    return numbers.value("throughput_per_s", per_s, words.format_throughput(per_s))


def _outcome(name: str) -> Field:
    def count(row: WindowRow) -> doc.Cell:
        kinds = row.window.operations.kinds if row.window.operations else ()
        return numbers.harm(name, sum(getattr(kind, name) for kind in kinds), "more")

    return Field(doc.Column(name.capitalize(), outputs=doc.PAGE), count)


_FIELDS = (
    PROVIDER,
    off_page(COUNT),
    Field(doc.more("Clients", outputs=doc.PAGE), _clients),
    Field(doc.Column("Throughput"), _throughput),
    *map(quantile, ("p50", "p90")),
    off_page(quantile("p95")),
    quantile("p99"),
    quantile("p999", "p99.9")._replace(column=doc.more("p99.9", outputs=doc.PAGE)),
    _outcome("failed"),
    _outcome("unknown"),
    CAVEATS,
)


def answers(run: RunView) -> Iterator[doc.Node]:
    """Yield where more clients stop helping."""
    if run.summary.scaling:
        yield scaling_sentences(scaling_figures(run.summary))


def brief(summary: RunSummary) -> Iterator[doc.Node]:  # noqa: ARG001 -- of the protocol
    """Yield nothing that Markdown has beside the headline."""
    yield from ()


def sections(run: RunView) -> Iterator[doc.Section]:
    """Yield the section on percentiles, kinds, connections, and clients."""
    if not run.answered:
        return
    measured = [row for row in run.rows if row.window.operations]
    nodes = [_figure(place, figure) for place, figure in enumerate(percentile_figures(run.results))]
    nodes += [*_tables(measured, emulated=run.manifest.emulated)] if measured else []
    nodes += scaling_nodes(scaling_figures(run.summary)) if run.summary.scaling else ()
    nothing = () if measured else (doc.Sentence("No operations were measured."),)
    yield doc.Section("operations", "Operations", (*nothing, *nodes), link="Operations")


def _figure(place: int, figure: PercentileFigure) -> doc.Node:
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
    return doc.Fold(summary, (doc.Figure((doc.Chart(drawing, described),), caption, "still"),), plain=place == 0)


def _tables(measured: Sequence[WindowRow], *, emulated: bool) -> Iterator[doc.Node]:
    few = len(measured) <= FEW_WINDOWS
    yield doc.Fold("Each kind of operation in each window", (_kinds_table(measured),), plain=few)
    notes: tuple[doc.Node, ...] = ()
    if sources := percentile_sources(measured):
        machine = " None of the ratios replicates a number of AWS's: this run was made on one machine."
        text = f"Published percentiles and counts: {'; '.join(sources)}.{machine if emulated else ''}"
        notes = (doc.Sentence(text, "note"),)
    yield doc.Fold("Service time by percentile, with counts", (_percentile_table(measured), *notes))
    if connecting := [row for row in measured if row.window.operations and row.window.operations.connecting]:
        yield doc.Heading("A connection for each operation", name="connections")
        yield doc.Fold("What connecting takes of it, in a table", (_connecting_table(connecting),))


def _kinds_table(measured: Sequence[WindowRow]) -> doc.Table:
    caption = (
        f"Operations by kind. Service time: {doc.minus('t2', 't1')}. Response time: {doc.minus('t2', 't0')}, from when "
        "the operation was due; in a closed loop that is when its client was free. Latencies are of those that were "
        "answered with success."
    )
    headings = ("ok", "failed", "unknown", "Throughput", *_QUANTILES.values())
    columns = doc.columns("Kind", *headings)
    return doc.Table("kinds", caption, columns, tuple(map(_kinds, measured)), "reference")


def _kinds(row: WindowRow) -> doc.Body:
    window, found = row.window, row.window.operations
    kinds = found.kinds if found else ()
    rows = tuple(each for kind in kinds for each in _kind_rows(window, kind))
    note = doc.Span(tuple(_work(window, found)), "note") if found else ""
    return doc.Body(rows, (row.label, doc.badges(row.trial), " ", note), doc.of_window(row))


def _work(window: WindowResult, found: OperationsResult) -> Iterator[doc.Text]:
    if found.clients:
        yield f"{digits.counted(found.clients, 'client')} in a closed loop"
    else:
        yield f"{digits.rate(window.offered_per_s)}/s offered"
    if found.wall_s:
        yield "; "
        yield doc.Span(words.format_wall(found), data={"metric": "wall_s", "value": found.wall_s})
    if found.retries:
        yield f"; retries after conflicts: {digits.count(found.retries)}"
    if window.errors:
        yield f"; {', '.join(f'{code}: {digits.count(number)}' for code, number in window.errors.items())}"


def _kind_rows(window: WindowResult, kind: KindResult) -> Iterator[doc.Row]:
    per_s = words.kind_per_s(window, kind)
    cells = (
        numbers.number("ok", kind.ok),
        numbers.harm("failed", kind.failed),
        numbers.harm("unknown", kind.unknown),
        numbers.value("per_s", per_s, words.format_throughput(per_s)),
        *(numbers.estimate(f"service_ms.{name}", getattr(kind.service_ms, name)) for name in _QUANTILES),
    )
    served = (f"{words.format_kind(kind)} ", doc.Span(f"t2 {digits.MINUS} t1", "formula"))
    yield doc.Row(doc.Cell(served), cells, {"kind": kind.kind})
    responded = ("response ", doc.Span(f"t2 {digits.MINUS} t0", "formula"))
    cells = (
        doc.Cell(span=4),
        *(doc.Cell() for _ in range(3)),
        *(numbers.estimate(f"response_ms.{name}", getattr(kind.response_ms, name)) for name in _QUANTILES),
    )
    yield doc.Row(doc.Cell(responded, style="sub"), cells, {"kind": kind.kind, "response": True})


def _percentile_table(measured: Sequence[WindowRow]) -> doc.Table:
    levels = percentile_levels(measured)
    caption = (
        "Service time by percentile, and how many operations took at most so long. Each column halves what is left to "
        f"100{digits.NBSP}%, or more. A dash: no operation came so far."
    )
    columns = doc.columns("Operations", *map(format_percentile, levels))
    bodies = (
        doc.Body(tuple(_percentile_rows(row, levels)), (row.label, doc.badges(row.trial)), doc.of_window(row))
        for row in measured
    )
    return doc.Table("percentile-table", caption, columns, tuple(bodies), "reference")


def _percentile_rows(row: WindowRow, levels: Sequence[float]) -> Iterator[doc.Row]:
    for name, table in percentile_tables(row):
        cells = [*map(_percentile, table), *(doc.Cell(digits.NONE) for _ in range(len(levels) - len(table)))]
        yield doc.Row(doc.Cell(name), tuple(cells), {"kind": name})
    published = published_percentiles(row)
    if published:
        found = [published.get(level) for level in levels]
        cells = [_published(level, each) for level, each in zip(levels, found, strict=True)]
        yield doc.Row(doc.Cell("published", style="sub"), tuple(cells), {"kind": "published"})
        ratios = tuple(numbers.estimate("ratio", each.ratio if each else None, "ratio") for each in found)
        yield doc.Row(doc.Cell("ours over it", style="sub"), ratios, {"kind": "ratio"})


def _percentile(each: PercentileRow) -> doc.Cell:
    known = each.value_ms is not None
    data: doc.Data = {"metric": "percentile", "percentile": each.percentile, "value": each.value_ms, "unit": "ms"}
    count = doc.Span(digits.count(each.count), "interval") if known else ""
    return doc.Cell(
        (doc.Span(digits.latency(each.value_ms), "value"), count), {**data, "count": each.count if known else None}
    )


def _published(level: float, each: Replication | None) -> doc.Cell:
    if each is None:
        return doc.Cell(digits.NONE)
    data: doc.Data = {
        "metric": "published",
        "percentile": level,
        "value": each.published,
        "count": each.published_count,
    }
    count = doc.Span(digits.count(each.published_count), "interval")
    return doc.Cell((doc.Span(digits.latency(each.published), "value"), count), {**data, "unit": "ms"})


def _connecting_table(measured: Sequence[WindowRow]) -> doc.Table:
    caption = (
        "What the service time of operations without connection reuse is made of. Share: of all their service times "
        "together."
    )
    columns = doc.columns("Part", "Share", "p50", doc.more("p90"), "p99")
    return doc.Table("connecting", caption, columns, tuple(map(_connecting, measured)), phone=True)


def _connecting(row: WindowRow) -> doc.Body:
    found = row.window.operations.connecting if row.window.operations else None
    parts = words.connecting_parts(found) if found else ()
    share = words.format_part_share(found.unaccounted_share if found else None)
    note = doc.Span(f"{share} in none of the parts", "note")
    rows = (
        doc.Row(
            doc.Cell(part.name),
            (
                numbers.value("share", part.share, words.format_part_share(part.share)),
                *(numbers.estimate(f"part_ms.{name}", getattr(part.latency, name)) for name in ("p50", "p90", "p99")),
            ),
            {"part": part.name},
        )
        for part in parts
    )
    return doc.Body(tuple(rows), (row.label, doc.badges(row.trial), " ", note), doc.of_window(row))
