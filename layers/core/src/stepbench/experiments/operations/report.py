"""What a report says of operations: how fast the store answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.experiment import QUANTILES
from stepbench.experiments.operations.invocations_table import describe_invocations, invocations_table
from stepbench.experiments.operations.percentiles import format_kind, percentile_figures, percentile_nodes
from stepbench.experiments.operations.scaling_figures import scaling_figures, scaling_nodes, scaling_sentences
from stepbench.experiments.protocol import nothing
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.figures import Drawing
from stepbench.report.numbers import CAVEATS, COUNT, PROVIDER, Field, off_page, quantile, window_table
from stepbench.report.run import describe_latency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import ConnectingResult, KindResult, Latency, OperationsResult, WindowResult
    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.operations.percentiles import PercentileFigure
    from stepbench.report.run import RunView, WindowRow

QUESTION = "How fast is the store?"
LEADS = False
brief = nothing
_QUANTILES = {name: "p99.9" if name == "p999" else name for name in QUANTILES}
FEW_WINDOWS = 4
"""Kinds of operations of so many windows at most are not folded."""


class ConnectingPart(NamedTuple):
    """It is a part of operations that make their own connections; `share` of their service time, from 0 to 1."""

    name: str
    latency: Latency
    share: float | None


def describe_window(row: WindowRow) -> str:
    """Answer for one window of operations: how long, how many a second, how many came to nothing."""
    window, found = row.window, row.window.operations
    clients = f" with {digits.counted(found.clients, 'client')}" if found and found.clients else ""
    clients = f" {describe_invocations(found.invocations)}" if found and found.invocations else clients
    times = describe_latency(window.latency_ms, "p99", row.judge)
    done = (found and format_wall(found)) or digits.throughput(window.throughput_per_s)
    return f"{times}; {done}{clients}; {_outcomes(found)}."


def format_wall(found: OperationsResult) -> str:
    """Format what a number of operations took: `200 answered in 4.02 s of wall time, 49.8 ops/s`; "" for a time."""
    if found.wall_s is None or found.per_wall_s is None:
        return ""
    done = digits.count(sum(kind.ok for kind in found.kinds))
    return f"{done} answered in {digits.rounded(found.wall_s)} s of wall time, {digits.throughput(found.per_wall_s)}"


def _outcomes(found: OperationsResult | None) -> str:
    kinds = found.kinds if found else ()
    failed, unknown = sum(kind.failed for kind in kinds), sum(kind.unknown for kind in kinds)
    sentences = [f"{digits.count(failed)} failed"] if failed else []
    sentences += [f"{digits.count(unknown)} got no answer"] if unknown else []
    return ", ".join(sentences) or "none failed"


def kind_per_s(window: WindowResult, kind: KindResult) -> float:
    """Return the kind's part of what was achieved a second."""
    done = sum(each.ok for each in window.operations.kinds) if window.operations else 0
    return window.throughput_per_s * kind.ok / done if done else 0.0


def connecting_parts(found: ConnectingResult) -> tuple[ConnectingPart, ...]:
    """Return what a service time is made of, in the order of time, and what is left unexplained."""
    named = (
        ("connect (TCP)", found.connect_ms),
        ("TLS handshake", found.tls_ms),
        ("authenticate", found.authenticate_ms),
        ("operate", found.operate_ms),
    )
    present = [(name, latency) for name, latency in named if latency is not None]
    sums = [latency.mean or 0.0 for _, latency in present]
    accounted = 1 - found.unaccounted_share
    return tuple(
        ConnectingPart(name, latency, accounted * mean / sum(sums) if sum(sums) else None)
        for (name, latency), mean in zip(present, sums, strict=True)
    )


def format_part_share(share: float | None) -> str:
    """Format a share: `12 %`, `0.4 %`."""
    if share is None or not math.isfinite(share):
        return digits.NONE
    return f"{digits.rounded(100 * share, 2)} %"


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
    return numbers.value("throughput_per_s", per_s, digits.throughput(per_s))


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
    if any(row.window.operations and row.window.operations.invocations for row in measured):
        yield doc.Heading("Invocations by a Map", name="invocations")
        yield invocations_table(measured)
    yield doc.Fold("Each kind of operation in each window", (_kinds_table(measured),), plain=few)
    yield doc.Fold("Service time by percentile, with counts", tuple(percentile_nodes(measured, emulated=emulated)))
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
    if found.invocations:
        yield describe_invocations(found.invocations)
    elif found.clients:
        yield f"{digits.counted(found.clients, 'client')} in a closed loop"
    else:
        yield f"{digits.rate(window.offered_per_s)}/s offered"
    if found.wall_s:
        yield "; "
        yield doc.Span(format_wall(found), data={"metric": "wall_s", "value": found.wall_s})
    if found.retries:
        yield f"; retries after conflicts: {digits.count(found.retries)}"
    if window.errors:
        yield f"; {', '.join(f'{code}: {digits.count(number)}' for code, number in window.errors.items())}"


def _kind_rows(window: WindowResult, kind: KindResult) -> Iterator[doc.Row]:
    per_s = kind_per_s(window, kind)
    cells = (
        numbers.number("ok", kind.ok),
        numbers.harm("failed", kind.failed),
        numbers.harm("unknown", kind.unknown),
        numbers.value("per_s", per_s, digits.throughput(per_s)),
        *(numbers.estimate(f"service_ms.{name}", getattr(kind.service_ms, name)) for name in _QUANTILES),
    )
    served = (f"{format_kind(kind)} ", doc.Span(f"t2 {digits.MINUS} t1", "formula"))
    yield doc.Row(doc.Cell(served), cells, {"kind": kind.kind})
    responded = ("response ", doc.Span(f"t2 {digits.MINUS} t0", "formula"))
    cells = (
        doc.Cell(span=4),
        *(doc.Cell() for _ in range(3)),
        *(numbers.estimate(f"response_ms.{name}", getattr(kind.response_ms, name)) for name in _QUANTILES),
    )
    yield doc.Row(doc.Cell(responded, style="sub"), cells, {"kind": kind.kind, "response": True})


def _connecting_table(measured: Sequence[WindowRow]) -> doc.Table:
    caption = (
        "What the service time of operations without connection reuse is made of. Share: of all their service times "
        "together."
    )
    columns = doc.columns("Part", "Share", "p50", doc.more("p90"), "p99")
    return doc.Table("connecting", caption, columns, tuple(map(_connecting, measured)), phone=True)


def _connecting(row: WindowRow) -> doc.Body:
    found = row.window.operations.connecting if row.window.operations else None
    parts = connecting_parts(found) if found else ()
    share = format_part_share(found.unaccounted_share if found else None)
    note = doc.Span(f"{share} in none of the parts", "note")
    rows = (
        doc.Row(
            doc.Cell(part.name),
            (
                numbers.value("share", part.share, format_part_share(part.share)),
                *(numbers.estimate(f"part_ms.{name}", getattr(part.latency, name)) for name in ("p50", "p90", "p99")),
            ),
            {"part": part.name},
        )
        for part in parts
    )
    return doc.Body(tuple(rows), (row.label, doc.badges(row.trial), " ", note), doc.of_window(row))
