"""
One trial of `dataflow`: its result is that of any trial of events, and what the tasks of its DAGs show.

Each execution is looked at once, by due time, and its rows unpacked only meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from stepbench.analysis.evidence import gather
from stepbench.analysis.findings import Contribution, OwnAnalysis, OwnUsage
from stepbench.analysis.precision import shorten_plan
from stepbench.analysis.trial import NOTHING_MEASURED, trial_result
from stepbench.contracts.dataflow.report import DataflowChartData, TuningMark
from stepbench.contracts.dataflow.result import DataflowFindings
from stepbench.contracts.documents import Failure
from stepbench.contracts.tuning import TuningStep
from stepbench.experiments.dataflow import sentences
from stepbench.experiments.dataflow.analysis.accounting import ExecutionCount, ObjectCount
from stepbench.experiments.dataflow.analysis.chart_data import Bins, gantt
from stepbench.experiments.dataflow.analysis.executions import ExecutionTasks, find_executions
from stepbench.experiments.dataflow.analysis.windows import WindowTally
from stepbench.experiments.dataflow.offering import dag_requests, transitions_of, window_costs
from stepbench.experiments.dataflow.tasks.application_parameters import shown_dags
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks, read_dag_ends
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.evidence import Evidence, Stored
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.rows import DagEnd
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.result import TrialResult
    from stepbench.experiments.dataflow.analysis.executions import Execution

MOST_RESULTS = 40
NS_PER_S = 1_000_000_000


def analyse(stored: Stored) -> TrialResult:
    """Return everything that the report shows of the trial; raises as `gather` and `trial_result` do."""
    spec, runs = stored.spec, stored.runs
    ends, damaged = read_dag_ends(spec.tag, stored.table)
    keys = (layout.phase_key(spec.ref, number, layout.TUNING) for number, _ in enumerate(spec.offered.phases))
    steps = tuple(step for key in keys if (step := runs.find_model(key, TuningStep)) is not None)
    own = DataflowAnalysis(StoredTasks.read(spec.tag, stored.table), ends, steps, len(damaged))
    return trial_result(gather(stored), own)


@dataclass(frozen=True)
class DataflowAnalysis(OwnAnalysis):
    """
    What executions of DAGs add to a trial's result.

    It is made of what they left beside writers' records and arrivals: rows of tasks, ends of executions, decisions to
    tune the store. damaged: how many ends cannot be read.
    """

    tasks: StoredTasks
    ends: tuple[DagEnd, ...]
    tuning: tuple[TuningStep, ...]
    damaged: int

    def trial(
        self, evidence: Evidence, windows: Sequence[MeasuredWindow], results: Sequence[WindowResult]
    ) -> Contribution:
        """
        Return findings and chart data of the executions, their caveats, and what they used.

        Raises:
            AccountingError: the rows contradict each other.
        """
        plan = evidence.spec.offered
        executions = _Executions(evidence, self)
        tallies = [executions.tally(window, result, plan) for window, result in zip(windows, results, strict=True)]
        executions.count()
        findings = executions.findings(tallies)
        unread = self.damaged + len(self.tasks.damaged)
        return Contribution(
            dataflow=findings,
            chart_data=executions.chart_data(tallies),
            failure=_nothing_completed(findings),
            failed=findings.executions.failed,
            graver=(*sentences.find_failed_executions(findings), *sentences.missing_objects(findings.objects)),
            unrecorded=tuple(sentences.find_unread_rows(findings, unread)),
            milder=(*sentences.find_retried_tasks(findings), *sentences.find_cold_tasks(findings)),
            use=OwnUsage(
                self.transitions(plan.dags),
                self.write_units,
                self.invocations(plan.dags),
                dag_requests(shorten_plan(plan, evidence)),
            ),
        )

    @property
    def write_units(self) -> int:
        """Return how many units of the results table rows and ends took."""
        return self.tasks.write_units + len(self.ends)

    def invocations(self, dags: Sequence[Dag]) -> Counter[str]:
        """Return how often each function was invoked at least to run tasks: the rows of executions with an end."""
        functions = {(dag.name, stage.name): stage.function for dag in dags for stage in dag.stages}
        found = Counter[str]()
        for end in self.ends:
            for stage, count in self.tasks.by_stage(end.event).items():
                found[functions.get((end.dag, stage), "RunTask")] += count
        return found

    def transitions(self, dags: Sequence[Dag]) -> int:
        """Return how many transitions of the DAGs' machine the executions with an end are billed for."""
        levels, found = {dag.name: len(dag.levels) for dag in dags}, 0
        for end in self.ends:
            attempts = self.tasks.attempts(end.event)
            found += transitions_of(levels.get(end.dag, 0), len(attempts), sum(attempts))
        return found


