"""
The machines as they are written: what no validator sees, names that functions share with them, and two validators.

`sam build`, `sam validate` and the emulator accept machines that break these rules.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.statemachines.conftest import substituted

from stepbench import errors
from stepbench.contracts import runs, tasks
from stepbench.contracts.dataflow import rows as dataflow_rows
from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, MAX_LEVELS
from stepbench.contracts.identity import ANY_ATTEMPT
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.transfer import rows as transfer_rows
from stepbench.contracts.transfer.plan import LONGEST_PROCESS_S, SLOW_START_S, SOURCES
from stepbench.progress import LEASE_WAIT_S
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from pydantic import BaseModel
    from tests.statemachines.conftest import Machine, State

AWS_NAMES = ("States.", "Lambda.", "Runtime.", "Sandbox.", "SQS.", "ECS.", "AmazonECS.")
LAMBDA_SERVICE_ERRORS = {
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.TooManyRequestsException",
}
"""As AWS documents them: "Handle Lambda service exceptions" in the developer guide of Step Functions."""
CRASHES = {"Lambda.Unknown", "Runtime.ExitError", "Runtime.OutOfMemory", "Sandbox.Timedout"}
"""By which of them an end of the process is reported differs by its kind, and has changed over the years."""
OUTAGE_S = 60
HISTORY_EVENTS = 25_000
ITERATION_EVENTS, CHOICE_EVENTS, MAP_EVENTS = 2, 2, 4
TASK_OVERRIDES = 8_192
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
    """docs/architecture.md: Task, Map and Parallel states have Catch; otherwise a failure there skips the tear-down."""
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


def _waited_s(rule: dict[str, Any]) -> float:
    """Return how long a retrier waits in all, at least."""
    waits = [rule["IntervalSeconds"] * rule["BackoffRate"] ** attempt for attempt in range(rule["MaxAttempts"])]
    return 0 if "JitterStrategy" in rule else sum(min(wait, rule.get("MaxDelaySeconds", wait)) for wait in waits)


def _retrier(state: State, error: str) -> dict[str, Any] | None:
    """Return the first rule that names the error, which is the one that counts."""
    found: dict[str, Any] | None = next(
        (rule for rule in state.definition.get("Retry", ()) if error in rule["ErrorEquals"]), None
    )
    return found


@pytest.mark.parametrize("error", ["Lambda.TooManyRequestsException", "RecordsUnavailableError"])
def test_a_minute_without_functions_or_records_fails_no_trial(trial: Machine, error: str) -> None:
    """Quotas are by the minute, and a trial may have taken hours. Full jitter may wait next to nothing."""
    for state in trial.tasks():
        rule = _retrier(state, error)
        assert rule is not None, state.name
        assert _waited_s(rule) > OUTAGE_S, state.name


def test_a_minute_without_the_register_fails_no_run(benchmark_machine: Machine) -> None:
    """Before its first trial as little as after its last."""
    rules = {state.name: _retrier(state, "RecordsUnavailableError") for state in benchmark_machine.tasks()}
    assert {name for name, rule in rules.items() if rule is None or _waited_s(rule) <= OUTAGE_S} == set()


def test_a_minute_without_the_table_sets_every_flag(trial: Machine) -> None:
    """One that is not set leaves watchers running, or fails a trial whose load was offered to its end."""
    writing = [state for state in trial.states if str(state.definition.get("Resource", "")).endswith("putItem")]
    assert {_waited_s(rule) > OUTAGE_S for state in writing for rule in state.definition["Retry"]} == {True}


def test_what_does_not_pass_by_itself_is_not_waited_for(machine: Machine) -> None:
    """A right that is missing is missing a minute later; five states that wait for it would hold the target."""
    for state in machine.tasks():
        for error in ("RecordsRefusedError", "RecordsLostError", "Lambda.ResourceNotFoundException"):
            assert _retrier(state, error) is None, state.name


def test_all_ends_of_a_process_are_treated_alike(machine: Machine) -> None:
    """A name that is forgotten makes a difference between a process that is killed and one out of memory."""
    rules = [rule for state in machine.states for key in ("Retry", "Catch") for rule in state.definition.get(key, ())]
    named = [CRASHES & set(rule["ErrorEquals"]) for rule in rules]
    assert all(names in (set(), CRASHES) for names in named)


def test_states_all_stands_alone_and_last(machine: Machine) -> None:
    """AWS refuses it anywhere else, at deployment."""
    for state in machine.states:
        for key in ("Retry", "Catch"):
            rules = state.definition.get(key, [])
            for index, rule in enumerate(rules):
                if "States.ALL" in rule["ErrorEquals"]:
                    assert rule["ErrorEquals"] == ["States.ALL"], state.name
                    assert index == len(rules) - 1, state.name


@pytest.mark.parametrize("name", ["RunWriter", "RunInlineWriter", "RunTransfer"])
def test_a_writer_that_dies_is_retried_twice_and_one_that_is_told_to_stop_never(trial: Machine, name: str) -> None:
    """Its attempt number is one byte of each event's identity, and a cancelled trial must not begin again."""
    retry = trial[name].definition["Retry"]
    assert sum(rule["MaxAttempts"] for rule in retry) < ANY_ATTEMPT
    for error in CRASHES | {"TargetUnavailableError"}:
        rule = _retrier(trial[name], error)
        assert rule is not None
        assert rule["MaxAttempts"] == 2
    names = {name for rule in retry for name in rule["ErrorEquals"]}
    assert names.isdisjoint({"PlanError", "TrialCancelledError", "States.ALL", "States.TaskFailed"})


