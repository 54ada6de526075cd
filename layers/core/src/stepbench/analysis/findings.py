"""What was computed of a trial before its caveats, and what its experiment adds."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import TrialCancelledError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.stalls import Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.dataflow.report import DataflowChartData
    from stepbench.contracts.dataflow.result import DataflowFindings
    from stepbench.contracts.documents import Failure
    from stepbench.contracts.findings import Clock, StoppedPhase
    from stepbench.contracts.measures import OperationsResult, WindowResult
    from stepbench.contracts.result import Accounting, Caveat


class OwnUsage(NamedTuple):
    """
    What is billed beyond any trial's: state transitions, units that the results table wrote.

    invocations: how often each function was invoked at least; fewer lines in its log are too few for a bill. objects:
    how many objects of the store an event puts and gets on average; None where it is one itself.
    """

    transitions: int = 0
    writes: int = 0
    invocations: Mapping[str, int] = MappingProxyType({})
    objects: tuple[float, float] | None = None


class Contribution(NamedTuple):
    """
    One experiment's part of a trial's result.

    failure: of a trial that passed all its states. failed: how many events did not arrive since what they started has
    failed, which has a caveat of its own. graver, unrecorded, milder: caveats that come before lost events, after
    unrecorded ones, and after cold starts.
    """

    dataflow: DataflowFindings | None = None
    chart_data: DataflowChartData | None = None
    failure: Failure | None = None
    failed: int = 0
    graver: tuple[Caveat, ...] = ()
    unrecorded: tuple[Caveat, ...] = ()
    milder: tuple[Caveat, ...] = ()
    use: OwnUsage = OwnUsage()


NOTHING_MORE = Contribution()


class OwnAnalysis:
    """The analysis of an experiment that adds nothing; the others override what they add."""

    def window(self, evidence: Evidence, window: MeasuredWindow) -> OperationsResult | None:  # noqa: ARG002
        """Return what a window's result has beyond latencies and counts."""
        return None

    def trial(
        self,
        evidence: Evidence,  # noqa: ARG002
        windows: Sequence[MeasuredWindow],  # noqa: ARG002
        results: Sequence[WindowResult],  # noqa: ARG002
    ) -> Contribution:
        """
        Return what the trial's result has beyond its windows.

        Raises:
            AccountingError: the records contradict each other.
        """
        return NOTHING_MORE


STOPPED_REMEDY = "The run was stopped: run it again, to its end."


@dataclass(frozen=True)
class Findings:
    """The findings are what was computed before the caveats."""

    accounting: Accounting | None
    """It is of the measured phases."""
    warm_up: Accounting | None
    """It is of the others."""
    windows: tuple[WindowResult, ...]
    clock: Clock
    failure: Failure | None = None
    stopped: tuple[StoppedPhase, ...] = ()
    measured_windows: tuple[MeasuredWindow, ...] = ()
    """The windows that `windows` has the results of."""
    stalls: tuple[Stall, ...] = ()
    own: Contribution = NOTHING_MORE
    """The experiment's own part."""

    @property
    def cancelled(self) -> bool:
        """Return whether somebody stopped the run: nothing has to be mended."""
        return self.failure is not None and self.failure.error == TrialCancelledError.__name__

    def total(self, name: str) -> int:
        """Sum a count of the accounting over all phases."""
        return sum(getattr(each, name) for each in (self.accounting, self.warm_up) if each)
