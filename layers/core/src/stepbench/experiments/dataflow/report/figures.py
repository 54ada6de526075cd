"""The figures of DAGs: which there are, what they draw, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.experiments.dataflow.report.words import EDGE_PARTS, PATH_GROUPS
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.chart_data import PhaseSpan
    from stepbench.contracts.dataflow.report import (
        DataflowBin,
        DataflowChartData,
        Gantt,
        GanttRow,
        GanttSpan,
        TuningMark,
    )
    from stepbench.contracts.dataflow.result import DagWindow
    from stepbench.contracts.measures import Estimate
    from stepbench.report.run import Columns, Row

GANTT_PARTS = ("open", "input", "get", "compute", "put", "rest")
"""One domain for all figures, so that a part has its colour everywhere."""
ROW_PX, BAR_ROW_PX = 15, 38
_LEAST_ROWS = 3
_ROOM = 1.04
_LETTER_PX, _SYMBOL_PX = 7, 40
_CHANGED_PX, _KEPT_PX = 2.5, 1.0
_PLOT_PX = 300
"""About as wide a plot is on a phone."""


@dataclass(frozen=True)
class Bar:
    """One store's number; runs: of how many it is."""

    name: str
    caption: str
    value: Estimate
    runs: str = ""


def gantt_figure(anchor: str, label: str, found: Gantt) -> doc.Chart:
    """Return the chart of one execution's tasks over time."""
    rows = {id(row): _row_name(row, found.rows) for row in found.rows}
    spans: list[Row] = [_span(rows[id(row)], row, span) for row in found.rows for span in row.spans]
    tasks: list[Row] = [
        (rows[id(row)], short(row.from_ms), short(row.to_ms), row.ok, 1 if row.critical else 0) for row in found.rows
    ]
    ends: list[Row] = [
        (short(found.start_ms), f"started, {digits.latency(found.start_ms)} after it was due"),
        (short(found.end_ms), f"ended, {digits.latency(found.end_ms)} after it was due"),
    ]
    data = {
        "spans": columns(("row", "part", "from_ms", "to_ms", "took", "moved", "rate", "note"), spans),
        "tasks": columns(("row", "from_ms", "to_ms", "ok", "critical"), tasks),
        "ends": columns(("at_ms", "words"), ends),
    }
    last = max([found.end_ms, *(row.to_ms for row in found.rows)])
    params = {"labels": list(rows.values()), "top": short(_ROOM * last), **_parts(GANTT_PARTS)}
    place = f"dag-gantt-{anchor}"
    height_px = ROW_PX * max(len(found.rows), _LEAST_ROWS)
    title = f"{found.dag}, {label}"
    description = f"Tasks over time of one execution of {title}"
    return doc.Chart(Drawing(place, "dataflow-gantt", data, params, height_px, "dataflow"), description, title)


def _row_name(row: GanttRow, rows: Sequence[GanttRow]) -> str:
    """Name a task, and of one that was tried several times which attempt it is."""
    alone = sum((each.stage, each.index) == (row.stage, row.index) for each in rows) == 1
    name = f"{row.stage}-{row.index}"
    return name if alone else f"{name}, try {row.attempt + 1}"


def _span(name: str, row: GanttRow, span: GanttSpan) -> Row:
    moved = f"{digits.size(span.blob_bytes)} in {digits.counted(span.objects, 'object')}" if span.objects else "nothing"
    notes = ("cold start" if row.cold else "", "last of its level" if row.critical else "", row.error)
    note = ", ".join(filter(None, notes))
    took = digits.latency(span.to_ms - span.from_ms)
    rate = digits.NONE if span.mib_per_s is None else f"{digits.rounded(span.mib_per_s)} MiB/s"
    return (name, span.kind, short(span.from_ms), short(span.to_ms), took, moved, rate, note)


def time_figure(anchor: str, dag: str, windows: Sequence[tuple[str, DagWindow]]) -> doc.Chart | None:
    """Return what executions' time consists of, a bar for each store; None where no execution was whole."""
    bars = []
    for label, window in windows:
        # Means, along the critical path: they add up, quantiles would not.
        means = {share.part: share.ms.mean or 0.0 for share in window.path}
        if means:
            parts = {name: sum(means.get(part, 0.0) for part in parts) for name, parts in PATH_GROUPS.items()}
            bars.append((label, parts))
    return _stack(f"dag-path-{anchor}", "dataflow-time-parts", dag, bars)


def transfer_figure(anchor: str, dag: str, windows: Sequence[tuple[str, DagWindow]]) -> doc.Chart | None:
    """Return what an object's way to the store and back consists of, a bar for each edge and store."""
    ends = dict.fromkeys((edge.producer, edge.consumer) for _, window in windows for edge in window.edges)
    bars = [
        (
            f"{edge.producer} to {edge.consumer}, {label}",
            {name: getattr(edge, field).mean or 0.0 for name, field in EDGE_PARTS.items()},
        )
        for each in ends
        for label, window in windows
        for edge in window.edges
        if (edge.producer, edge.consumer) == each and (edge.put_ms.n or edge.get_ms.n)
    ]
    return _stack(f"dag-transfers-{anchor}", "dataflow-transfer-parts", dag, bars)


