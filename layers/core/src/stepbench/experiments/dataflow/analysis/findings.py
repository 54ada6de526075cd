"""All that a trial of DAGs shows: each execution is looked at by due time, and its rows unpacked only meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.chart_data import DataflowChartData, TuningMark
from stepbench.contracts.dataflow.result import DataflowFindings
from stepbench.experiments.dataflow.analysis.accounting import ExecutionCount, ObjectCount
from stepbench.experiments.dataflow.analysis.answers import find_answers
from stepbench.experiments.dataflow.analysis.chart_data import Bins, gantt
from stepbench.experiments.dataflow.analysis.costs import dataflow_costs
from stepbench.experiments.dataflow.analysis.executions import ExecutionTasks, find_executions
from stepbench.experiments.dataflow.analysis.windows import WindowTally
from stepbench.experiments.dataflow.tasks.sources import shown_dags
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tuning import TuningStep
    from stepbench.experiments.dataflow.analysis.costs import Billing
    from stepbench.experiments.dataflow.analysis.evidence import DagRecords
    from stepbench.experiments.dataflow.analysis.executions import Execution
    from stepbench.records.join.joined import Joined

MOST_RESULTS = 40
NS_PER_S = 1_000_000_000


def find_dataflow(
    spec: TrialSpec,
    joined: Joined,
    records: DagRecords,
    windows: Iterable[tuple[MeasuredWindow, WindowResult]],
    billing: Billing,
) -> tuple[DataflowFindings, DataflowChartData]:
    """
    Return what the report shows of a trial's DAGs, and the data of its charts.

    Raises:
        AccountingError: the rows contradict each other.
    """
    pass_ = _Pass(spec, joined, windows)
    executions = find_executions(spec, joined, records.ends, records.tasks.events)
    for execution in executions:
        pass_.add(execution, ExecutionTasks(execution.dag, records.tasks.of(execution.event)))
    findings = DataflowFindings(
        dags=shown_dags(spec.offered.dags),
        executions=pass_.executions.result(),
        objects=pass_.objects.result(),
        expected=tuple(expected_mix(dag) for dag in spec.offered.dags),
        windows=tuple(tally.finding() for tally in pass_.tallies),
        costs=tuple(cost for tally in pass_.tallies for cost in dataflow_costs(tally, billing)),
        results=dict(list(pass_.results.items())[:MOST_RESULTS]),
        differing=tuple(sorted(pass_.differing & set(list(pass_.results)[:MOST_RESULTS]))),
        tuning=records.tuning,
    )
    findings = findings.model_copy(update={"answers": tuple(find_answers(findings))})
    return findings, _chart_data(pass_, executions, records, spec)


class _Pass:
    """One pass through the executions."""

    def __init__(self, spec: TrialSpec, joined: Joined, windows: Iterable[tuple[MeasuredWindow, WindowResult]]) -> None:
        self.zero_ns = joined.grid.timetable.first_ns() if joined.size else 0
        self.executions, self.objects, self.bins = ExecutionCount(), ObjectCount(), Bins(self.zero_ns)
        self.results: dict[str, str] = {}
        self.differing: set[str] = set()
        self.tallies: list[WindowTally] = []
        self._of: dict[int, list[WindowTally]] = {}
        for window, result in windows:
            tally = WindowTally(
                spec.offered.dag_of(spec.offered.phases[window.phase]), result, window.start_ns, window.length_s
            )
            self.tallies.append(tally)
            for number in window.acknowledged.tolist():
                self._of.setdefault(number, []).append(tally)

    def add(self, execution: Execution, tasks: ExecutionTasks) -> None:
        """Take one execution, by due time."""
        self.executions.add(execution, tasks)
        self.objects.add(execution, tasks)
        self.bins.add(execution, tasks)
        for tally in self._of.get(-1 if execution.number is None else execution.number, ()):
            tally.add(execution, tasks)
        for (stage, index), row in tasks.counted.items():
            if row.result:
                name = f"{execution.dag.name}/{stage}-{index}"
                if self.results.setdefault(name, row.result) != row.result:
                    self.differing.add(name)


def _chart_data(
    pass_: _Pass, executions: Sequence[Execution], records: DagRecords, spec: TrialSpec
) -> DataflowChartData:
    by_event = {each.event: each for each in executions}
    gantts = []
    for tally in pass_.tallies:
        if (event := tally.median_event) is not None:
            tasks = ExecutionTasks(tally.dag, records.tasks.of(event))
            gantts.append(gantt(by_event[event], tasks, tally.result))
    bin_s, bins = pass_.bins.result(tuple(phase.name for phase in spec.offered.phases))
    tuning_marks = tuple(_tuning_mark(step, pass_.zero_ns) for step in records.tuning)
    return DataflowChartData(gantts=tuple(gantts), bin_s=bin_s, bins=bins, marks=tuning_marks)


def _tuning_mark(step: TuningStep, zero_ns: int) -> TuningMark:
    """Return a decision to configure the store anew, on the trial's time axis; `zero_ns`: its first t0."""
    decision, done = step.decision, step.done
    return TuningMark(
        second=(decision.decided_ns - zero_ns) / NS_PER_S,
        phase=decision.phase,
        reconfigured=step.reconfigured,
        outage_s=done.away_s if done is not None else 0,
        text=f"changed: {', '.join(done.changed)}" if done is not None and done.changed else decision.reason,
    )
