"""One trial of DAGs, as the page shows it: of repeats the first one has figures of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.contracts.dataflow.result import DagWindow, DataflowCost, DataflowFindings
    from stepbench.contracts.result import TrialSummary
    from stepbench.report import document as doc


@dataclass(frozen=True)
class FlowTrial:
    """One trial; `first`: the first of its repeats, which alone has figures of its own."""

    label: str
    summary: TrialSummary
    findings: DataflowFindings
    first: bool
    store: doc.Chart | None

    @property
    def group(self) -> str:
        """Return what its repeats have in common."""
        return self.summary.group or self.label

    def window(self, dag: str, phase: str, window: str) -> DagWindow | None:
        """Return what it has measured of a DAG in a window."""
        key = (dag, phase, window)
        return next((each for each in self.findings.windows if (each.dag, each.phase, each.window) == key), None)

    def costs(self, window: DagWindow) -> tuple[DataflowCost, ...]:
        """Return what an execution of a window costs, by price table."""
        key = (window.dag, window.phase, window.window)
        return tuple(each for each in self.findings.costs if (each.dag, each.phase, each.window) == key)
