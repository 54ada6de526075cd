"""Files read whole from S3 and EFS, by Lambda and Fargate: program, analysis, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.experiments.protocol import Analysis, Experiment, Files, Offering, Report, Staging


class _Transfer:
    @property
    def offering(self) -> Offering:
        from stepbench.experiments.transfer import offering

        return offering

    @property
    def staging(self) -> Staging:
        from stepbench.experiments.transfer import staging

        return staging

    @property
    def analysis(self) -> Analysis:
        from stepbench.experiments.transfer import trial

        return trial

    @property
    def files(self) -> Files:
        from stepbench.experiments.transfer import files

        return files

    @property
    def report(self) -> Report:
        from stepbench.experiments.transfer.report import section

        return section


experiment: Experiment = _Transfer()
