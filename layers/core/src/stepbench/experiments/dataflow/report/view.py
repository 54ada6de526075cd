"""What the page shows of DAGs: each DAG with all stores that passed its data, and each trial by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.experiments.dataflow.report.bars import end_to_end_bars, per_dollar_bars
from stepbench.experiments.dataflow.report.drawing import draw_dag
from stepbench.experiments.dataflow.report.figures import gantt_figure, store_figure, time_figure, transfer_figure
from stepbench.experiments.dataflow.report.trials import FlowTrial
from stepbench.experiments.dataflow.report.words import describe_dag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.media import ExpectedMix
    from stepbench.contracts.dataflow.result import DagWindow, DataflowFindings
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.experiments.dataflow.report.drawing import Way
    from stepbench.report import document as doc

MAX_WINDOWS = 8
"""Windows with figures of their own; of more, tables and `summary.json` have the numbers."""
FIRST_FIGURES = 3
"""Of a window's bars: time, and dollars by the first table's prices, without and with idle hours; others are folded."""
MAX_FIGURES = 8
"""Executions drawn task by task, of one DAG."""


@dataclass(frozen=True)
class WindowView:
    """One window of one DAG, over all trials that had it, with its figures."""

    label: str
    rows: tuple[tuple[FlowTrial, DagWindow], ...]
    figures: tuple[doc.Chart, ...]
    stacks: tuple[doc.Chart, ...]

    @property
    def first(self) -> tuple[doc.Chart, ...]:
        """Return the bars that are not folded."""
        return self.figures[:FIRST_FIGURES]

    @property
    def others(self) -> tuple[doc.Chart, ...]:
        """Return those that are: the same by other prices."""
        return self.figures[FIRST_FIGURES:]

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


@dataclass(frozen=True)
class DataflowView:
    """It is all that the page's section shows of DAGs."""

    trials: tuple[FlowTrial, ...]
    dags: tuple[DagView, ...]

    @property
    def tuned(self) -> tuple[FlowTrial, ...]:
        """Return the trials whose store was configured for the DAGs."""
        return tuple(trial for trial in self.trials if trial.findings.tuning)


def dataflow_view(summary: RunSummary, results: Sequence[TrialResult], labels: Sequence[str]) -> DataflowView | None:
    """Return the view; None of a run without DAGs. `results` and `labels` are of the run's trials, in their order."""
    trials = tuple(_trials(results, labels))
    if not trials:
        return None
    return DataflowView(trials, tuple(_dags(summary, results, trials)))


def _trials(results: Sequence[TrialResult], labels: Sequence[str]) -> Iterator[FlowTrial]:
    seen: set[str] = set()
    whole = {
        result.summary.group or label
        for result, label in zip(results, labels, strict=True)
        if result.summary.dataflow is not None and _has_whole(result.summary.dataflow)
    }
    for number, (result, label) in enumerate(zip(results, labels, strict=True)):
        findings = result.summary.dataflow
        if findings is None:
            continue
        group = result.summary.group or label
        first = group not in seen and bool(findings.windows) and (_has_whole(findings) or group not in whole)
        seen |= {group} if first else set()
        charts = result.dataflow if first else None
        store = store_figure(f"trial-{number}", label, charts, result.phases) if charts is not None else None
        yield FlowTrial(label, result.summary, findings, first, store)


def _has_whole(findings: DataflowFindings) -> bool:
    return any(window.n for window in findings.windows)


def _dags(summary: RunSummary, results: Sequence[TrialResult], trials: Sequence[FlowTrial]) -> Iterator[DagView]:
    known = {dag.name: dag for trial in trials for dag in trial.findings.dags}
    for number, (name, dag) in enumerate(known.items()):
        keys = dict.fromkeys(
            (each.phase, each.window) for trial in trials for each in trial.findings.windows if each.dag == name
        )
        windows = tuple(
            _window(summary, trials, (name, phase, window), f"{number}-{place}", charts=place < MAX_WINDOWS)
            for place, (phase, window) in enumerate(keys)
        )
        moved = _moved(windows)
        expected = next((each for trial in trials for each in trial.findings.expected if each.dag == name), None)
        yield DagView(
            dag=dag,
            drawings=(_drawing(dag, "across", moved), _drawing(dag, "down", moved)),
            expected=expected,
            windows=windows,
            gantts=tuple(_gantts(name, number, results, trials))[:MAX_FIGURES],
        )


def _drawing(dag: Dag, way: Way, moved: Mapping[tuple[str, str], float]) -> doc.VectorDrawing:
    return draw_dag(dag, way, moved).as_shapes(f"dag-{dag.name}-{way}", describe_dag(dag))


def _window(
    summary: RunSummary, trials: Sequence[FlowTrial], key: tuple[str, str, str], anchor: str, *, charts: bool
) -> WindowView:
    dag, phase, window = key
    rows = tuple((trial, found) for trial in trials if (found := trial.window(dag, phase, window)) is not None)
    label = window if window == phase else f"{phase} / {window}"
    if not charts:
        return WindowView(label, rows, (), ())
    shown = [(_caption(trial), found) for trial, found in rows if trial.first]
    bars = (end_to_end_bars(anchor, summary, rows), *per_dollar_bars(anchor, summary, rows))
    stacks = (time_figure(anchor, label, shown), transfer_figure(anchor, label, shown))
    return WindowView(label, rows, tuple(filter(None, bars)), tuple(filter(None, stacks)))


def _caption(trial: FlowTrial) -> str:
    return f"{trial.group} (emulated)" if trial.summary.emulated else trial.group


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
            yield gantt_figure(f"{number}-{trial.summary.index}", _caption(trial), found)
