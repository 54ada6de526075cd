"""
The exceptions of Stepbench.

A failed *operation* on a store is data (`Outcome`), never one of these. An exception means that the trial,
or the request for one, is invalid. The class names are API: the state machines match them in `ErrorEquals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.problem import Problem


class StepbenchError(Exception):
    """Root of everything that Stepbench raises on purpose; the message says what, to what, and what to do."""


class PlanError(StepbenchError):
    """The plan is refused before anything is created. Never retried."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class TargetUnavailableError(StepbenchError):
    """The store under test, or its trigger, did not become ready in time. Retried by the state machine."""


class TargetBusyError(StepbenchError):
    """Another trial holds the target's lease. Retried for a while, then the trial fails."""


class TrialCancelledError(StepbenchError):
    """The trial's `cancelled` flag is set: stop, flush, return. Never retried."""


class WatchLostError(StepbenchError):
    """The watch on a pull trigger ended while load was offered. Raised by the trial machine itself."""


class TrialsFailedError(StepbenchError):
    """The report is written, and not all of its trials succeeded. Raised by the benchmark machine itself."""


class RateNotFoundError(StepbenchError):
    """No rate made the store as busy as `find_rate` wants it: phases at that rate cannot be offered. Not retried."""


class RecordsUnavailableError(StepbenchError):
    """Records could be neither written nor read; raised only when both places, table and bucket, failed."""


class CorruptRecordsError(StepbenchError):
    """A stored record file or item does not decode; names the key."""


class AccountingError(StepbenchError):
    """The books do not balance: a bug, or records that contradict each other. Never papered over."""


class InsufficientSampleError(StepbenchError):
    """The sample is too small for the statistic that was asked for."""


class LocalEnvironmentError(StepbenchError):
    """The embedded run cannot start or stop something on this machine."""
