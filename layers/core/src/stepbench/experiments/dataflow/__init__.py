"""Executions of a DAG whose data pass through a store: tasks, analysis, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.experiments.protocol import Analysis, Experiment, Files, Offering, Report, Staging


class _Dataflow:
    @property
    def offering(self) -> Offering:
        from stepbench.experiments.dataflow import offering

        return offering

    @property
    def staging(self) -> Staging:
        from stepbench.experiments.dataflow import staging

        return staging

    @property
    def analysis(self) -> Analysis:
        from stepbench.experiments.dataflow import trial

        return trial

    @property
    def files(self) -> Files:
        from stepbench.experiments.dataflow import files

        return files

    @property
    def report(self) -> Report:
        from stepbench.experiments.dataflow.report import section

        return section


experiment: Experiment = _Dataflow()
