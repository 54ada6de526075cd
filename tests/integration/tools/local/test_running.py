"""Starting, watching and stopping a run on a stack that is small enough to misbehave on demand."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from rich.console import Console
from tests.integration.tools.local.conftest import ROLE
from tests.samples.services import RESULTS_TABLE, RUNS_TABLE

from stepbench.clock import SystemClock
from stepbench.contracts.plan import Plan
from stepbench.errors import LocalEnvironmentError, PlanError
from stepbench.planning import expand
from stepbench.planning.wall_time import LOCAL
from stepbench.records.storage import layout
from stepbench_tools.local import executions as executions_module
from stepbench_tools.local.commands import Ending, Options, Runner
from stepbench_tools.local.executions import RUNNING, Executions, NotStoppedError, RunSpec, Stopping, new_run_id
from stepbench_tools.local.fetching import NotFetchedError, RunFolder, fetch
from stepbench_tools.local.observer import Observer
from stepbench_tools.local.processes import wait_until
from stepbench_tools.local.results import read_summary
from stepbench_tools.local.running import RunAbandonedError, RunOutcome, Terminal, execute
from stepbench_tools.local.session import LocalSession
from stepbench_tools.local.stack import Stack, StackError, local_client, local_stack
from stepbench_tools.local.state import EnvironmentState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench.progress import Snapshot
    from stepbench_tools.local.emulator.server import Emulator
    from stepbench_tools.local.terminal import Show

pytestmark = pytest.mark.emulator

PLAN = Plan.model_validate(
    {
        "name": "two",
        "trials": [
            {"target": {"store": store}, "phases": [{"name": "only", "load": [{"rate_per_s": 10, "duration_s": 5}]}]}
            for store in ("s3", "dynamodb")
        ],
    }
)
RENDER = """
import boto3, json, os
def handler(task, context):
    summary = {"schema": 1, "run_id": task["run_id"], "plan": "two", "status": "stopped" if task.get("stopped") else
               "succeeded", "started_at": task["started_at"], "finished_at": task["started_at"], "trials": [],
               "verdict": {"miss": "failed", "doubt": "undecided"}.get(task.get("what"), "passed")}
    body = json.dumps(summary).encode()
    boto3.client("s3").put_object(Bucket=os.environ["BUCKET"], Key=f"runs/{task['run_id']}/summary.json", Body=body)
"""
SWEEP = """
import boto3, os
def handler(task, context):
    table = boto3.resource("dynamodb").Table(os.environ["TABLE"])
    run = task["execution_arn"].rpartition(":")[2]
    for lease in table.scan()["Items"]:
        if lease["pk"] == "leases" and lease["run_id"] == run:
            table.delete_item(Key={"pk": lease["pk"], "sk": lease["sk"]})
    return {"swept": [], "pending": []}
"""
CONCLUDE = f"""{RENDER}
render = handler
def handler(task, context):
    render({{**task, "started_at": "2026-01-01T00:00:00Z", "stopped": True}}, context)
    raise ValueError("no records")
"""


def function(code: str) -> dict[str, Any]:
    """Return a function's resource."""
    environment = {"Variables": {"BUCKET": {"Ref": "Bucket"}, "TABLE": {"Ref": "Table"}}}
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": "python3.11",
            "Handler": "index.handler",
            "Role": ROLE,
            "Timeout": 30,
            "Code": {"ZipFile": code},
            "Environment": environment,
        },
    }


def machine(name: str, definition: dict[str, Any], **substitutions: Any) -> dict[str, Any]:  # noqa: ANN401 -- intrinsic
    """Return a state machine's resource."""
    text = {"Fn::Sub": [json.dumps(definition), substitutions]} if substitutions else json.dumps(definition)
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {"StateMachineName": name, "RoleArn": ROLE, "DefinitionString": text},
    }


