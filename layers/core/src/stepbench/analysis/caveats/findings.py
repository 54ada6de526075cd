"""The findings are what was computed of a trial before its caveats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.analysis.contribution import NOTHING_MORE
from stepbench.errors import TrialCancelledError

if TYPE_CHECKING:
    from stepbench.analysis.contribution import Contribution
    from stepbench.analysis.stalls import Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.documents import Failure
    from stepbench.contracts.findings import StoppedPhase
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import Accounting, Clock

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
