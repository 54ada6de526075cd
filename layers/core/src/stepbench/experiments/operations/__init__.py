"""Operations on a store: what they have beside latency and rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.experiments.protocol import Analysis, Experiment, Files, Offering, Report, Staging


class _Operations:
    @property
    def offering(self) -> Offering:
        from stepbench.experiments.operations import offering

        return offering

    @property
    def staging(self) -> Staging:
        from stepbench.experiments.operations import staging

        return staging

    @property
    def analysis(self) -> Analysis:
        from stepbench.experiments.operations import trial

        return trial

    @property
    def files(self) -> Files:
        from stepbench.experiments.operations import files

        return files

    @property
    def report(self) -> Report:
        from stepbench.experiments.operations.report import section

        return section


experiment: Experiment = _Operations()