def test_only_what_happens_before_load_may_skip_the_collection(trial: Machine) -> None:
    """TargetUnavailableError leaves Measure for the tear-down, so no state may raise it once load has begun."""
    jump = trial["Measure"].definition["Catch"][0]
    assert jump["ErrorEquals"] == ["TargetUnavailableError", "TargetUnreachableError"]
    assert jump["Next"] == "TearDownTarget"
    fails = {state.name: state.definition for state in trial.states if state.type == "Fail" and state.scope}
    assert set(fails) == {"TargetNotReady", "WatchFailed"}
    assert fails["WatchFailed"]["Error"] == "WatchLostError"
    leading_there = {state.name for state in trial.states if "StopWatchingUnready" in state.next_states()}
    assert leading_there == {"AwaitTarget"}


def test_an_unreachable_store_is_not_asked_again_by_the_machine(trial: Machine) -> None:
    """The functions have waited, or no waiting helps; only the tear-down has something to lose."""
    retrying = {
        state.name
        for state in trial.states
        for rule in state.definition.get("Retry", ())
        if "TargetUnreachableError" in rule["ErrorEquals"]
    }
    assert retrying == {"TearDownTarget"}


def test_a_lease_is_waited_for_as_long_as_the_progress_line_says(trial: Machine) -> None:
    """It says "at most"."""
    (rule,) = (
        each for each in trial["PrepareTarget"].definition["Retry"] if each["ErrorEquals"] == ["TargetBusyError"]
    )
    assert rule["IntervalSeconds"] * rule["MaxAttempts"] == LEASE_WAIT_S


def test_the_machine_speaks_jsonpath_throughout(machine: Machine) -> None:
    """The emulator's Distributed Map ignores JSONata's fields."""
    assert "QueryLanguage" not in machine.definition
    assert [state.name for state in machine.states if "QueryLanguage" in state.definition] == []


def test_states_read_like_the_experiment(machine: Machine) -> None:
    """The console shows a state's comment beside the graph; of a failure it is the first thing that is read."""
    for state in machine.states:
        comment = state.definition.get("Comment", "")
        assert comment or state.type not in {"Task", "Map", "Parallel", "Fail"}, state.name
        assert not comment or re.fullmatch(r"[A-Z][^.\n]{15,150}\.", comment), state.name


def test_no_polling_loop_comes_near_the_history_limit(trial: Machine) -> None:
    """An execution with 25,000 events fails, uncatchably, with everything it has measured."""
    limit_s = next(each.le for each in TrialPlan.model_fields["drain_limit_s"].metadata if hasattr(each, "le"))
    polls = limit_s / trial["WaitForArrivals"].definition["Seconds"]
    assert polls * EVENTS_A_POLL < HISTORY_EVENTS * 0.7


def _model(state: State, suffix: str) -> type[BaseModel]:
    name = re.sub("^(Run|Make)(Wide|Inline)?(Video|Learning)?(Task|Input|Writer)$", r"\1\4", state.name) + suffix
    rooms = (dataflow_rows, runs, tasks, transfer_rows)
    (model,) = {getattr(room, name) for room in rooms if hasattr(room, name)}
    found: type[BaseModel] = model
    return found


def _fields(template: dict[str, Any]) -> set[str]:
    return {key.removesuffix(".$") for key in template}


