"""
How many state transitions an execution is billed for: each state that is entered, and each retry.

The history of an execution would tell, page by page, and not for emulators, which keep no events of a Map. So they are
counted: a state of a loop is entered as often as the loop's function was invoked, the others once for each trial, phase
or slice. `STATES` names every state of the trial machine; one that is missing there fails a test.

Source:
    AWS Step Functions pricing: "counts a state transition each time a step of your workflow is executed", retries
    included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RUN_STATES = 8
"""Of the benchmark machine, from its first state to its last where all goes well, the Map's own left out."""
STATES_PER_TRIAL = 2
"""Of the benchmark machine's Map."""


@dataclass(frozen=True)
class Visits:
    """
    What an execution did.

    phases, needed: all, and those that were not passed over. scaled, sure, utilised: phases with a loop of their own.
    slices: items of the Distributed Map; missing: those that were given up; transfers: those that are transfers, and
    tasks: those of them on Fargate. lanes: watchers' lanes.
    invoked: how often each function was called, by name.
    """

    phases: int
    needed: int
    slices: int
    on_host: bool
    invoked: Mapping[str, int]
    scaled: int = 0
    sure: int = 0
    utilised: int = 0
    missing: int = 0
    lanes: int = 0
    transfers: int = 0
    tasks: int = 0


def _of(function: str) -> Callable[[Visits], int]:
    return lambda visits: visits.invoked.get(function, 0)


def _again(function: str, loops: Callable[[Visits], int]) -> Callable[[Visits], int]:
    """Count the waits of a loop: one less than calls, for each time that it was gone through."""
    return lambda visits: max(0, visits.invoked.get(function, 0) - loops(visits))


def _once(_visits: Visits) -> int:
    return 1


def _never(_visits: Visits) -> int:
    """Count a state that only a failure leads to: less than a thousandth of a cent."""
    return 0


def _phases(visits: Visits) -> int:
    return visits.phases


def _needed(visits: Visits) -> int:
    return visits.needed


def _slices(visits: Visits) -> int:
    return visits.slices


def _written(visits: Visits) -> int:
    return visits.slices - visits.transfers


_MAKERS = ("MakeInput", "MakeVideoInput", "MakeLearningInput")


def _maker_runs(visits: Visits) -> int:
    return sum(visits.invoked.get(maker, 0) for maker in _MAKERS)


STATES: Mapping[str, Callable[[Visits], int]] = {
    **dict.fromkeys(("Begin", "Measure", "Watch", "Phases", "StopWatching", "LoadEnded"), _once),
    **dict.fromkeys(("AnalyseTrial", "ExportRecords", "TearDownTarget", "IsTornDown", "Verdict"), _once),
    **dict.fromkeys(("Conclude", "TrialSucceeded"), _once),
    "PrepareTarget": _of("PrepareTarget"),
    "NeedsFiles": _once,
    **dict.fromkeys(("SeedFiles", "AreFilesSeeded"), _of("SeedFiles")),
    "WaitForFiles": _again("SeedFiles", _once),
    "MakeInputs": lambda visits: min(_maker_runs(visits), 1),
    "WhichMaker": _maker_runs,
    **{maker: _of(maker) for maker in _MAKERS},
    **dict.fromkeys(("WatchChanges", "HasWatchStopped"), _of("WatchChanges")),
    "WaitForTurn": _again("WatchChanges", lambda visits: visits.lanes),
    "WatchEnded": lambda visits: visits.lanes,
    **dict.fromkeys(("AwaitTarget", "IsTargetReady"), _of("AwaitTarget")),
    "WaitForTarget": _again("AwaitTarget", _once),
    **dict.fromkeys(("WaitForPhase", "NeedsScaling", "PlanPhase", "IsPhaseNeeded", "PhaseEnded"), _phases),
    **dict.fromkeys(("ScaleTarget", "IsTargetScaled"), _of("ScaleTarget")),
    "WaitForScaling": _again("ScaleTarget", lambda visits: visits.scaled),
    **dict.fromkeys(("Offer", "OfferLoad", "EndsWhenSure", "PrecisionChecked", "IsUtilisationAsked"), _needed),
    **dict.fromkeys(("WaitForBarrier", "IsTransfer", "WriterDone"), _slices),
    "IsLoadFromHost": _written,
    "RunWriter": lambda visits: 0 if visits.on_host else max(_written(visits), visits.invoked.get("RunWriter", 0)),
    "RunWriterOnHost": lambda visits: _written(visits) if visits.on_host else 0,
    "RefreshSandboxes": _of("RefreshSandboxes"),
    "RunTransfer": lambda visits: max(visits.transfers - visits.tasks, visits.invoked.get("RunTransfer", 0)),
    "RunTransferTask": lambda visits: visits.tasks,
    "WriterMissing": lambda visits: visits.missing,
    **dict.fromkeys(("CheckPrecision", "IsPrecise"), _of("CheckPrecision")),
    "WaitForPrecision": _again("CheckPrecision", lambda visits: visits.sure),
    **dict.fromkeys(("MeasureUtilisation", "IsUtilisationKnown"), _of("MeasureUtilisation")),
    "WaitForMetrics": _again("MeasureUtilisation", lambda visits: visits.utilised),
    **dict.fromkeys(("AwaitArrivals", "HaveAllArrived"), _of("AwaitArrivals")),
    "WaitForArrivals": _again("AwaitArrivals", _once),
    **dict.fromkeys(("CollectLogs", "AreLogsCollected"), _of("CollectLogs")),
    "WaitForLogs": _again("CollectLogs", _once),
    **dict.fromkeys(("StopLoad", "WatchFailed", "LoadHostLost", "StopWatchingUnready", "TargetNotReady"), _never),
    **dict.fromkeys(
        ("WaitForTearDown", "TearDownFailed", "TrialFailed", "LogsNotCollected", "ReadFailure", "StageFailed"), _never
    ),
    **dict.fromkeys(("TrialNotAnalysed", "RecordsNotExported"), _never),
}
"""How often each state is entered, by its name."""


def trial_transitions(visits: Visits) -> int:
    """Return the transitions of the trial machine and of the children that run its slices."""
    return sum(count(visits) for count in STATES.values())


def run_transitions(trials: int) -> int:
    """Return the transitions of the benchmark machine."""
    return RUN_STATES + STATES_PER_TRIAL * trials