def template() -> str:
    """
    Return a benchmark that runs its plan's `wait` seconds of trial 0, or fails as its plan says.

    The plan travels as it is; what this stack does is in its description.
    """
    trial = {"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 60, "End": True}}}
    start = {
        "Type": "Task",
        "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {
            "StateMachineArn": "${Trial}",
            "Input": {"ref": {"run_id.$": "$$.Execution.Name", "trial": 0, "tag": "aaaaaaaaaa-0000"}},
        },
        "End": True,
    }
    render = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {
            "FunctionName": "${Render}",
            "Payload": {
                "run_id.$": "$$.Execution.Name",
                "started_at.$": "$$.Execution.StartTime",
                "what.$": "$.description",
            },
        },
        "End": True,
    }
    choices = [
        {"Variable": "$.description", "StringEquals": "refuse", "Next": "Refuse"},
        {"Variable": "$.description", "StringEquals": "break", "Next": "Break"},
        {"Variable": "$.description", "StringEquals": "trial", "Next": "RunTrial"},
    ]
    benchmark = {
        "StartAt": "What",
        "States": {
            "What": {"Type": "Choice", "Choices": choices, "Default": "Render"},
            "Refuse": {"Type": "Fail", "Error": "PlanError", "Cause": "budget"},
            "Break": {"Type": "Fail", "Error": "States.Runtime", "Cause": "broken"},
            "RunTrial": start,
            "Render": render,
        },
    }
    resources = {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "running-results"}},
        "Table": {"Type": "AWS::DynamoDB::Table", "Properties": {"TableName": "running-results", **RESULTS_TABLE}},
        "Runs": {"Type": "AWS::DynamoDB::Table", "Properties": {"TableName": "running-runs", **RUNS_TABLE}},
        "RenderReportFunction": function(RENDER),
        "SweepTargetsFunction": function(SWEEP),
        "ConcludeRunFunction": function(CONCLUDE),
        "Trial": machine("running-trial", trial),
        "Benchmark": machine(
            "running-benchmark",
            benchmark,
            Trial={"Ref": "Trial"},
            Render={"Fn::GetAtt": ["RenderReportFunction", "Arn"]},
        ),
    }
    outputs = {
        "BenchmarkStateMachineArn": {"Value": {"Ref": "Benchmark"}},
        "TrialStateMachineArn": {"Value": {"Ref": "Trial"}},
        "ResultsTableName": {"Value": {"Ref": "Table"}},
        "ResultsBucketName": {"Value": {"Ref": "Bucket"}},
        "RunsTableName": {"Value": {"Ref": "Runs"}},
    }
    return json.dumps({"Resources": resources, "Outputs": outputs})


@pytest.fixture(scope="module")
def stack(shimmed: Emulator) -> Stack:
    """Deploy the small stack."""
    cloudformation = local_client("cloudformation", shimmed.endpoint)
    cloudformation.create_stack(StackName="running", TemplateBody=template())

    def is_complete() -> bool:
        described = cloudformation.describe_stacks(StackName="running")["Stacks"][0]
        return bool(described["StackStatus"] == "CREATE_COMPLETE")

    wait_until("the stack is there", is_complete, timeout_s=60)
    return local_stack("running", shimmed.endpoint)


@pytest.fixture
def executions(stack: Stack) -> Executions:
    """Return a run that has not been started."""
    now = datetime.now(UTC)
    run_id = new_run_id("two", now)
    return Executions(stack, RunSpec(run_id, expand(PLAN, run_id), now))


def silent(_said: object) -> None:
    """Tell nobody."""


def plan(what: str) -> Plan:
    """Return the plan with what the small stack shall do."""
    return PLAN.model_copy(update={"description": what})


def run(
    executions: Executions, what: str, out: Path, notify: Callable[[str], None] = silent, show: Show = silent
) -> RunOutcome:
    """Run the plan with what the small stack shall do."""
    return execute(executions, plan(what).model_dump(mode="json"), out, Terminal(notify, show), SystemClock())


def test_a_run_that_succeeds_is_fetched_with_its_summary(executions: Executions, tmp_path: Path) -> None:
    """It goes the whole way: start, watch, fetch, read."""
    executions.stack.runs.put_bytes(layout.run_key(executions.run.run_id, "trials/0000/deep/file"), b"x")
    outcome = run(executions, "render", tmp_path)
    assert outcome.succeeded
    assert outcome.summary is not None
    assert outcome.summary.run_id == executions.run.run_id
    assert (tmp_path / executions.run.run_id / "trials/0000/deep/file").read_bytes() == b"x"


def test_a_plan_that_the_stack_refuses_is_bad_input(executions: Executions, tmp_path: Path) -> None:
    """The stack may forbid what the command line cannot know, such as custom endpoints."""
    with pytest.raises(PlanError, match="is refused by the stack: budget"):
        run(executions, "refuse", tmp_path)


def interrupted(*_arguments: object) -> None:
    """Interrupt as Ctrl-C does."""
    raise KeyboardInterrupt