def test_each_payload_has_the_fields_of_its_input(machine: Machine) -> None:
    """The models forbid unknown fields, so a slip fails at run time; here it fails now."""
    for state in machine.tasks():
        payload = _fields(state.definition["Parameters"]["Payload"])
        fields = _model(state, "Input").model_fields
        required = {name for name, field in fields.items() if field.is_required()}
        assert required <= payload <= set(fields), state.name


def test_each_selected_result_is_a_field_of_the_output(machine: Machine) -> None:
    """A path that selects nothing fails with States.Runtime, which no Catch catches."""
    for state in machine.tasks():
        outputs = set(_model(state, "Output").model_fields)
        for path in state.definition.get("ResultSelector", {}).values():
            if path != "$.Payload":
                assert path.removeprefix("$.Payload.") in outputs, state.name


def test_paths_in_templates_are_marked_as_such(machine: Machine) -> None:
    """`"ref": "$.ref"` without `.$` would hand the function the text."""

    def check(node: Any, where: str) -> None:  # noqa: ANN401 -- JSON
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, str):
                    is_path = value.startswith(("$.", "$$.", "$[", "States.")) or value == "$"
                    assert is_path == key.endswith(".$"), f"{where}.{key}"
                check(value, f"{where}.{key}")

    for state in machine.states:
        for template in ("Parameters", "ResultSelector", "ItemSelector"):
            check(state.definition.get(template, {}), f"{state.name}.{template}")


def test_the_child_gets_a_planned_trial(benchmark_machine: Machine) -> None:
    """One model describes what ValidatePlan makes and what the trial machine begins with."""
    given = _fields(benchmark_machine["RunTrial"].definition["Parameters"]["Input"])
    assert given - {"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"} == set(runs.PlannedTrial.model_fields)


def test_the_trial_machine_reads_only_what_the_child_gets(trial: Machine) -> None:
    """Begin copies its input; a field that is not there would end the execution uncaught."""
    copied = trial["Begin"].definition["Parameters"]
    read = {value.removeprefix("$.") for value in copied.values() if isinstance(value, str)}
    assert read <= set(runs.PlannedTrial.model_fields)


def test_outcomes_are_what_the_report_takes(benchmark_machine: Machine) -> None:
    """Both ends of a trial give the same fields, and no cause: 100 of them have to stay under 256 KiB."""
    for name in ("TrialSucceeded", "TrialFailed"):
        assert _fields(benchmark_machine[name].definition["Parameters"]) == set(runs.TrialOutcome.model_fields)


def test_phases_are_read_as_the_plan_gives_them(trial: Machine) -> None:
    """The phase loop's paths name fields of PhaseRef and WriterItem."""
    text = json.dumps(trial["Phases"].definition)
    assert set(re.findall(r"\$\.phase\.(\w+)", text)) == set(runs.PhaseRef.model_fields)
    barrier = trial["WaitForBarrier"].definition["TimestampPath"].removeprefix("$.")
    assert barrier in tasks.WriterItem.model_fields
    assert barrier in transfer_rows.TransferItem.model_fields


def test_items_are_told_apart_by_a_field_that_only_one_kind_has(trial: Machine) -> None:
    """A Choice that compares a field that is not there fails the child, uncaught, so the first looks whether it is."""
    rules = trial["IsTransfer"].definition["Choices"]
    looked_at = [rule.get("And", [rule])[0] for rule in rules]
    assert looked_at == [{**each, "Variable": "$.platform", "IsPresent": True} for each in looked_at]
    assert "platform" not in tasks.WriterItem.model_fields
    compared = {each["Variable"].removeprefix("$.") for rule in rules for each in rule.get("And", [rule])}
    assert compared <= transfer_rows.TransferItem.model_fields.keys()


@pytest.mark.parametrize("name", ["WriterMissing", "InvocationMissing"])
def test_a_slice_that_is_missing_is_noted_by_fields_that_every_item_has(trial: Machine, name: str) -> None:
    """A path that selects nothing fails the child, uncaught."""
    item = json.dumps(trial[name].definition["Parameters"]["Item"])
    fields = set(re.findall(r"\$\.(\w+)", item)) - {"failure"}
    assert fields == {"ref", "phase", "writer", "slice", "expires_at"}
    assert all(fields <= set(model.model_fields) for model in (tasks.WriterItem, transfer_rows.TransferItem))


