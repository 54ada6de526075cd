from __future__ import annotations

from typing import Any

from tests.statemachines.conftest import load_machine

from stepbench.costs.transitions import (
    RUN_STATES,
    STATES_PER_TRIAL,
    Visits,
    run_transitions,
    trial_transitions,
    visited,
)


def test_every_state_of_the_trial_machine_is_counted() -> None:
    """A state that somebody adds is billed, too: say in `visited` how often it is entered."""
    nothing = Visits(phases=1, needed=1, slices=0, on_host=False, invoked={})
    assert visited(nothing).keys() == {state.name for state in load_machine("trial").states}


def test_an_ordinary_trial_by_hand() -> None:
    """
    One phase with one slice, and each loop gone through once.

    Begin, PrepareTarget, NeedsFiles, Measure, Watch; AwaitTarget, IsTargetReady; Phases; WaitForPhase, NeedsScaling,
    PlanPhase, IsPhaseNeeded; Offer, OfferLoad, EndsWhenSure, PrecisionChecked, IsUtilisationAsked, PhaseEnded;
    WaitForBarrier, IsTransfer, IsLoadFromHost, RunWriter, WriterDone; AwaitArrivals, HaveAllArrived, StopWatching,
    LoadEnded; CollectLogs, AreLogsCollected, AnalyseTrial, ExportRecords, TearDownTarget, IsTornDown, Verdict,
    Conclude, TrialSucceeded.
    """
    invoked = dict.fromkeys(
        ("PrepareTarget", "AwaitTarget", "PlanPhase", "RunWriter", "AwaitArrivals", "CollectLogs"), 1
    )
    assert trial_transitions(Visits(phases=1, needed=1, slices=1, on_host=False, invoked=invoked)) == 36


def test_transfers_have_states_of_their_own() -> None:
    """
    Three items, of which one is a task, beside one that a writer offers.

    All four: WaitForBarrier, IsTransfer, WriterDone. Two in Lambda: RefreshSandboxes, RunTransfer; RunTransferTask. The
    writer's: IsLoadFromHost, RunWriter. Files are looked at twice: SeedFiles, AreFilesSeeded, and a Wait between.
    """
    invoked = {"RunWriter": 1, "RunTransfer": 2, "RefreshSandboxes": 2, "SeedFiles": 2}
    nothing = Visits(phases=1, needed=1, slices=0, on_host=False, invoked={})
    some = Visits(phases=1, needed=1, slices=4, on_host=False, invoked=invoked, transfers=3, tasks=1)
    assert trial_transitions(some) - trial_transitions(nothing) == 4 * 3 + 2 * 2 + 1 + 2 + (2 * 2 + 1)


def test_loops_retries_and_watchers_are_counted_by_their_functions() -> None:
    """A third AwaitTarget: its Task, its Choice and a Wait, twice. Two turns of a watcher more: three states each."""
    invoked = dict.fromkeys(("PrepareTarget", "AwaitTarget", "RunWriter", "AwaitArrivals", "CollectLogs"), 1)
    once = Visits(phases=1, needed=1, slices=1, on_host=False, invoked=invoked)
    more = Visits(phases=1, needed=1, slices=1, on_host=False, invoked={**invoked, "AwaitTarget": 3, "RunWriter": 2})
    assert trial_transitions(more) - trial_transitions(once) == 2 * 3 + 1
    watched = Visits(phases=1, needed=1, slices=1, on_host=False, invoked={**invoked, "WatchChanges": 4}, lanes=2)
    assert trial_transitions(watched) - trial_transitions(once) == 2 * (2 + 1) + 2 * 3
    hosted = Visits(phases=1, needed=1, slices=1, on_host=True, invoked=invoked)
    assert trial_transitions(hosted) == trial_transitions(once)


def test_a_run_s_own_transitions_are_those_of_the_way_to_success() -> None:
    """The shortest way through the benchmark machine, and through its Map for each trial."""
    machine = load_machine("benchmark").definition
    assert run_transitions(0) == RUN_STATES == shortest(machine)
    (trials,) = (state["ItemProcessor"] for state in machine["States"].values() if "ItemProcessor" in state)
    assert shortest(trials) == STATES_PER_TRIAL


def shortest(machine: dict[str, Any]) -> int:
    """Return how many states the way to success has, at least: to a Succeed, or to a state that ends."""
    ways, seen = [(machine["StartAt"], 1)], set[str]()
    while ways:
        name, length = ways.pop(0)
        state = machine["States"][name]
        if state["Type"] == "Succeed" or state.get("End"):
            return length
        following = [state.get("Next"), state.get("Default"), *(choice["Next"] for choice in state.get("Choices", ()))]
        ways += [(each, length + 1) for each in following if each and each not in seen]
        seen.add(name)
    raise AssertionError(machine["StartAt"])