def _nothing_completed(findings: DataflowFindings) -> Failure | None:
    """Fail a trial that passed all its states and has a window in which no execution was completed."""
    empty = [window.window for window in findings.windows if not window.completed]
    if not empty:
        return None
    cause = next(iter(findings.executions.causes), "none has ended")
    return Failure(error=NOTHING_MEASURED, cause=f"no execution of window {', '.join(empty)} was completed: {cause}")


class _Executions:
    """All executions of a trial, and what is counted of them."""

    def __init__(self, evidence: Evidence, records: DataflowAnalysis) -> None:
        joined = evidence.joined
        self._evidence, self._records = evidence, records
        self._found = find_executions(evidence.spec, joined, records.ends, records.tasks.events)
        self._zero_ns = joined.grid.timetable.first_ns() if joined.size else 0
        self._executions, self._objects, self._bins = ExecutionCount(), ObjectCount(), Bins(self._zero_ns)
        self._results: dict[str, str] = {}
        self._differing: set[str] = set()
        self._tallies: dict[int, list[WindowTally]] = {}

    def tally(self, window: MeasuredWindow, result: WindowResult, plan: TrialPlan) -> WindowTally:
        """Return what counts the executions of a window."""
        tally = WindowTally(plan.dag_of(plan.phases[window.phase]), result, window.start_ns, window.length_s)
        for number in window.acknowledged.tolist():
            self._tallies.setdefault(number, []).append(tally)
        return tally

    def count(self) -> None:
        """Look at each execution, by due time."""
        for execution in self._found:
            tasks = ExecutionTasks(execution.dag, self._records.tasks.of(execution.event))
            self._executions.add(execution, tasks)
            self._objects.add(execution, tasks)
            self._bins.add(execution, tasks)
            for tally in self._tallies.get(-1 if execution.number is None else execution.number, ()):
                tally.add(execution, tasks)
            self._compare_results(execution, tasks)

    def _compare_results(self, execution: Execution, tasks: ExecutionTasks) -> None:
        for (stage, index), row in tasks.counted.items():
            if row.result:
                name = f"{execution.dag.name}/{stage}-{index}"
                if self._results.setdefault(name, row.result) != row.result:
                    self._differing.add(name)

    def findings(self, tallies: Sequence[WindowTally]) -> DataflowFindings:
        """Return what the report shows. Raises AccountingError."""
        dags, target = self._evidence.spec.offered.dags, self._evidence.spec.offered.target
        results = dict(list(self._results.items())[:MOST_RESULTS])
        price = partial(window_costs, target=target, deployment=self._evidence.deployment)
        findings = DataflowFindings(
            dags=shown_dags(dags),
            executions=self._executions.result(),
            objects=self._objects.result(),
            expected=tuple(map(expected_mix, dags)),
            windows=tuple(tally.finding() for tally in tallies),
            costs=tuple(cost for tally in tallies for cost in tally.costs(price)),
            results=results,
            differing=tuple(sorted(self._differing & results.keys())),
            tuning=self._records.tuning,
        )
        return findings.model_copy(update={"answers": tuple(sentences.find_answers(findings))})

    def chart_data(self, tallies: Sequence[WindowTally]) -> DataflowChartData:
        """Return the tasks of an execution of each window, what the store was given over time, and its tuning."""
        by_event = {each.event: each for each in self._found}
        gantts = []
        for tally in tallies:
            if (event := tally.median_event) is not None:
                tasks = ExecutionTasks(tally.dag, self._records.tasks.of(event))
                gantts.append(gantt(by_event[event], tasks, tally.result))
        bin_s, bins = self._bins.result(tuple(phase.name for phase in self._evidence.spec.offered.phases))
        marks = tuple(_tuning_mark(step, self._zero_ns) for step in self._records.tuning)
        return DataflowChartData(gantts=tuple(gantts), bin_s=bin_s, bins=bins, marks=marks)


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
