"""What the page shows of DAGs: each DAG with all stores that passed its data, and each trial by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measures import Estimate
from stepbench.experiments.dataflow.report import figures
from stepbench.experiments.dataflow.report.drawing import draw_dag
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.report import ExpectedMix
    from stepbench.contracts.dataflow.result import DagWindow, DataflowCost, DataflowFindings
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.report import document as doc

MAX_WINDOWS = 8
"""Windows with figures of their own; of more, tables and `summary.json` have the numbers."""
FIRST_FIGURES = 3
"""Of a window's bars: time, and dollars by the first table's prices, without and with idle hours; others are folded."""
MAX_FIGURES = 8
"""Executions drawn task by task, of one DAG."""
IDLE = {True: "with idle hours", False: "while executions run"}


@dataclass(frozen=True)
class FlowTrial:
    """One trial; `first`: the first of its repeats, which alone has figures of its own."""

    label: str
    summary: TrialSummary
    findings: DataflowFindings
    first: bool
    store: doc.Chart | None

    @property
    def group(self) -> str:
        """Return what its repeats have in common."""
        return self.summary.group or self.label

    @property
    def caption(self) -> str:
        """Return the name of its repeats, and whether their store is emulated."""
        return f"{self.group} (emulated)" if self.summary.emulated else self.group

    def costs(self, window: DagWindow) -> tuple[DataflowCost, ...]:
        """Return what an execution of a window costs, by price table."""
        return tuple(each for each in self.findings.costs if each.place == window.place)


@dataclass(frozen=True)
class WindowView:
    """
    One window of one DAG, over all trials that had it, with its figures.

    first, others: the bars that are not folded, and those that are: the same by other prices. stacks: what times
    consist of.
    """

    label: str
    rows: tuple[tuple[FlowTrial, DagWindow], ...]
    first: tuple[doc.Chart, ...]
    others: tuple[doc.Chart, ...]
    stacks: tuple[doc.Chart, ...]

    @property
    def shown(self) -> tuple[tuple[FlowTrial, DagWindow], ...]:
        """Return one trial of each group: the others repeat it. Without a whole execution there is nothing to show."""
        return tuple((trial, window) for trial, window in self.rows if trial.first and window.n)


@dataclass(frozen=True)
class DagView:
    """One DAG: its drawings, what a store had to expect of it, its windows, executions task by task."""

    dag: Dag
    drawings: tuple[doc.VectorDrawing, ...]
    expected: ExpectedMix | None
    windows: tuple[WindowView, ...]
    gantts: tuple[doc.Chart, ...]


def flow_trials(results: Sequence[TrialResult], labels: Sequence[str]) -> tuple[FlowTrial, ...]:
    """Return the trials of DAGs; `results` and `labels` are of the run's trials, in their order."""
    seen: set[str] = set()
    found = []
    groups = [result.summary.group or label for result, label in zip(results, labels, strict=True)]
    whole = {group for group, result in zip(groups, results, strict=True) if _has_whole(result.summary.dataflow)}
    for number, (result, label, group) in enumerate(zip(results, labels, groups, strict=True)):
        findings = result.summary.dataflow
        if findings is None:
            continue
        first = group not in seen and bool(findings.windows) and (_has_whole(findings) or group not in whole)
        seen |= {group} if first else set()
        charts = result.dataflow if first else None
        store = figures.store_figure(f"trial-{number}", label, charts, result.phases) if charts is not None else None
        found.append(FlowTrial(label, result.summary, findings, first, store))
    return tuple(found)


def _has_whole(findings: DataflowFindings | None) -> bool:
    return findings is not None and any(window.n for window in findings.windows)


def dag_views(summary: RunSummary, results: Sequence[TrialResult], trials: Sequence[FlowTrial]) -> Iterator[DagView]:
    """Yield the DAGs of the run's trials."""
    known = {dag.name: dag for trial in trials for dag in trial.findings.dags}
    for number, (name, dag) in enumerate(known.items()):
        places = dict.fromkeys(
            window.place for trial in trials for window in trial.findings.windows if window.dag == name
        )
        windows = tuple(
            _window(summary, trials, place, f"{number}-{nth}", charts=nth < MAX_WINDOWS)
            for nth, place in enumerate(places)
        )
        moved = _moved(windows)
        yield DagView(
            dag=dag,
            drawings=(draw_dag(dag, "across", moved), draw_dag(dag, "down", moved)),
            expected=next((each for trial in trials for each in trial.findings.expected if each.dag == name), None),
            windows=windows,
            gantts=tuple(_gantts(name, number, results, trials))[:MAX_FIGURES],
        )


