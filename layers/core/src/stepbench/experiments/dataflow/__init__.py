"""Executions of a DAG whose data pass through a store: tasks, analysis, report."""

from __future__ import annotations

from stepbench.deferred import Deferred
from stepbench.experiments.protocol import Analyse, Experiment, Export, Offering, Report, Staging


class _Dataflow:
    offering = Deferred[Offering]("stepbench.experiments.dataflow:offering")
    staging = Deferred[Staging]("stepbench.experiments.dataflow:staging")
    analyse = Deferred[Analyse]("stepbench.experiments.dataflow.trial:analyse")
    export = Deferred[Export]("stepbench.experiments.dataflow.files:export")
    report = Deferred[Report]("stepbench.experiments.dataflow.report:section")


experiment: Experiment = _Dataflow()