def test_a_task_gets_what_the_function_would_get(trial: Machine) -> None:
    """One program reads both: the container's variable is the function's payload as JSON."""
    (container,) = trial["RunTransferTask"].definition["Parameters"]["Overrides"]["ContainerOverrides"]
    (variable,) = container["Environment"]
    text = variable["Value.$"].removeprefix("States.Format('").partition("', ")[0]
    text = text.replace("\\{", "<").replace("\\}", ">")
    text = text.replace("{}", "1").replace("<", "{").replace(">", "}")
    assert (variable["Name"], json.loads(text).keys()) == ("TRANSFER_TASK", {"item", "attempt"})
    assert json.loads(text).keys() == transfer_rows.RunTransferInput.model_fields.keys()
    assert variable["Value.$"].endswith("', States.JsonToString($), $$.State.RetryCount)")


def test_the_largest_item_fits_into_a_task_s_overrides(trial: Machine) -> None:
    """ECS takes 8,192 characters of overrides (API reference, RunTask), and refuses a task with more."""
    ref = {"run_id": "r" * 80, "trial": 65_535, "tag": "t" * 32}
    reads = [{"source": "s3", "path": "p" * 200, "file_bytes": 10**10, "digest": "f" * 16} for _ in SOURCES]
    item = transfer_rows.TransferItem.model_validate(
        {"ref": ref, "writer": 999, "platform": "fargate", "reads": reads, "bucket": "b" * 63, "endpoint": "e" * 200,
         "connections": 64, "block_bytes": 2**24, "refresh": True, "limit_s": 3_600.5, "due_ns": 2**62,
         "wait_until": "2026-01-01T00:00:00.123456Z"}
    )  # fmt: skip
    override = dict(trial["RunTransferTask"].definition["Parameters"]["Overrides"]["ContainerOverrides"][0])
    task = transfer_rows.RunTransferInput(item=item, attempt=0).model_dump_json()
    override["Environment"] = [{"Name": "TRANSFER_TASK", "Value": task}]
    assert len(json.dumps({"ContainerOverrides": [override]})) < TASK_OVERRIDES / 2


def test_a_task_without_capacity_is_tried_twice_more_and_later(trial: Machine) -> None:
    """By each name that is documented for it; what it lacks is there in half a minute, or not in this trial."""
    for error in ("AmazonECS.Unknown", "ECS.AmazonECSException", "ECS.ServerException"):
        rule = _retrier(trial["RunTransferTask"], error)
        assert rule is not None
        assert (rule["MaxAttempts"], _waited_s(rule) >= 60) == (2, True)
    retry = trial["RunTransferTask"].definition["Retry"]
    assert sum(rule["MaxAttempts"] for rule in retry) < ANY_ATTEMPT


def test_a_task_has_time_for_the_longest_process_and_its_start(trial: Machine) -> None:
    """Step Functions stops it then; one that hangs costs by the second."""
    timeout_s = trial["RunTransferTask"].definition["TimeoutSeconds"]
    assert LONGEST_PROCESS_S + 2 * SLOW_START_S["fargate"] < timeout_s <= 2 * LONGEST_PROCESS_S


def test_flags_are_set_where_the_functions_look(trial: Machine) -> None:
    """The machine writes them itself, so the key's spelling exists twice; here it is compared."""
    expected = {
        "StopLoad": layout.CANCELLED,
        "StopWatching": layout.STOP_WATCHING,
        "StopWatchingUnready": layout.STOP_WATCHING,
    }
    for name, flag in expected.items():
        item = trial[name].definition["Parameters"]["Item"]
        key = item["pk"]["S.$"].removeprefix("States.Format('").removesuffix("', $.ref.tag)").format("a-tag")
        assert key == layout.trial_pk("a-tag")
        assert item["sk"] == {"S": flag}


def test_failures_of_later_stages_are_kept_where_the_contract_says(trial: Machine) -> None:
    """StateError has a field for each; the verdict and the report read them there."""
    for name in ("collect_logs", "analyse_trial", "export_records"):
        state = trial["".join(part.title() for part in name.split("_"))]
        assert [rule["ResultPath"] for rule in state.definition["Catch"]] == [f"$.failure.{name}"]
        assert name in tasks.StateError.model_fields


@pytest.mark.parametrize("name", ["collect_logs", "analyse_trial", "export_records"])
def test_the_verdict_looks_at_each_failure(trial: Machine, name: str) -> None:
    """A failure that is caught and then forgotten would end green."""
    looked_at = {rule.get("Variable") for rule in trial["Verdict"].definition["Choices"]}
    assert f"$.failure.{name}" in looked_at


