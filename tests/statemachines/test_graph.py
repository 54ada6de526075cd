"""What no validator sees: `sam build`, `sam validate` and the emulator accept machines that break these rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench import errors
from stepbench.contracts.plan import TrialPlan

if TYPE_CHECKING:
    from tests.statemachines.conftest import Machine

AWS_NAMES = ("States.", "Lambda.", "Runtime.", "Sandbox.")
LAMBDA_SERVICE_ERRORS = {
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
}
HISTORY_EVENTS = 25_000
EVENTS_A_POLL = 9
"""Task entered, scheduled, started, succeeded, exited; Choice and Wait entered and exited."""


def _reachable(states: dict[str, Any], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        state = states[name]
        todo += [state[key] for key in ("Next", "Default") if key in state]
        todo += [rule["Next"] for rule in (*state.get("Choices", ()), *state.get("Catch", ()))]
    return seen


def _our_errors() -> set[str]:
    return {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}


def test_every_target_exists(machine: Machine) -> None:
    """A dangling Next passes AWS's own ValidateStateMachineDefinition on the emulator and fails at run time."""
    dangling = {
        (state.name, target)
        for state in machine.states
        for target in state.next_states()
        if target not in state.siblings
    }
    assert dangling == set()


def test_every_state_is_reachable(machine: Machine) -> None:
    """A state that nothing leads to is a Catch or a Choice that was forgotten."""
    for scope, sub in machine.scopes().items():
        assert _reachable(sub["States"], sub["StartAt"]) == set(sub["States"]), scope


def test_names_are_unique_in_the_whole_machine(machine: Machine) -> None:
    """AWS demands it across all nested maps and branches; the emulator does not."""
    names = [state.name for state in machine.states]
    assert len(names) == len(set(names))


def test_every_path_from_the_lease_on_tears_down_before_it_ends(trial: Machine) -> None:
    """A lease that is not released blocks the store for every later trial."""
    states = trial.definition["States"]
    without = {name: body for name, body in states.items() if name != "TearDownTarget"}
    cut = {name: _without_target(body, "TearDownTarget") for name, body in without.items()}
    ends = {name for name in _reachable(cut, "PrepareTarget") if cut[name]["Type"] in ("Succeed", "Fail")}
    assert ends == set()


def _without_target(state: dict[str, Any], target: str) -> dict[str, Any]:
    kept = {key: value for key, value in state.items() if not (key in ("Next", "Default") and value == target)}
    for key in ("Choices", "Catch"):
        if key in state:
            kept[key] = [rule for rule in state[key] if rule["Next"] != target]
    return kept


def test_failure_ends_in_fail(machine: Machine) -> None:
    """A machine whose last state after a Catch is a Pass would show green for a run that failed."""
    for name, state in machine.definition["States"].items():
        if state["Type"] == "Fail":
            continue
        assert "End" not in state, f"{name} ends the execution without saying Succeed or Fail"
    fails = [state for state in machine.states if state.type == "Fail"]
    assert all("ErrorPath" in state.definition or "Error" in state.definition for state in fails)
    assert all("CausePath" in state.definition or "Cause" in state.definition for state in fails)


def test_whatever_can_fail_has_a_catch_of_its_own_or_around_it(machine: Machine) -> None:
    """DESIGN 2: Task, Map and Parallel states have Catch; otherwise a failure there skips the tear-down."""
    by_name = {state.name: state for state in machine.states}
    for state in machine.states:
        if state.type not in ("Task", "Map", "Parallel"):
            continue
        around = [by_name[name] for name in (state.name, *state.scope) if name in by_name]
        caught = [rule for each in around for rule in each.definition.get("Catch", ())]
        assert any("States.ALL" in rule["ErrorEquals"] for rule in caught), state.name


def test_errors_are_matched_by_names_that_exist(machine: Machine) -> None:
    """A misspelt class name in ErrorEquals matches nothing, silently."""
    rules = [rule for state in machine.states for key in ("Retry", "Catch") for rule in state.definition.get(key, ())]
    names = {name for rule in rules for name in rule["ErrorEquals"]}
    assert {name for name in names if not name.startswith(AWS_NAMES)} <= _our_errors()


def test_errors_that_the_machines_raise_are_ours(machine: Machine) -> None:
    """Their names are API as much as those of exceptions."""
    raised = {state.definition["Error"] for state in machine.states if "Error" in state.definition}
    assert raised <= _our_errors()


def test_lambda_service_errors_are_retried_everywhere(machine: Machine) -> None:
    """They happen, and say nothing about our code."""
    for state in machine.states:
        if state.calls_a_function():
            retried = {name for rule in state.definition["Retry"] for name in rule["ErrorEquals"]}
            assert retried >= LAMBDA_SERVICE_ERRORS, state.name


def test_states_all_stands_alone_and_last(machine: Machine) -> None:
    """AWS refuses it anywhere else, at deployment."""
    for state in machine.states:
        for key in ("Retry", "Catch"):
            rules = state.definition.get(key, [])
            for index, rule in enumerate(rules):
                if "States.ALL" in rule["ErrorEquals"]:
                    assert rule["ErrorEquals"] == ["States.ALL"], state.name
                    assert index == len(rules) - 1, state.name


def test_a_writer_is_retried_twice_at_most_and_never_when_told_to_stop(trial: Machine) -> None:
    """Its attempt number is one byte of each event's identity, and a cancelled trial must not begin again."""
    retry = trial["RunWriter"].definition["Retry"]
    assert [rule["MaxAttempts"] for rule in retry] == [2]
    names = set(retry[0]["ErrorEquals"])
    assert names.isdisjoint({"PlanError", "TrialCancelledError", "States.ALL", "States.TaskFailed"})
    assert names >= {"Runtime.ExitError", "Sandbox.Timedout"}


def test_only_what_happens_before_load_may_skip_the_collection(trial: Machine) -> None:
    """TargetUnavailableError leaves Measure for the tear-down, so no state may raise it once load has begun."""
    jump = trial["Measure"].definition["Catch"][0]
    assert (jump["ErrorEquals"], jump["Next"]) == (["TargetUnavailableError"], "TearDownTarget")
    fails = {state.name: state.definition for state in trial.states if state.type == "Fail" and state.scope}
    assert set(fails) == {"TargetNotReady", "WatchFailed"}
    assert fails["WatchFailed"]["Error"] == "WatchLostError"
    leading_there = {state.name for state in trial.states if "StopWatchingUnready" in state.next_states()}
    assert leading_there == {"AwaitTarget"}


def test_the_machine_speaks_jsonpath_throughout(machine: Machine) -> None:
    """The emulator's Distributed Map ignores JSONata's fields."""
    assert "QueryLanguage" not in machine.definition
    assert [state.name for state in machine.states if "QueryLanguage" in state.definition] == []


def test_no_polling_loop_comes_near_the_history_limit(trial: Machine) -> None:
    """An execution with 25,000 events fails, uncatchably, with everything it has measured."""
    limit_s = next(each.le for each in TrialPlan.model_fields["drain_limit_s"].metadata if hasattr(each, "le"))
    polls = limit_s / trial["WaitForArrivals"].definition["Seconds"]
    assert polls * EVENTS_A_POLL < HISTORY_EVENTS * 0.7
