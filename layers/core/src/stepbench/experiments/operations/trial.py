"""One trial of `operations`: the result of any trial of requests, with kinds, percentiles and parts of connecting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.evidence import gather
from stepbench.analysis.trial import trial_result
from stepbench.experiments.operations.analysis import OperationsAnalysis

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Stored
    from stepbench.contracts.result import TrialResult


def analyse(stored: Stored) -> TrialResult:
    """Return everything that the report shows of the trial; raises as `gather` and `trial_result` do."""
    return trial_result(gather(stored), OperationsAnalysis())