ROOT = Path(__file__).parents[2]
SCHEMA_RULE = "E3601"


def _schema_findings(definition: dict[str, Any]) -> list[str]:
    from cfnlint.api import lint_all  # type: ignore[import-untyped] # it has none

    text = substituted(json.dumps(definition))
    properties = {"RoleArn": "arn:aws:iam::000000000000:role/any", "DefinitionString": text}
    template = {"Resources": {"Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}}}
    return [str(found) for found in lint_all(json.dumps(template)) if found.rule.id == SCHEMA_RULE]


@pytest.fixture(scope="session")
def asl_validator() -> Path:
    """Install the command from the committed lock; without node and npm this fails, since CI promises them."""
    wanted = json.loads((ROOT / "package-lock.json").read_text())["packages"]["node_modules/asl-validator"]["version"]
    installed = ROOT / "node_modules" / "asl-validator" / "package.json"
    if not installed.exists() or json.loads(installed.read_text())["version"] != wanted:
        npm = shutil.which("npm") or pytest.fail("npm is missing; install Node.js")
        arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([npm, *arguments], cwd=ROOT, check=True, capture_output=True, timeout=240)
    return ROOT / "node_modules" / ".bin" / "asl-validator"


def _validate(
    command: Path, path: Path, definition: dict[str, Any], partition: str
) -> subprocess.CompletedProcess[str]:
    path.write_text(substituted(json.dumps(definition), partition))
    return subprocess.run([command, "--json-path", path], capture_output=True, text=True, check=False, timeout=60)


def test_the_schema_accepts_the_machine(machine: Machine) -> None:
    """It is the schema by which CloudFormation users are told of mistakes."""
    assert _schema_findings(machine.definition) == []


def test_the_schema_check_can_fail(machine: Machine) -> None:
    """A gate that lets everything through looks the same as a good machine."""
    broken = {**machine.definition, "States": {**machine.definition["States"], "Odd": {"Type": "Tusk"}}}
    assert len(_schema_findings(broken)) == 1


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_asl_validator_accepts_the_machine(
    machine: Machine, asl_validator: Path, tmp_path: Path, partition: str
) -> None:
    """It knows JSONPath, rules between fields, and partitions other than `aws`, all of which the schema does not."""
    answer = _validate(asl_validator, tmp_path / "machine.asl.json", machine.definition, partition)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_asl_validator_can_fail(machine: Machine, asl_validator: Path, tmp_path: Path) -> None:
    """The other gate can fail, too, by a Next that leads nowhere."""
    first = machine.definition["StartAt"]
    states = machine.definition["States"]
    broken = {**machine.definition, "States": {**states, first: {**states[first], "Next": "Nowhere"}}}
    answer = _validate(asl_validator, tmp_path / "broken.asl.json", broken, "aws")
    assert answer.returncode != 0


def test_no_machine_is_bound_to_a_partition(machine: Machine) -> None:
    """In China and GovCloud, `arn:aws` names nothing."""
    arns = re.findall(r"arn:[^:]*", json.dumps(machine.definition))
    assert set(arns) == {"arn:${Partition}"}


def test_the_lock_names_no_registry() -> None:
    """A user may have a registry of their own."""
    assert "resolved" not in (ROOT / "package-lock.json").read_text()


def test_a_task_that_dies_is_retried_twice_whatever_runs_it(dataflow: Machine) -> None:
    """Three more attempts of one application's tasks would be no comparison, and no history has room for them."""
    tasks = [state for state in dataflow.states if state.name.startswith("Run") and state.name.endswith("Task")]
    assert len(tasks) >= 6
    for state in tasks:
        assert all((_retrier(state, error) or {}).get("MaxAttempts") == 2 for error in {*CRASHES, "TaskFailedError"}), (
            state.name
        )


def test_no_dag_comes_near_the_history_limit(dataflow: Machine) -> None:
    """Inline Maps write into the execution's own history; wide levels' tasks have one each."""
    retries = next(rule for rule in dataflow["RunTask"].definition["Retry"] if "TaskFailedError" in rule["ErrorEquals"])
    attempts = 1 + retries["MaxAttempts"]
    of_task = ITERATION_EVENTS + CHOICE_EVENTS + 2 + 3 * attempts  # entered, exited; scheduled, started, ended
    of_level = ITERATION_EVENTS + CHOICE_EVENTS + MAP_EVENTS + MAX_INLINE_TASKS * of_task
    assert MAX_LEVELS * of_level < HISTORY_EVENTS * 0.7
