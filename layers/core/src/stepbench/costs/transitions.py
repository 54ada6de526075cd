"""
How many state transitions an execution is billed for: each state that is entered, and each retry.

The history of an execution would tell, page by page, and not for emulators, which keep no events of a Map. So they are
counted: a state of a loop is entered as often as the loop's function was invoked, the others once for each trial, phase
or slice. `visited` names every state of the trial machine; one that is missing there fails a test.

Source:
    AWS Step Functions pricing: "counts a state transition each time a step of your workflow is executed", retries
    included.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_STATES = 8
"""Of the benchmark machine, from its first state to its last where all goes well, the Map's own left out."""
STATES_PER_TRIAL = 2
"""Of the benchmark machine's Map."""


@dataclass(frozen=True)
class Visits:
    """
    What an execution did.

    phases, needed: all, and those that were not passed over. scaled, sure, utilised: phases with a loop of their own.
    slices: items of both Maps, inline: those of the inline one, which inline_phases have; missing: those that were
    given up; transfers: those that are transfers, and tasks: those of them on Fargate. maps: of invocations. lanes:
    watchers' lanes.
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
    inline: int = 0
    inline_phases: int = 0
    maps: int = 0


_MAKERS = ("MakeInput", "MakeVideoInput", "MakeLearningInput")
_ONCE = (
    "Begin NeedsFiles Measure Watch Phases StopWatching LoadEnded AnalyseTrial ExportRecords TearDownTarget IsTornDown "
    "Verdict Conclude TrialSucceeded"
)
_NEVER = (
    "StopLoad WatchFailed LoadHostLost StopWatchingUnready TargetNotReady WaitForTearDown TearDownFailed TrialFailed "
    "InvocationMissing LogsNotCollected ReadFailure StageFailed TrialNotAnalysed RecordsNotExported"
)
"""States that only a failure leads to: less than a thousandth of a cent."""


def visited(visits: Visits) -> dict[str, int]:
    """Return how often each state of the trial machine is entered, by its name."""
    invoked, written = Counter(visits.invoked), visits.slices - visits.transfers
    distributed = visits.slices - visits.inline
    makers = sum(invoked[maker] for maker in _MAKERS)
    found = (
        dict.fromkeys(_ONCE.split(), 1)
        | dict.fromkeys(_NEVER.split(), 0)
        | {maker: invoked[maker] for maker in _MAKERS}
    )
    for function, asked, wait, loops in (
        ("SeedFiles", "AreFilesSeeded", "WaitForFiles", 1),
        ("WatchChanges", "HasWatchStopped", "WaitForTurn", visits.lanes),
        ("AwaitTarget", "IsTargetReady", "WaitForTarget", 1),
        ("ScaleTarget", "IsTargetScaled", "WaitForScaling", visits.scaled),
        ("CheckPrecision", "IsPrecise", "WaitForPrecision", visits.sure),
        ("MeasureUtilisation", "IsUtilisationKnown", "WaitForMetrics", visits.utilised),
        ("AwaitArrivals", "HaveAllArrived", "WaitForArrivals", 1),
        ("CollectLogs", "AreLogsCollected", "WaitForLogs", 1),
    ):  # the waits of a loop are one less than its calls, for each time that it was gone through
        found |= {function: invoked[function], asked: invoked[function], wait: max(0, invoked[function] - loops)}
    phases = ("WaitForPhase", "NeedsScaling", "PlanPhase", "IsPhaseNeeded", "PhaseEnded")
    needed = ("Offer", "OfferLoad", "EndsWhenSure", "PrecisionChecked", "IsUtilisationAsked")
    found |= dict.fromkeys(phases, visits.phases) | dict.fromkeys(needed, visits.needed - visits.inline_phases)
    found |= dict.fromkeys(("WaitForBarrier", "IsTransfer", "WriterDone"), distributed)
    found |= dict.fromkeys(("RunInlineWriter", "InvocationDone"), visits.inline)
    return found | {
        "PrepareTarget": invoked["PrepareTarget"],
        "MakeInputs": min(makers, 1),
        "WhichMaker": makers,
        "WatchEnded": visits.lanes,
        "InvokeInline": visits.inline_phases,
        "NoteMapEnd": visits.maps,
        "IsLoadFromHost": written - visits.inline,
        "RunWriter": 0 if visits.on_host else max(written, invoked["RunWriter"]) - visits.inline,
        "RunWriterOnHost": written if visits.on_host else 0,
        "RefreshSandboxes": invoked["RefreshSandboxes"],
        "RunTransfer": max(visits.transfers - visits.tasks, invoked["RunTransfer"]),
        "RunTransferTask": visits.tasks,
        "WriterMissing": visits.missing,
    }


def trial_transitions(visits: Visits) -> int:
    """Return the transitions of the trial machine and of the children that run its slices."""
    return sum(visited(visits).values())


def run_transitions(trials: int) -> int:
    """Return the transitions of the benchmark machine."""
    return RUN_STATES + STATES_PER_TRIAL * trials