def _stack(place: str, chart: str, dag: str, bars: Sequence[tuple[str, dict[str, float]]]) -> doc.Chart | None:
    """Return bars of the same parts, in ms; None without any."""
    if not bars:
        return None
    rows: list[Row] = [row for name, found in bars for row in _stacked(name, found)]
    whole = [(name, sum(found.values())) for name, found in bars]
    captions: list[Row] = [(name, f"{name}: {digits.latency(ms)}") for name, ms in whole]
    data = {
        "stacks": columns(("row", "part", "from", "to", "words", "share"), rows),
        "rows": columns(("row", "caption"), captions),
    }
    top = short(_ROOM * max(ms for _, ms in whole))
    params = {"labels": [name for name, _ in bars], "top": top, **_parts(list(bars[0][1]))}
    description = f"{dag}: " + "; ".join(f"{name} {digits.latency(ms)}" for name, ms in whole)
    return doc.Chart(Drawing(place, chart, data, params, BAR_ROW_PX * len(bars), "dataflow"), description, dag)


def _stacked(name: str, parts: dict[str, float]) -> Iterator[Row]:
    """Yield a bar's parts, one behind the other; those that took no time are left out."""
    at, whole = 0.0, sum(parts.values())
    for part, ms in parts.items():
        if ms > 0:
            yield (name, part, short(at), short(at + ms), digits.latency(ms), digits.percent(ms / whole))
        at += ms


def bar_figure(place: str, chart: str, title: str, bars: Iterable[Bar]) -> doc.Chart | None:
    """Return bars with intervals, by store; None where no store has a value."""
    charts = [(bar, bar.value, bar.value.value) for bar in bars if bar.value.value is not None]
    if not charts:
        return None
    unit = digits.PLAIN if chart == "dataflow-per-dollar" else None
    rows: list[Row] = [
        (bar.name, f"{bar.caption}: {digits.shown(value, unit)}", short(number), _end(value.low), _end(value.high),
         digits.shown(value, unit).interval or value.reason or digits.NONE, bar.runs)
        for bar, value, number in charts
    ]  # fmt: skip
    ends = [number if value.high is None else value.high for _, value, number in charts]
    params = {"labels": [bar.name for bar, _, _ in charts], "top": short(_ROOM * max(ends))}
    data = {"bars": columns(("row", "caption", "value", "low", "high", "words", "runs"), rows)}
    description = f"{title}: " + "; ".join(f"{bar.caption} {digits.shown(value, unit)}" for bar, value, _ in charts)
    height_px = BAR_ROW_PX * len(charts)
    return doc.Chart(Drawing(place, chart, data, params, height_px, "dataflow"), description, title)


def _end(limit: float | None) -> float | None:
    return None if limit is None else short(max(limit, 0.0))


def store_figure(anchor: str, label: str, charts: DataflowChartData, phases: Sequence[PhaseSpan]) -> doc.Chart | None:
    """Return what the store was given and asked for over time; None where nothing was moved."""
    if not charts.bins:
        return None
    end_s = charts.bins[-1].second + charts.bin_s
    bands: list[Row] = [
        (short(each.from_s), short(min(each.to_s, end_s)), _phase_name(each, end_s), "odd" if number % 2 else "even")
        for number, each in enumerate(phases)
        if each.from_s < end_s
    ]
    known = _by_number(charts)
    bins = list(_filled(known, charts.bin_s))
    data: Mapping[str, Columns] = {
        "bins": columns(("second", "phase", "put", "get", "puts", "gets", "completed"), bins),
        "phases": columns(("from_s", "to_s", "caption", "kind"), bands),
        "marks": columns(("at", "to", "words", "outage", "changed"), [_mark(each) for each in charts.marks]),
    }
    top = max(max(each.put_mib, each.get_mib) for each in known.values()) / charts.bin_s
    place = f"dag-time-{anchor}"
    drawing = Drawing(place, "dataflow-over-time", data, {"top": short(_ROOM * top) or 1}, experiment="dataflow")
    return doc.Chart(drawing, f"MiB a second put to and got from the store over time, {label}", label)


def _phase_name(phase: PhaseSpan, end_s: float) -> str:
    """Return its name; "" where there is no room for it: the tooltip has it."""
    room_px = _PLOT_PX * (min(phase.to_s, end_s) - phase.from_s) / end_s
    return phase.name if room_px >= _LETTER_PX * len(phase.name) else ""


def _mark(mark: TuningMark) -> Row:
    away = digits.latency(1_000 * mark.outage_s) if mark.outage_s else "not away"
    width_px = _CHANGED_PX if mark.reconfigured else _KEPT_PX
    return (short(mark.second), short(mark.second + mark.outage_s), f"{mark.phase}: {mark.text}", away, width_px)


def _filled(known: dict[int, DataflowBin], bin_s: float) -> Iterator[Row]:
    """Yield all bins, empty ones too: a line over what is left out would show a rate where nothing was moved."""
    for number in range(min(known), max(known) + 2):
        each = known.get(number)
        if each is None:
            yield (short(number * bin_s), "", 0, 0, 0, 0, 0)
        else:
            rates = (short(each.put_mib / bin_s), short(each.get_mib / bin_s))
            yield (short(each.second), each.phase, *rates, each.puts, each.gets, each.completed)


def _by_number(charts: DataflowChartData) -> dict[int, DataflowBin]:
    """Return the bins by their place in time; of two phases that share one, the sum under the later one's name."""
    found: dict[int, DataflowBin] = {}
    for each in charts.bins:
        number = round(each.second / charts.bin_s)
        before = found.get(number)
        names = ("completed", "puts", "gets", "put_mib", "get_mib") if before else ()
        sums = {name: getattr(before, name) + getattr(each, name) for name in names}
        found[number] = each.model_copy(update=sums)
    return found


def _parts(names: Sequence[str]) -> dict[str, Any]:
    return {"parts": list(names), "entry_px": _SYMBOL_PX + _LETTER_PX * max(map(len, names), default=0)}