def interrupt_at_trial(snapshot: Snapshot) -> None:
    """Interrupt as soon as the first trial runs."""
    if snapshot.trial == 0:
        raise KeyboardInterrupt


def test_ctrl_c_stops_executions_frees_targets_and_renders(executions: Executions, tmp_path: Path) -> None:
    """Nothing may run, write or hold a target afterwards, and what was measured is reported."""
    stack, spec = executions.stack, executions.run.specs[0]
    ref = spec.ref
    stack.table.take_lease("s3#bucket", ref, "arn", 1)
    stack.table.mark_started(spec.tag, "00-0000-0000-00")
    said: list[str] = []

    outcome = run(executions, "trial", tmp_path, said.append, interrupt_at_trial)

    assert outcome.stopped
    assert not outcome.succeeded
    assert outcome.summary is not None
    assert outcome.summary.status == "stopped"
    assert executions.status() == "ABORTED"
    assert executions.children() == []
    assert all(stack.table.flag(each.tag, layout.CANCELLED) for each in executions.run.specs)
    assert [lease for lease in stack.table.leases() if lease.run_id == executions.run.run_id] == []
    assert "no partial report: ConcludeRunFunction: ValueError: no records" in said


def test_ctrl_c_before_the_start_stops_nothing_and_still_ends(
    executions: Executions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal may come while StartExecution is on its way."""
    monkeypatch.setattr(Executions, "start", interrupted)
    outcome = run(executions, "trial", tmp_path)
    assert outcome.stopped
    assert executions.status() is None


def test_children_are_those_of_this_run_only(executions: Executions) -> None:
    """On a shared stack, other runs' trials are neither shown nor stopped."""
    sfn = executions.stack.aws("stepfunctions")
    machine_arn = executions.stack.outputs["TrialStateMachineArn"]
    other: dict[str, Any] = {"ref": {"run_id": "other", "trial": 0, "tag": "bbbbbbbbbb-0000"}}
    mine = {"ref": {"run_id": executions.run.run_id, "trial": 1, "tag": "cccccccccc-0001"}}
    inputs: list[Any] = [other, mine, {"ref": "?"}, []]
    arns = [sfn.start_execution(stateMachineArn=machine_arn, input=json.dumps(each))["executionArn"] for each in inputs]
    try:
        assert [child.ref.trial for child in executions.children()] == [1]
    finally:
        for arn in arns:
            executions.stop(arn, "end of test")


def test_the_observer_sees_phase_and_events(executions: Executions) -> None:
    """It reads heartbeats, t4 items and the phase's plan; canaries that came before the load do not count."""
    stack, spec = executions.stack, executions.run.specs[0]
    clock = SystemClock()
    executions.start(plan("trial").model_dump(mode="json"))
    observer = Observer(executions, clock)
    stack.table.put_t4(spec.tag, "canary", 1, {"n": 3})
    try:
        wait_until("the trial is seen", lambda: _look(observer).trial == 0, timeout_s=20)
        for _ in range(40):
            observer.step()
        assert observer.snapshot().received == 0
        ref = spec.ref
        stack.runs.put_json(layout.phase_key(ref, 0, "plan.json"), {"start_at_ns": 5})
        stack.table.beat(spec.tag, "writer#00-0000-0000-00", {"sent": 7})
        wait_until("the beat is seen", lambda: _look(observer).sent == 7, timeout_s=20)
        stack.table.put_t4(spec.tag, "event", 6, {"n": 6})
        for _ in range(60):
            observer.step()
        seen = observer.snapshot()
        assert (seen.sent, seen.received) == (7, 6)
        assert seen.phase is not None
        assert (seen.phase.index, seen.phase.start_at_ns) == (0, 5)
        assert observer.status == RUNNING
    finally:
        for child in executions.children():
            executions.stop(child.arn, "end of test")
        executions.stop(executions.arn, "end of test")


def _look(observer: Observer) -> Snapshot:
    observer.step()
    return observer.snapshot()


def test_a_stack_that_is_not_there_is_one_clear_error(shimmed: Emulator) -> None:
    """It may be a typing error in --stack."""
    with pytest.raises(StackError, match=r"stack 'nowhere'.*deploy it first"):
        local_stack("nowhere", shimmed.endpoint)


def test_a_stack_that_is_not_ours_is_refused(shimmed: Emulator) -> None:
    """Somebody else's stack has none of our outputs."""
    cloudformation = local_client("cloudformation", shimmed.endpoint)
    topic = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    cloudformation.create_stack(StackName="foreign", TemplateBody=json.dumps(topic))
    with pytest.raises(StackError, match="has no output BenchmarkStateMachineArn"):
        local_stack("foreign", shimmed.endpoint)


def runner(
    stack: Stack, out: Path, session: LocalSession | None = None, *, json: bool = False, strict: bool = False
) -> tuple[Runner, Any, Any]:
    """Return a runner, and what it says on stderr and stdout."""
    people, data = io.StringIO(), io.StringIO()
    options = Options(out=out, json=json, strict=strict, floors=False)
    consoles = Console(file=people, width=200), Console(file=data, width=200)
    return Runner(stack, options, LOCAL, *consoles, session), people, data


def test_stdout_is_the_summary_and_stderr_is_for_people(stack: Stack, tmp_path: Path) -> None:
    """`stepbench run --json | jq` has to work, whatever is told meanwhile."""
    asked, people, data = runner(stack, tmp_path, json=True)
    assert asked.run_all([plan("render")]) is Ending.WHOLE
    assert json.loads(data.getvalue())["status"] == "succeeded"
    assert "succeeded" in people.getvalue()


@pytest.mark.parametrize(
    ("plans", "ending"),
    [
        (("miss", "render"), Ending.THRESHOLD_MISSED),
        (("miss", "break"), Ending.NOT_WHOLE),
        (("break", "miss"), Ending.NOT_WHOLE),
    ],
)
def test_of_several_plans_the_worst_counts(stack: Stack, tmp_path: Path, plans: list[str], ending: Ending) -> None:
    """A missed threshold outlives the next plan's success, and hides no failure."""
    asked, _, _ = runner(stack, tmp_path)
    assert asked.run_all([plan(each) for each in plans]) is ending


@pytest.mark.parametrize(("strict", "ending"), [(False, Ending.WHOLE), (True, Ending.THRESHOLD_MISSED)])
def test_a_threshold_that_is_not_decided_fails_a_strict_run(
    stack: Stack, tmp_path: Path, *, strict: bool, ending: Ending
) -> None:
    """Without it, a run that is too short fails at random; with it, a gate lets through what is shown alone."""
    asked, _, _ = runner(stack, tmp_path, strict=strict)
    assert asked.run_all([plan("doubt")]) is ending


def test_a_run_without_a_report_says_why(stack: Stack, tmp_path: Path) -> None:
    """No summary means that nothing was rendered, which is no success; the execution's own words are all there is."""
    asked, people, data = runner(stack, tmp_path)
    assert asked.run_all([plan("break")]) is Ending.NOT_WHOLE
    assert "no report: execution FAILED: States.Runtime: broken" in people.getvalue()
    assert data.getvalue() == ""


def test_a_skipped_trial_is_told_stored_and_no_success(stack: Stack, tmp_path: Path) -> None:
    """The rest runs; the report finds what was left out beside the run."""
    session = LocalSession(stack, EnvironmentState(skipped={"dynamodb": "no emulator"}))
    asked, people, _ = runner(stack, tmp_path, session)
    assert asked.run_all([plan("render")]) is Ending.NOT_WHOLE
    assert "dynamodb is skipped: no emulator" in people.getvalue()
    [folder] = tmp_path.iterdir()
    assert json.loads((folder / "skipped.json").read_text()) == {
        "trials": [{"name": "dynamodb", "store": "dynamodb", "reason": "no emulator"}]
    }


def test_a_plan_of_skipped_trials_only_starts_nothing(stack: Stack, tmp_path: Path) -> None:
    """There is nothing to report on."""
    session = LocalSession(stack, EnvironmentState(skipped={"dynamodb": "x", "s3": "y"}))
    asked, people, _ = runner(stack, tmp_path, session)
    assert asked.run_all([PLAN]) is Ending.NOT_WHOLE
    assert "nothing of two can run here" in people.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_no_plan_is_begun_after_one_that_was_stopped(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C means the whole command."""
    monkeypatch.setattr(Executions, "start", interrupted)
    asked, _, _ = runner(stack, tmp_path)
    assert asked.run_all([PLAN, PLAN]) is Ending.NOT_WHOLE
    assert len(list(tmp_path.iterdir())) == 1


def test_a_second_ctrl_c_abandons_the_run(
    executions: Executions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's owner has to know that it is not at rest."""
    monkeypatch.setattr(Executions, "start", interrupted)
    outcome = run(executions, "trial", tmp_path, notify=interrupted)
    assert isinstance(outcome.error, RunAbandonedError)
    assert "while it was being stopped" in str(outcome.error)
    assert outcome.summary is not None
    assert (outcome.summary.status, len(outcome.summary.trials)) == ("stopped", 2)


def test_a_target_that_cannot_be_torn_down_is_named_after_the_report_is_there(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store may be dead: nobody should wait for that, and the environment must not stay up with it."""
    monkeypatch.setattr(Observer, "step", interrupted)
    monkeypatch.setattr(Stopping, "held", lambda _self: ("etcd#127.0.0.1:1",))
    monkeypatch.setattr(executions_module, "SWEEP_LIMIT_S", 0)
    asked, _, _ = runner(stack, tmp_path)
    with pytest.raises(RunAbandonedError, match=r"could not be torn down: etcd#127\.0\.0\.1:1\. Does"):
        asked.run_all([PLAN, PLAN])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_out_of_sight_is_stopped(executions: Executions, tmp_path: Path) -> None:
    """An error on our side must not leave a run going on unseen; the error is what is told."""

    def breaks(snapshot: Snapshot) -> None:
        if snapshot.trial == 0:
            message = "the terminal is gone"
            raise OSError(message)

    assert str(run(executions, "trial", tmp_path, show=breaks).error) == "the terminal is gone"
    assert executions.status() == "ABORTED"
    assert executions.children() == []


def test_a_run_that_cannot_be_stopped_is_abandoned_by_name(
    executions: Executions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passing over it would leave a warm environment up with a writer in it."""

    def lost(_self: Observer) -> None:
        message = "lost sight of the run"
        raise LocalEnvironmentError(message)

    def moves(_self: Stopping) -> None:
        message = "it still moves"
        raise NotStoppedError(message)

    monkeypatch.setattr(Observer, "step", lost)
    monkeypatch.setattr(Stopping, "stop", moves)
    said: list[str] = []
    outcome = run(executions, "render", tmp_path, said.append)
    assert isinstance(outcome.error, RunAbandonedError)
    assert "could not be stopped for certain: it still moves" in str(outcome.error)
    assert said == [f"stopping run {executions.run.run_id}: lost sight of the run"]


def test_a_start_that_is_refused_leaves_nothing_to_stop(
    executions: Executions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such machine, or no right to start it: AWS's own words are the answer, not a failed attempt to stop."""
    outputs = {
        **executions.stack.outputs,
        "BenchmarkStateMachineArn": "arn:aws:states:us-east-1:000000000000:stateMachine:no",
    }
    monkeypatch.setattr(executions, "stack", dataclasses.replace(executions.stack, outputs=outputs))
    monkeypatch.setattr(Stopping, "stop", lambda _self: pytest.fail("there is nothing to stop"))
    with pytest.raises(ClientError, match="StateMachineDoesNotExist"):
        run(executions, "render", tmp_path)


def test_what_the_disk_does_not_take_stays_where_it_is_and_is_fetched_later(
    stack: Stack, executions: Executions, tmp_path: Path
) -> None:
    """The only copy was torn down with the environment; now the message says where it is, and how to get it."""
    run_id = executions.run.run_id
    (tmp_path / run_id).write_text("where the folder would be")
    outcome = run(executions, "render", tmp_path)
    assert isinstance(outcome.error, NotFetchedError)
    assert f"`stepbench report {run_id} --out {tmp_path}`" in str(outcome.error)
    assert outcome.summary is None
    (tmp_path / run_id).unlink()
    assert read_summary(fetch(stack.runs, run_id, tmp_path)) is not None


def test_a_trial_is_here_before_its_run_has_ended(executions: Executions, tmp_path: Path) -> None:
    """The emulator may die in the next one."""
    folder = RunFolder(executions.stack.runs, executions.run, tmp_path, silent)
    observer = Observer(executions, SystemClock(), folder=folder)
    first, second = (spec.ref for spec in executions.run.specs)
    for ref in (first, second):
        executions.stack.runs.put_bytes(layout.trial_key(ref, "result.json"), b"{}")
        executions.stack.runs.put_bytes(layout.trial_key(ref, "records.parquet"), b"PAR1")
    observer.done = 1
    for _ in range(4):
        observer.step()
    found = sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file())
    assert found == ["trials/0000/records.parquet", "trials/0000/result.json"]
