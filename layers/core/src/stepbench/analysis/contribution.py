"""What an experiment adds to the result of a trial whose load writers offer."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.dataflow.report import DataflowChartData
    from stepbench.contracts.dataflow.result import DataflowFindings
    from stepbench.contracts.documents import Failure
    from stepbench.contracts.measures import OperationsResult, WindowResult
    from stepbench.contracts.result import Caveat


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
