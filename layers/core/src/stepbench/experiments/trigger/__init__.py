"""Events that a store hands to a function: the trigger, from the write to the function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.experiments.protocol import Analysis, Experiment, Files, Offering, Report, Staging


class _Trigger:
    @property
    def offering(self) -> Offering:
        from stepbench.experiments.trigger import offering

        return offering

    @property
    def staging(self) -> Staging:
        from stepbench.experiments.trigger import staging

        return staging

    @property
    def analysis(self) -> Analysis:
        from stepbench.experiments.trigger import trial

        return trial

    @property
    def files(self) -> Files:
        from stepbench.experiments.trigger import files

        return files

    @property
    def report(self) -> Report:
        from stepbench.experiments.trigger import report

        return report


experiment: Experiment = _Trigger()
