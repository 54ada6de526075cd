"""One trial of `dataflow`: its result is that of any trial of events, and what the tasks of its DAGs show."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from stepbench.analysis.contribution import Contribution, OwnAnalysis, OwnUsage
from stepbench.analysis.evidence import gather
from stepbench.analysis.precision import shorten_plan
from stepbench.analysis.trial import NOTHING_MEASURED, trial_result
from stepbench.contracts.failure import Failure
from stepbench.experiments.dataflow import caveats
from stepbench.experiments.dataflow.analysis.costs import Billing
from stepbench.experiments.dataflow.analysis.evidence import read_dag_records
from stepbench.experiments.dataflow.analysis.findings import find_dataflow
from stepbench.experiments.dataflow.offering import dag_requests
from stepbench.experiments.dataflow.prices import transitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.evidence import Evidence, Stored
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.dataflow.result import DataflowFindings
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.result import TrialResult
    from stepbench.experiments.dataflow.analysis.evidence import DagRecords


def analyse(stored: Stored) -> TrialResult:
    """Return everything that the report shows of the trial; raises as `gather` and `trial_result` do."""
    return trial_result(gather(stored), DataflowAnalysis(read_dag_records(stored.spec, stored.runs, stored.table)))


@dataclass(frozen=True)
class DataflowAnalysis(OwnAnalysis):
    """What executions of DAGs add to a trial's result, from the rows of their tasks."""

    records: DagRecords

    def trial(
        self, evidence: Evidence, windows: Sequence[MeasuredWindow], results: Sequence[WindowResult]
    ) -> Contribution:
        """Return findings and chart data of the executions, their caveats, and what they used."""
        plan = evidence.spec.offered
        billing = Billing(evidence.deployment, plan.target.store, own_server=plan.target.endpoint is not None)
        pairs = zip(windows, results, strict=True)
        findings, chart_data = find_dataflow(evidence.spec, evidence.joined, self.records, pairs, billing)
        return Contribution(
            dataflow=findings,
            chart_data=chart_data,
            failure=_nothing_completed(findings),
            failed=findings.executions.failed,
            graver=tuple(
                chain(
                    caveats.find_failed_executions(findings),
                    caveats.missing_objects(findings.objects),
                )
            ),
            unrecorded=tuple(caveats.find_unread_rows(findings, self.records)),
            milder=tuple(chain(caveats.find_retried_tasks(findings), caveats.find_cold_tasks(findings))),
            use=OwnUsage(
                sum(_transitions(plan, self.records)),
                self.records.write_units,
                self.records.invocations(plan.dags),
                dag_requests(shorten_plan(plan, evidence)),
            ),
        )


def _nothing_completed(findings: DataflowFindings) -> Failure | None:
    """Fail a trial that passed all its states and has a window in which no execution was completed."""
    empty = [window.window for window in findings.windows if not window.completed]
    if not empty:
        return None
    cause = next(iter(findings.executions.causes), "none has ended")
    return Failure(error=NOTHING_MEASURED, cause=f"no execution of window {', '.join(empty)} was completed: {cause}")


def _transitions(plan: TrialPlan, records: DagRecords) -> Iterator[int]:
    levels = {dag.name: len(dag.levels) for dag in plan.dags}
    for end in records.ends:
        attempts = records.tasks.attempts(end.event)
        yield transitions_of(levels.get(end.dag, 0), len(attempts), sum(attempts))