def _window(
    summary: RunSummary, trials: Sequence[FlowTrial], place: tuple[str, str, str], anchor: str, *, charts: bool
) -> WindowView:
    rows = tuple((trial, window) for trial in trials for window in trial.findings.windows if window.place == place)
    _, phase, window = place
    label = window if window == phase else f"{phase} / {window}"
    if not charts:
        return WindowView(label, rows, (), (), ())
    shown = [(trial.caption, found) for trial, found in rows if trial.first]
    bars = tuple(_bar_figures(anchor, summary, rows))
    stacks = (figures.time_figure(anchor, label, shown), figures.transfer_figure(anchor, label, shown))
    return WindowView(label, rows, bars[:FIRST_FIGURES], bars[FIRST_FIGURES:], tuple(filter(None, stacks)))


def _bar_figures(anchor: str, summary: RunSummary, rows: Sequence[tuple[FlowTrial, DagWindow]]) -> Iterator[doc.Chart]:
    """Yield the stores' medians of end-to-end times, then performance per dollar, without and with idle hours."""
    times = _bars(summary, [(trial, window, window.end_to_end_ms.p50) for trial, window in rows])
    if chart := figures.bar_figure(f"dag-times-{anchor}", "dataflow-end-to-end", "End-to-end time", times):
        yield chart
    unknown = Estimate(value=None, reason="its dollars are not known")
    tables = dict.fromkeys((each.prices, each.idle) for trial, window in rows for each in trial.costs(window))
    for number, (prices, idle) in enumerate(tables):
        own = []
        for trial, window in rows:
            costs = (each for each in trial.costs(window) if (each.prices, each.idle) == (prices, idle))
            own.append((trial, window, next((each.perf_per_usd for each in costs), unknown)))
        bars = _bars(summary, own, prices, idle=idle)
        title = f"Performance per dollar {IDLE[idle]}, prices of {prices}"
        if chart := figures.bar_figure(f"dag-dollars-{anchor}-{number}", "dataflow-per-dollar", title, bars):
            yield chart


def _bars(
    summary: RunSummary, rows: Sequence[tuple[FlowTrial, DagWindow, Estimate]], prices: str = "", *, idle: bool = False
) -> Iterator[figures.Bar]:
    """Yield a bar for each group: its number over all repeats where it is ranked, else what its runs have."""
    key = (*rows[0][1].place, "perf_per_usd" if prices else "end_to_end", prices, idle)
    answers = (
        each
        for each in summary.media
        if (each.dag, each.phase, each.window, each.measure, each.prices, each.idle) == key
    )
    ranked = {medium.group: medium for answer in answers for medium in answer.ranked}
    for name in dict.fromkeys(trial.group for trial, _, _ in rows):
        runs = [row for row in rows if row[0].group == name]
        caption = f"{name} (emulated, not ranked)" if runs[0][0].summary.emulated else name
        if (medium := ranked.get(name)) is not None:
            yield figures.Bar(name, caption, medium.value, digits.counted(medium.runs, "run"))
            continue
        values = [value for _, _, value in runs]
        executions = digits.counted(sum(window.completed for _, window, _ in runs), "execution")
        yield figures.Bar(name, caption, values[0] if len(values) == 1 else mean_over_runs(values), executions)


def _moved(windows: Sequence[WindowView]) -> dict[tuple[str, str], float]:
    """Return how many bytes an execution moves over each edge, as the first trial that has them measured it."""
    for window in windows:
        for _, found in window.rows:
            sizes = {(each.producer, each.consumer): each for each in found.edges if each.blob_bytes.mean is not None}
            if sizes:
                return {ends: (each.blob_bytes.mean or 0.0) * each.reads for ends, each in sizes.items()}
    return {}


def _gantts(dag: str, number: int, results: Sequence[TrialResult], trials: Sequence[FlowTrial]) -> Iterator[doc.Chart]:
    """Yield one execution of each group's first trial: that of the DAG's first window."""
    firsts = {trial.summary.index: trial for trial in trials if trial.first}
    for result in results:
        trial = firsts.get(result.summary.index)
        found = next((each for each in (result.dataflow.gantts if result.dataflow else ()) if each.dag == dag), None)
        if trial is not None and found is not None:
            yield figures.gantt_figure(f"{number}-{trial.summary.index}", trial.caption, found)
