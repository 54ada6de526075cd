"""What lint cannot know of the template: that it agrees with machines, settings and layers, and grants no more."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from datetime import UTC, datetime

import boto3
import botocore.session
import pytest
from botocore.validate import ParamValidator
from tests.samples.templates import ROOT, Json, listed, load_template, statements
from tests.statemachines.conftest import MACHINES, State, load_machine

from stepbench.clock import ROUNDS, TIMEOUT_S
from stepbench.contracts.capacity import Metric
from stepbench.contracts.function import PACKAGES
from stepbench.contracts.phase import SLICE_S
from stepbench.contracts.runs import RunRecord
from stepbench.contracts.values import VALUES
from stepbench.contracts.workload import Kind, ProductRecord, Workload
from stepbench.drivers.dynamodb.operations import OperationRequests
from stepbench.drivers.etcd.cluster import TEAR_DOWN_TURN_S
from stepbench.drivers.etcd.store import DEFRAGMENT_LIMIT_S
from stepbench.drivers.preload import PRELOAD_FOR_S
from stepbench.drivers.receivers.source import COPIES
from stepbench.drivers.sql.access import CONTROL_LIMIT_S
from stepbench.planning.requests import parse_request
from stepbench.records.storage.flusher import FINAL_PAUSE_S, FINAL_TRIES
from stepbench.settings import Settings
from stepbench.stages import (
    application_traces,
    await_arrivals,
    await_target,
    bootstrap_dsql,
    collect_logs,
    drop_results,
    leftovers,
    prepare_target,
    refresh_sandboxes,
    seed_files,
    sweep_targets,
    target_driver,
    watch_changes,
)
from stepbench.stages.receive_events import BUCKET_RETRY, TABLE_RETRY
from stepbench.stages.run_writer import Bench
from stepbench.stages.turns import REGRESSION_DETECTED, SOURCE, event_detail
from stepbench.stages.watch_changes import WatchPace
from stepbench.workload.operations import Contents
from stepbench_tools.documents.pages import updated

HOLDING_DATA = (
    "AWS::CloudFormation::Stack",
    "AWS::DSQL::Cluster",
    "AWS::DynamoDB::Table",
    "AWS::EFS::FileSystem",
    "AWS::ElastiCache::ReplicationGroup",
    "AWS::ElastiCache::ServerlessCache",
    "AWS::RDS::DBCluster",
    "AWS::RDS::DBInstance",
    "AWS::S3::Bucket",
)
REGIONAL_S3 = "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT"
TASKS = {"RunTask", "RunVideoTask", "RunLearningTask"}
MEASURED = {"CheckClock", "EndDataflow", "ReceiveEvents", "RunTransfer", "RunWriter", "WatchChanges", *TASKS}
OUTLASTING = {"ResultsBucket", "FilesBucket"}
"""As far as CloudFormation goes; the second is emptied and deleted with the stack, unless KeepFiles says otherwise."""
NAMELESS = {
    "lambda:ListFunctions",
    *("ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs"),
    "elasticfilesystem:DescribeMountTargets",  # on a file system of the user's, which no parameter names
    "dsql:ListClusters",
    "lambda:ListEventSourceMappings",
    "lambda:CreateEventSourceMapping",
    "dynamodb:ListStreams",
    "dynamodb:DescribeLimits",
    "lambda:GetAccountSettings",
    "servicequotas:ListServiceQuotas",
    "cloudwatch:GetMetricData",
    "states:SendTaskSuccess",
    "states:SendTaskFailure",
    "states:SendTaskHeartbeat",
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
    "ssm:GetCommandInvocation",
    "xray:GetTraceSummaries",
    "xray:BatchGetTraces",
}
"""Actions for which AWS knows no resource, or none before it exists."""
BOTO3_RETRIES_S = 15
"""Between five attempts it waits up to 1 s, 2 s, 4 s and 8 s."""
RECORDING = {"ReadTrial", "WriteDocuments", "WriteItems"}
TEARING_DOWN = RECORDING | {"ReleaseLease", "DescribeTarget", "TearDownTarget", "ChangeCapacity"}
OLD_GLIBC = {"numpy", "scipy", "pyarrow"}
"""Have no wheels for the glibc of Lambda's python3.11, except older ones."""
RESOLVER = """
import ctypes
libc = ctypes.CDLL(None)
libc.__res_init()
libc.__res_state.restype = ctypes.POINTER(ctypes.c_int)
print(*libc.__res_state()[0:2])
"""
"""Prints what glibc's resolver begins with (resolv.h): seconds for a try, and how many tries."""


def _of_type(kind: str, template: Json | None = None) -> dict[str, Json]:
    """Return the properties of all resources of a kind, by name."""
    resources = (template or TEMPLATE)["Resources"]
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == f"AWS::{kind}"}


TEMPLATE = load_template("template.yaml")
DEPLOY = (ROOT / "docs/deploy.md").read_text("utf-8")
FUNCTIONS = {name.removesuffix("Function"): body for name, body in _of_type("Serverless::Function").items()}


def test_the_template_reads_as_a_run_goes() -> None:
    """Who looks for a state's function goes through the file as the machines do; what they call stands before them."""
    called = []
    for machine in MACHINES:
        text = (ROOT / f"statemachines/{machine}.asl.json").read_text("utf-8")
        called += [f"{name}Function" for name in dict.fromkeys(re.findall(r"\$\{(\w+)FunctionArn\}", text))]
    machines = [f"{machine.title()}StateMachine" for machine in MACHINES]
    entries = ["ReceiveEventsFunction", "SweepTargetsFunction", "Schedule", "HttpApiFunction", "NetworkStack"]
    expected = ["ResultsTable", "CoreLayer", "ReadTrialPolicy", *called, *machines, *entries]
    assert [name for name in TEMPLATE["Resources"] if name in expected] == expected
    assert len((ROOT / "template.yaml").read_text("utf-8").splitlines()) <= 1_870


def test_an_update_finds_what_holds_data() -> None:
    """Under another id, or in another stack, it would be made anew, empty; with a name of its own it could not be."""
    kinds = {"AWS::DynamoDB::Table": "TableName", "AWS::S3::Bucket": "BucketName"}
    holding = {name: body for name, body in TEMPLATE["Resources"].items() if body["Type"] in kinds}
    assert holding.keys() == {"ResultsTable", "RunsTable", "ResultsBucket", "FilesBucket", "TargetBucket"}
    assert [name for name, body in holding.items() if kinds[body["Type"]] in body["Properties"]] == []


def test_there_is_a_function_for_each_handler_and_no_other() -> None:
    """
    Log groups, policies and the receiver's address are made of their names, which are those of the states.

    Variants with an application's libraries share a handler: what a task is measured by must not depend on them.
    """
    stages = {name: re.sub(r"^(Run|Make)(Video|Learning)", r"\1", name) for name in FUNCTIONS}
    modules = {name: re.sub(r"(?<!^)([A-Z])", r"_\1", stage).lower() for name, stage in stages.items()}
    assert set(modules.values()) == {path.stem for path in (ROOT / "functions").glob("*.py")}
    for name, properties in FUNCTIONS.items():
        assert properties["FunctionName"] == {"Fn::Sub": f"${{AWS::StackName}}-{name}"}
        assert properties["Handler"] == f"{modules[name]}.handler"


def test_every_function_has_a_log_group_with_an_end() -> None:
    """One that Lambda makes itself keeps its lines for ever, and outlives the stack."""
    groups = _of_type("Logs::LogGroup")
    for name, properties in FUNCTIONS.items():
        group = groups[properties["LoggingConfig"]["LogGroup"]["Ref"]]
        assert group["LogGroupName"] == {"Fn::Sub": f"/aws/lambda/${{AWS::StackName}}-{name}"}
    assert all("RetentionInDays" in group for group in groups.values())


def test_every_machine_logs_into_a_group_of_the_stack() -> None:
    """Without its input and output: plans and results stay in its history (docs/decisions/0014)."""
    for name, properties in _of_type("Serverless::StateMachine").items():
        logging = properties["Logging"]
        assert not logging["IncludeExecutionData"], name
        (destination,) = logging["Destinations"]
        (group, attribute) = destination["CloudWatchLogsLogGroup"]["LogGroupArn"]["Fn::GetAtt"]
        assert (group in _of_type("Logs::LogGroup"), attribute) == (True, "Arn"), name


@pytest.mark.parametrize(
    "path", ["template.yaml", *sorted(f"stacks/{each.name}" for each in (ROOT / "stacks").glob("*"))]
)
def test_what_holds_data_says_what_becomes_of_it(path: str) -> None:
    """CloudFormation's own default keeps a snapshot of some, which costs for ever. Results alone outlive the stack."""
    holding = {name: body for name, body in load_template(path)["Resources"].items() if body["Type"] in HOLDING_DATA}
    for name, body in holding.items():
        policy = "Retain" if name in OUTLASTING else "Delete"
        assert (body.get("DeletionPolicy"), body.get("UpdateReplacePolicy")) == (policy, policy), name


def test_results_are_dropped_only_where_that_is_asked_for() -> None:
    """The function may delete measurements, so that of an ordinary stack has the right to files alone."""
    defaults = {name: TEMPLATE["Parameters"][name]["Default"] for name in ("KeepResults", "KeepFiles")}
    assert defaults == {"KeepResults": "true", "KeepFiles": "false"}
    resources = TEMPLATE["Resources"]
    conditions = {name: body["Condition"] for name, body in resources.items() if name.startswith("Drop")}
    assert conditions == {
        "DropResultsFunction": "DropsBuckets",
        "DropResultsLogs": "DropsBuckets",
        "DroppedResults": "DropsResults",
        "DroppedFiles": "DropsFiles",
    }
    both = {"Fn::Or": [{"Condition": "DropsResults"}, {"Condition": "DropsFiles"}]}
    assert TEMPLATE["Conditions"]["DropsBuckets"] == both
    calls_s = drop_results.PASSES * FUNCTIONS["DropResults"]["Timeout"]
    for name in ("Results", "Files"):
        asked = resources[f"Dropped{name}"]["Properties"]
        assert asked["Bucket"] == {"Ref": f"{name}Bucket"}
        assert calls_s <= asked["ServiceTimeout"] <= 3600
    for statement in statements(FUNCTIONS["DropResults"])[:2]:
        assert [each["Fn::If"][0] for each in statement["Resource"]] == ["DropsResults", "DropsFiles"]
        assert ["ResultsBucket" in str(each) for each in statement["Resource"]] == [True, False]


def test_tasks_time_out_after_their_functions() -> None:
    """The other way round Step Functions would go on while the function still works, or writes."""
    for machine in MACHINES:
        for state in load_machine(machine).tasks():
            timeout_s = FUNCTIONS[_function_of(state)]["Timeout"]
            assert state.definition["TimeoutSeconds"] > timeout_s, state.name


def _function_of(state: State) -> str:
    """Return which function a state invokes, which a wide level's states share with others."""
    return str(state.definition["Parameters"]["FunctionName"]).removeprefix("${").removesuffix("FunctionArn}")


@pytest.mark.parametrize("machine", MACHINES)
def test_substitutions_are_those_that_the_machine_uses(machine: str) -> None:
    """One that is missing stays in the definition as text, and fails at run time."""
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(load_machine(machine).definition)))
    properties = _of_type("Serverless::StateMachine")[f"{machine.title()}StateMachine"]
    assert set(properties["DefinitionSubstitutions"]) == used


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_may_invoke_its_functions_and_no_others(machine: str) -> None:
    """A function that is forgotten here fails on AWS only: the emulator enforces no permissions."""
    properties = _of_type("Serverless::StateMachine")[f"{machine.title()}StateMachine"]
    allowed = [one["Resource"] for one in statements(properties["Policies"], "lambda:InvokeFunction")]
    wanted = {f"{_function_of(state)}Function" for state in load_machine(machine).tasks()}
    assert {tuple(resource["Fn::GetAtt"]) for resource in allowed[0]} == {(name, "Arn") for name in wanted}


OF_CALLERS = {"TEAM_CLAIM", "TEAMS"}
OF_THE_API = {"BENCHMARK_ARN", *OF_CALLERS}


def test_only_the_api_knows_teams_and_with_the_sweeper_the_machine_that_runs_plans() -> None:
    """The machine's own functions cannot be given its ARN without a circle."""
    names = ("HttpApi", "ReportDataset", "SweepTargets")
    functions = (TEMPLATE["Resources"][f"{name}Function"]["Properties"] for name in names)
    given = [{name for name, value in each["Environment"]["Variables"].items() if value} for each in functions]
    assert given == [OF_THE_API, OF_CALLERS, {"BENCHMARK_ARN"}]


def test_the_environment_is_what_settings_read() -> None:
    """A variable with another name would be ignored, and the default used in silence."""
    given = set(TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]) | OF_THE_API
    of_host = {"LOAD_HOST"}
    of_lambda = {"AWS_REGION", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"}
    of_prices = {"STACK_OPTIONS"}  # AnalyseTrial's and RenderReport's: tests/unit/costs/test_standing.py
    of_collector = TEMPLATE["Resources"]["CollectLogsFunction"]["Properties"]["Environment"]["Variables"]
    of_failures = {name for name, value in of_collector.items() if value}
    assert of_failures == {"FAILURE_QUEUES"}
    of_copies = {"MEASURING_LAYER_ARN", "INVOKE_FAILURES_QUEUE_ARN"}
    preparing = TEMPLATE["Resources"]["PrepareTargetFunction"]["Properties"]["Environment"]["Variables"]
    assert {name for name, value in preparing.items() if value} == of_copies
    concluding = TEMPLATE["Resources"]["ConcludeRunFunction"]["Properties"]["Environment"]["Variables"]
    of_results = {name for name, value in concluding.items() if value}
    assert of_results == {"RESULT_METRICS"}
    elsewhere = of_lambda | of_host | of_prices | of_failures | of_copies | of_results
    assert given - {REGIONAL_S3} == {name.upper() for name in Settings.model_fields} - elsewhere


def test_an_endpoint_in_place_of_aws_is_set_only_where_one_is_given() -> None:
    """On AWS there is no such variable; `sam local` and other emulators take its name from here."""
    value = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]["AWS_ENDPOINT_URL"]
    assert value == {"Fn::If": ["HasAwsEndpoint", {"Ref": "AwsEndpointUrl"}, {"Ref": "AWS::NoValue"}]}
    assert TEMPLATE["Parameters"]["AwsEndpointUrl"]["Default"] == ""
    assert TEMPLATE["Conditions"]["HasAwsEndpoint"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "AwsEndpointUrl"}, ""]}]}


def test_every_function_goes_to_the_regions_own_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """In us-east-1 botocore's default is the global endpoint, which no gateway endpoint has to serve."""
    value = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"][REGIONAL_S3]
    monkeypatch.setenv(REGIONAL_S3, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    session = boto3.session.Session("x", "y", region_name="us-east-1")
    assert session.client("s3").meta.endpoint_url == "https://s3.us-east-1.amazonaws.com"


def test_no_star_where_a_name_can_stand() -> None:
    """By least privilege every `*` is for an action that knows no resource."""
    for statement in statements(TEMPLATE["Resources"]):
        actions = listed(statement["Action"])
        assert not any("*" in action for action in actions)
        if "Resource" in statement and "*" in statement["Resource"]:
            assert set(actions) <= NAMELESS


OF_ACCOUNT = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}"


def test_only_functions_that_are_named_are_read_and_only_copies_are_made_and_removed() -> None:
    """The function that is measured is somebody's production: nothing of ours may change or delete it."""
    changing = ("lambda:CreateFunction", "lambda:DeleteFunction", "lambda:PutFunctionConcurrency")
    copies = [{"Fn::Sub": f"{OF_ACCOUNT}:function:${{AWS::StackName}}-measured-*"}]
    for statement in statements(TEMPLATE["Resources"]):
        if {*listed(statement["Action"])} & {*changing}:
            assert statement["Resource"] == copies
        if "lambda:GetFunction" in listed(statement["Action"]):
            assert statement["Resource"] == {"Ref": "MeasuredFunctions"}
        if "iam:PassRole" in listed(statement["Action"]):
            assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}} or (
                statement["Resource"] != {"Ref": "MeasuredRoles"}
            )


def test_a_mapping_can_be_made_for_the_receivers_only() -> None:
    """The one `*` that would give something away has a condition: ours, and copies that trials have made."""
    mapping = [one for one in statements(TEMPLATE["Resources"]) if "EventSourceMapping" in str(one["Action"])]
    changing = [one for one in mapping if one["Action"] != "lambda:ListEventSourceMappings"]
    receivers = [{"Fn::GetAtt": [f"{name}Function", "Arn"]} for name in ("ReceiveEvents", "CheckClock")]
    copies = {"Fn::Sub": f"{OF_ACCOUNT}:function:${{AWS::StackName}}-measured-*"}
    condition = {"ArnLike": {"lambda:FunctionArn": [*receivers, copies]}}
    assert [one["Condition"] for one in changing] == [condition] * 3


def test_the_bucket_may_invoke_the_receiver_and_nobody_elses_bucket() -> None:
    """Without the account, whoever recreates a deleted bucket of that name could invoke it."""
    permission = _of_type("Lambda::Permission")["BucketMayInvokeReceiveEvents"]
    assert permission["SourceArn"] == {"Fn::GetAtt": ["TargetBucket", "Arn"]}
    assert permission["SourceAccount"] == {"Ref": "AWS::AccountId"}


def test_nothing_traces_on_the_measured_path() -> None:
    """Tracing costs time, in the middle of what is measured."""
    assert TEMPLATE["Globals"]["Function"]["Tracing"] == "Active"
    disabled = {name for name, body in FUNCTIONS.items() if body.get("Tracing") == "Disabled"}
    assert disabled == MEASURED


def test_the_clock_check_has_one_sandbox_and_writers_may_call_it() -> None:
    """A second sandbox would have a second clock."""
    reserved = FUNCTIONS["CheckClock"]["ReservedConcurrentExecutions"]
    assert reserved == {"Fn::If": ["WithClockCheck", 1, {"Ref": "AWS::NoValue"}]}
    policy = _of_type("IAM::ManagedPolicy")["WriteTargetPolicy"]["PolicyDocument"]
    (allowed,) = (one["Resource"] for one in statements(policy, "lambda:InvokeFunction"))
    assert allowed == {"Fn::GetAtt": ["CheckClockFunction", "Arn"]}


def test_the_clock_check_may_do_what_a_stream_receiver_does() -> None:
    """It reuses the receiver's stage, so it needs the receiver's rights to table, bucket and stream."""

    def rights(name: str) -> set[str]:
        return {json.dumps([one["Action"], one["Resource"]]) for one in statements(FUNCTIONS[name])}

    missing = [json.loads(each) for each in rights("ReceiveEvents") - rights("CheckClock")]
    assert [action for action, _ in missing] == ["sqs:SendMessage"]  # nothing invokes it asynchronously


def test_an_asynchronous_event_is_not_retried_and_not_lost() -> None:
    """Lambda's own retries come minutes later, and would be counted as latencies."""
    config = FUNCTIONS["ReceiveEvents"]["EventInvokeConfig"]
    assert config["MaximumRetryAttempts"] == 0
    assert config["MaximumEventAgeInSeconds"] <= 300
    assert config["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["InvokeFailuresQueue", "Arn"]}


def test_buckets_are_private_and_encrypted() -> None:
    """They must be so whatever the account's defaults are."""
    for bucket in _of_type("S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert bucket["BucketEncryption"]


def test_the_target_bucket_empties_itself() -> None:
    """It backs up a tear-down that never came; versions that are not current cost as much as those that are."""
    bucket = _of_type("S3::Bucket")["TargetBucket"]
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert rule["ExpirationInDays"] == 1
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}


def test_rows_and_code_of_users_do_not_stay_for_as_long_as_results() -> None:
    """Rows live on while runs begin with them, which store them again; a copy's code is needed for seconds."""
    rules = {
        rule.get("Prefix"): rule for rule in _of_type("S3::Bucket")["ResultsBucket"]["LifecycleConfiguration"]["Rules"]
    }
    assert {prefix: rule["ExpirationInDays"] for prefix, rule in rules.items() if prefix} == {VALUES: 100, PACKAGES: 1}
    assert COPIES.startswith(PACKAGES)
    assert rules[None]["ExpirationInDays"] == {"Ref": "ResultsRetentionDays"}


def test_every_ending_without_a_catch_starts_the_sweeper() -> None:
    """These are abort, time-out and uncatchable errors, of both machines."""
    rule = _of_type("Events::Rule")["UnfinishedExecutionsRule"]
    detail = rule["EventPattern"]["detail"]
    assert set(detail["status"]) == {"ABORTED", "TIMED_OUT", "FAILED"}
    assert detail["stateMachineArn"] == [{"Ref": "BenchmarkStateMachine"}, {"Ref": "TrialStateMachine"}]
    assert rule["Targets"][0]["Arn"] == {"Fn::GetAtt": ["SweepTargetsFunction", "Arn"]}


BY_MAKE = {"CoreLayer", "TracingLayer", "DrawingLayer", "AuthoritiesLayer", "PresetsLayer"}
OF_APPLICATIONS = {"VideoLayer", "LearningLayer"}
TARGET = "layers/applications/targets/${PythonRuntime}-${Architecture}"
"""The Makefile that installs wheels is told by the folder's name for which Python and processor."""


def test_there_is_a_folder_for_every_python_and_processor() -> None:
    """SAM CLI would fail on the one that is missing, with a message about a folder."""
    parameters = TEMPLATE["Parameters"]
    runtimes, architectures = (parameters[name]["AllowedValues"] for name in ("PythonRuntime", "Architecture"))
    targets = {f"{runtime}-{architecture}" for runtime in runtimes for architecture in architectures}
    assert {path.name for path in (ROOT / "layers/applications/targets").iterdir()} == targets


def test_layers_are_built_for_what_runs_them() -> None:
    """One parameter decides, so that an interpreter and its wheels cannot drift apart."""
    layers = {name: body for name, body in TEMPLATE["Resources"].items() if name.endswith("Layer")}
    assert len(layers) == 12
    measuring = layers.pop("MeasuringLayer")  # runs in functions of others: any processor's, and any version's
    assert measuring["Metadata"]["BuildMethod"] == "makefile"
    assert measuring["Properties"]["CompatibleArchitectures"] == ["x86_64", "arm64"]
    for name, layer in layers.items():
        assert layer["Metadata"] == {
            "BuildMethod": "makefile" if name in BY_MAKE | OF_APPLICATIONS else {"Ref": "PythonRuntime"},
            "BuildArchitecture": {"Ref": "Architecture"},
            **({"WorkingDirectory": {"Fn::Sub": TARGET}} if name in OF_APPLICATIONS else {}),
        }
        assert layer["Properties"]["CompatibleRuntimes"] == [{"Ref": "PythonRuntime"}]


def test_every_function_has_our_code_and_what_it_imports() -> None:
    """Our code and the libraries that all of it needs are two layers; Lambda takes five a function."""
    for name, properties in FUNCTIONS.items():
        assert properties["Layers"][:2] == [{"Ref": "CoreLayer"}, {"Ref": "LibrariesLayer"}], name
        assert len(properties["Layers"]) <= 5, name


LAYERS = ("core", "libraries", "tracing", "stores", "analysis", "export", "drawing")
LOCKS = (*(f"{name}/requirements.txt" for name in LAYERS), "applications/video.txt", "applications/learning.txt")


@pytest.mark.parametrize("lock", LOCKS)
def test_layers_hold_what_the_tests_ran_with(lock: str) -> None:
    """Otherwise the suite proves something about other versions than those that are deployed."""
    lines = (ROOT / "layers" / lock).read_text().splitlines()
    for line in lines:
        if line.startswith(("#", "    --hash=")) or not line.strip():
            continue
        pinned, _, marker = line.removesuffix(" \\").partition(" ; ")
        name, _, version = pinned.partition("==")
        if marker == 'python_version < "3.12"':
            assert name in OLD_GLIBC
        else:
            assert version == importlib.metadata.version(name), name


def test_the_layer_that_skips_dependencies_misses_none_but_botocore() -> None:
    """Its Makefile installs with --no-deps, so a new dependency would be missing on AWS only."""
    needed = {
        re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in importlib.metadata.requires("aws-xray-sdk") or ()
    }
    libraries = (ROOT / "layers/libraries/requirements.txt").read_text()
    assert needed == {"botocore", "wrapt"}
    assert re.search(r"^wrapt==", libraries, re.MULTILINE)


def test_what_traces_has_the_tracing_layer() -> None:
    """Powertools imports the SDK when the function's first invocation begins, not before."""
    tracing = {name for name, body in FUNCTIONS.items() if {"Ref": "TracingLayer"} in body["Layers"]}
    assert tracing == FUNCTIONS.keys() - MEASURED


def test_a_writer_ends_before_its_function() -> None:
    """Its time-out covers the longest lead, slice and drain, and an outage when the last files are stored."""
    lead_s = TEMPLATE["Parameters"]["LeadSeconds"]["MaxValue"]
    (bound,) = (each.le for each in Settings.model_fields["lead_s"].metadata if hasattr(each, "le"))
    assert bound == lead_s
    last_files_s = FINAL_TRIES * (FINAL_PAUSE_S + BOTO3_RETRIES_S)
    needed_s = lead_s + SLICE_S + Bench().grace_s + Bench().drain_s + last_files_s
    assert needed_s <= FUNCTIONS["RunWriter"]["Timeout"]


TEAR_DOWN_S = leftovers.CALL_LIMIT_S + max(CONTROL_LIMIT_S, 2 * TEAR_DOWN_TURN_S + DEFRAGMENT_LIMIT_S)
FORMER_S = prepare_target.FORMER_LIMIT_S + TEAR_DOWN_S
LARGEST_FILE_S = 300
"""To make one of 5,000 MiB, and to send or write it."""
REQUEST_S = 60
"""One request to table or bucket that hangs (`services.connect`)."""
OWN_LIMITS_S = {
    "ValidatePlan": application_traces.LIMIT_S,
    "PrepareTarget": FORMER_S + target_driver.REACH_LIMIT_S + PRELOAD_FOR_S + prepare_target.READY_LIMIT_S,
    "AwaitTarget": await_target.CALL_LIMIT_S + await_target.LOGGED_CANARY_LIMIT_S,
    "WatchChanges": WatchPace().turn_s + WatchPace().overlap_s + watch_changes.FINAL_TRIES * WatchPace().tick_s,
    "AwaitArrivals": await_arrivals.RETRY_S,
    "CollectLogs": collect_logs.BUDGET_NS / 1e9,
    "TearDownTarget": TEAR_DOWN_S,
    "SweepTargets": sweep_targets.SWEEP_LIMIT_S + TEAR_DOWN_S,
    "BootstrapDsql": bootstrap_dsql.BINDING_LIMIT_S,
    **dict.fromkeys(("HttpApi", "ReportDataset"), 20 - REQUEST_S),  # they ask with a patience of their own
    "DropResults": drop_results.LIMIT_S,
    "RefreshSandboxes": refresh_sandboxes.LIMIT_S,
    "SeedFiles": seed_files.BUDGET_S + LARGEST_FILE_S,
}
"""How long a stage that waits does so by its own limits."""


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"RunWriter", "RunTransfer", "ReceiveEvents", "CheckClock"}))
def test_a_stage_ends_before_its_function(name: str) -> None:
    """A time-out says nothing but that it was one; what the stage says at its own limit is lost."""
    assert OWN_LIMITS_S.get(name, 0) + REQUEST_S <= FUNCTIONS[name]["Timeout"]


@pytest.mark.parametrize("name", ["ReceiveEvents", "CheckClock"])
def test_a_receiver_gives_up_before_its_function_does(name: str) -> None:
    """The time-out would kill it, so that nothing is raised and Lambda's on-failure queue does not get the event."""
    function = FUNCTIONS[name]
    asked = [sys.executable, "-c", RESOLVER]
    found = subprocess.run(asked, env=function["Environment"]["Variables"], check=True, capture_output=True, text=True)
    try_s, tries = map(int, found.stdout.split())
    look_up_s = 2 * try_s * tries  # the name, and the name with the first domain of a search list
    assert look_up_s <= 4
    assert TABLE_RETRY.whole_s + look_up_s < BUCKET_RETRY.whole_s
    assert BUCKET_RETRY.whole_s + look_up_s < function["Timeout"]
    assert TABLE_RETRY.whole_s + 2 * look_up_s + ROUNDS * TIMEOUT_S < function["Timeout"]  # with the clock's host


@pytest.mark.parametrize(
    ("function", "policies"),
    {
        "ValidatePlan": {"WriteDocuments", "WriteRegister", "ReadQuotas"},
        "AwaitTurn": {"ReadTrial", "WriteRegister", "TakeTurns"},
        "ConcludeRun": {"ReadTrial", "WriteRegister", "TakeTurns"},
        "RenderReport": {"ReadTrial", "WriteDocuments"},
        "HttpApi": {"ReadTrial", "WriteRegister", "ReadQuotas"},
        "ReportDataset": set(),
        "PrepareTarget": RECORDING | {"WriteTarget", "DescribeTarget", "PrepareTarget", "ChangeCapacity"},
        "AwaitTarget": {"ReadTrial", "WriteDocuments", "WriteItems", "WriteTarget", "DescribeTarget"},
        "WatchChanges": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "ScaleTarget": {"ReadTrial", "WriteDocuments", "ChangeCapacity"},
        "PlanPhase": {"ReadTrial", "WriteDocuments"},
        "RunWriter": RECORDING | {"WriteTarget"},
        "SeedFiles": {"ReadTrial", "WriteItems"},
        "RefreshSandboxes": set(),
        "RunTransfer": {"RunTransfer"},
        "MakeInput": {"MakeInput"},
        "MakeVideoInput": {"MakeInput"},
        "MakeLearningInput": {"MakeInput"},
        "CheckPrecision": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "MeasureUtilisation": {"ReadTrial", "WriteDocuments"},
        "AwaitArrivals": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "CollectLogs": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "AnalyseTrial": {"ReadTrial", "WriteDocuments"},
        "ExportRecords": {"ReadTrial", "WriteDocuments"},
        "TearDownTarget": TEARING_DOWN,
        "SweepTargets": TEARING_DOWN,
        "BootstrapDsql": set(),
        "DropResults": set(),
        "ReceiveEvents": set(),
        "CheckClock": set(),
    }.items(),
)
def test_a_function_may_do_what_its_stage_does(function: str, policies: set[str]) -> None:
    """They are read off the stages: one more is a right too many, one less fails on AWS only."""
    attached = {each["Ref"].removesuffix("Policy") for each in FUNCTIONS[function]["Policies"] if "Ref" in each}
    assert attached == policies


def test_who_fetches_what_plans_name_reads_no_other_run_s_results() -> None:
    """An `s3://` address of the results bucket would copy another team's report into one's own run."""
    read = {
        json.dumps(each["Resource"]) for each in statements(TEMPLATE["Resources"]["MakeInputPolicy"], "s3:GetObject")
    }
    trials, inputs = (f"${{ResultsBucket.Arn}}/runs/*/{name}" for name in ("trials/*/trial.json", "dags/*"))
    files = "${FilesBucket.Arn}/*"
    assert read == {json.dumps([{"Fn::Sub": trials}, {"Fn::Sub": inputs}]), json.dumps({"Fn::Sub": files})}


def test_who_reports_datasets_sees_nothing_else_of_the_bucket() -> None:
    """Which files are the caller's to see is decided in that function alone."""
    given = [(one["Action"], one["Resource"], one.get("Condition")) for one in statements(FUNCTIONS["ReportDataset"])]
    assert given == [
        ("s3:GetObject", {"Fn::Sub": "${ResultsBucket.Arn}/datasets/*"}, None),
        ("s3:ListBucket", {"Fn::GetAtt": ["ResultsBucket", "Arn"]}, {"StringLike": {"s3:prefix": "datasets/*"}}),
    ]


@pytest.mark.parametrize(("integration", "function"), [("Api", "HttpApi"), ("Dataset", "ReportDataset")])
def test_the_gateway_calls_each_function_of_the_api_and_may_do_so(integration: str, function: str) -> None:
    """Without the right it answers 500, on AWS only."""
    called = TEMPLATE["Resources"][f"{integration}Integration"]["Properties"]["IntegrationUri"]
    allowed = TEMPLATE["Resources"][f"ApiMayInvoke{function}"]["Properties"]
    assert called == {"Fn::GetAtt": [f"{function}Function", "Arn"]}
    assert allowed["FunctionName"] == {"Ref": f"{function}Function"}
    assert "${Api}/*" in str(allowed["SourceArn"])


def test_roles_stay_below_the_quota_of_managed_policies() -> None:
    """A role has ten at most, and SAM adds up to three of AWS's own (logs, VPC, X-Ray)."""
    for name, body in FUNCTIONS.items():
        assert sum("Ref" in policy for policy in body["Policies"]) <= 7, name


def test_the_trial_machine_may_see_to_its_map_runs() -> None:
    """AWS's policy for Distributed Maps names the machine's executions; the children's carry the Map's label."""
    policies = _of_type("Serverless::StateMachine")["TrialStateMachine"]["Policies"]
    (resources,) = (one["Resource"] for one in statements(policies, "states:DescribeExecution"))
    endings = {resource["Fn::Sub"].partition(":execution:")[2] for resource in resources}
    assert endings == {"${AWS::StackName}-Trial:*", "${AWS::StackName}-Trial/OfferLoad:*"}


def test_functions_may_do_to_a_trial_s_table_what_operations_ask_for() -> None:
    """The emulator checks no rights: what is missing here is seen on AWS first, as AccessDeniedException."""
    requests, contents = OperationRequests("table"), Contents(Workload(record=ProductRecord(shape="product")), "tag")
    kinds = (Kind.READ, Kind.INSERT, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
    writing = [call for kind in kinds for call in requests.calls(contents.operation(kind, 1, 1))]
    preloading = [requests.batch([contents.preloaded(0)])]
    policies = _of_type("IAM::ManagedPolicy")
    for name, calls in {"WriteTargetPolicy": writing, "PrepareTargetPolicy": preloading}.items():
        asked = {f"dynamodb:{dict(call.form.headers)['x-amz-target'].partition('.')[2]}" for call in calls}
        allowed = statements(policies[name]["PolicyDocument"])
        assert asked <= {action for one in allowed for action in listed(one["Action"])}


def test_preparing_may_tear_down_what_a_trial_before_it_has_left() -> None:
    """It does so for an earlier trial of its run, and for its own when that is cancelled meanwhile."""

    def rights(*names: str) -> set[str]:
        policies = _of_type("IAM::ManagedPolicy")
        found = [one for name in names for one in statements(policies[f"{name}Policy"]["PolicyDocument"])]
        return {json.dumps([action, one["Resource"]]) for one in found for action in listed(one["Action"])}

    given = {each["Ref"].removesuffix("Policy") for each in FUNCTIONS["PrepareTarget"]["Policies"] if "Ref" in each}
    assert rights("TearDownTarget", "ReleaseLease") <= rights(*given)


def test_versions_are_deleted_with_both_rights() -> None:
    """S3's reference for DeleteObjects asks for s3:DeleteObject in any case."""
    document = _of_type("IAM::ManagedPolicy")["TearDownTargetPolicy"]["PolicyDocument"]
    (actions,) = (one["Action"] for one in statements(document, "s3:DeleteObjectVersion"))
    assert set(actions) == {"s3:DeleteObject", "s3:DeleteObjectVersion"}


@pytest.mark.parametrize("stack", ["aurora-postgresql", "etcd"])
def test_a_stack_of_servers_tells_the_metric_of_how_busy_they_are(stack: str) -> None:
    """`find_rate` reads it; CloudWatch takes a wrong name for a server that is silent."""
    loaded = load_template(f"stacks/{stack}.yaml")
    text = loaded["Outputs"]["Metric"]["Value"]["Fn::Sub"]
    metric = Metric.model_validate_json(re.sub(r"\$\{(\w+)\}", r"\1", text))
    named = [name for one in metric.dimensions for name in one.values()]
    kinds = {loaded["Resources"][name]["Type"] for name in named}
    assert (metric.period_s, metric.full, metric.metric) == (60, 100, "CPUUtilization")
    servers = {"aurora-postgresql": "AWS::RDS::DBInstance", "etcd": "AWS::EC2::Instance"}
    assert kinds == {servers[stack]}
    assert len(named) == sum(body["Type"] in kinds for body in loaded["Resources"].values())


def test_optional_stacks_are_off_and_go_with_the_stack() -> None:
    """They cost by the hour."""
    stacks = {
        name: body for name, body in TEMPLATE["Resources"].items() if body["Type"] == "AWS::CloudFormation::Stack"
    }
    assert {
        "ElastiCacheStack",
        "CassandraStack",
        "EtcdStack",
        "AuroraPostgresqlStack",
        "LoadHostStack",
    } <= stacks.keys()
    for name, body in stacks.items():
        assert body["DeletionPolicy"] == body["UpdateReplacePolicy"] == "Delete", name
        assert body["Condition"], name
        assert (ROOT / body["Properties"]["TemplateURL"]).is_file()
    for parameter in ("AuroraPostgresql", "EtcdNodes", "ElastiCache", "CassandraNode", "LoadHost", "Efs", "Fargate"):
        assert TEMPLATE["Parameters"][parameter]["Default"] == "off"


@pytest.mark.parametrize("stack", ["elasticache", "cassandra"])
def test_a_stores_stack_is_reached_by_the_networks_members_only(stack: str) -> None:
    """It asks for no password."""
    text = (ROOT / f"stacks/{stack}.yaml").read_text()
    loaded = load_template(f"stacks/{stack}.yaml")
    assert not _of_type("EC2::SecurityGroup", loaded)
    assert {"SubnetIds", "SecurityGroupId"} <= loaded["Parameters"].keys()
    assert "0.0.0.0/0" not in text


@pytest.mark.parametrize("stack", sorted(path.name for path in (ROOT / "stacks").glob("*.yaml")))
def test_ec2_takes_the_descriptions_of_security_groups(stack: str) -> None:
    """It refuses any other character (EC2 API Reference, IpRange), and no linter knows of it."""
    bodies = load_template(f"stacks/{stack}")["Resources"].values()
    found = [text for body in bodies if "SecurityGroup" in body["Type"] for text in _descriptions(body)]
    assert found or stack != "network.yaml"
    refused = [text for text in found if not re.fullmatch(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}", text)]
    assert refused == []


def _descriptions(node: object) -> list[str]:
    if isinstance(node, list):
        return [text for inner in node for text in _descriptions(inner)]
    if not isinstance(node, dict):
        return []
    own = [node[name] for name in ("Description", "GroupDescription") if name in node]
    return own + [text for inner in node.values() for text in _descriptions(inner)]


def test_a_nested_stack_is_given_what_it_asks_for() -> None:
    """What the root does not pass on is a setting that nobody can make; another name fails the deployment."""
    for name, properties in _of_type("CloudFormation::Stack").items():
        asked = load_template(properties["TemplateURL"])["Parameters"]
        needed = {parameter for parameter, body in asked.items() if "Default" not in body}
        assert needed <= properties.get("Parameters", {}).keys() <= asked.keys(), name


@pytest.mark.parametrize(
    ("parameter", "taken", "refused"),
    [
        ("AuroraInstanceClass", ["db.r6g.2xlarge", "db.t4g.medium", "db.r6id.large"], ["r6g.large", "db.r6g"]),
        ("AuroraEngineVersion", ["15.4", "15.10", "17.7"], ["15", "15.10.1", "aurora"]),
        ("EtcdInstanceType", ["i4i.2xlarge", "m7i-flex.large", "g4dn.xlarge"], ["i4g.large", "m6g.large", "a1.large"]),
        ("ElastiCacheNodeType", ["cache.r5.large", "cache.t4g.micro"], ["r5.large", "cache.r5"]),
        ("CassandraInstanceType", ["i3.large", "i7ie.large", "m6id.large"], ["im4gn.large", "x2gd.large", "i3"]),
    ],
)
def test_a_size_that_cannot_be_is_refused_before_anything_is_made(
    parameter: str, taken: list[str], refused: list[str]
) -> None:
    """An image for x86 does not start on Graviton, and the deployment would find out after minutes."""
    body = TEMPLATE["Parameters"][parameter]
    pattern = re.compile(body["AllowedPattern"])
    assert all(pattern.search(each) for each in [body["Default"], *taken])
    assert not any(pattern.search(each) for each in refused)


def test_every_parameter_is_described_for_who_deploys() -> None:
    """Run `python -m stepbench_tools.documents.pages docs/parameters.md`; a parameter needs a description."""
    page = (ROOT / "docs/parameters.md").read_text("utf-8")
    assert updated(page, ROOT) == page
    assert set(TEMPLATE["Parameters"]) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def test_a_stack_s_name_leaves_room_for_its_functions() -> None:
    """Lambda takes 64 characters."""
    found = re.findall(
        r"FunctionName: !Sub \$\{AWS::StackName\}(-\w+)$", (ROOT / "template.yaml").read_text(), re.MULTILINE
    )
    longest = max(map(len, found))
    assert f"two names, of at most {64 - longest}\ncharacters" in DEPLOY


def test_a_regression_is_sent_by_email_where_one_is_given() -> None:
    """The rule matches what is announced, reads fields that are there, and may publish to its topic."""
    named = {name: body for name, body in TEMPLATE["Resources"].items() if body.get("Condition") == "TellsRegressions"}
    assert set(named) == {
        "RegressionTopic",
        "RegressionSubscription",
        "RegressionRule",
        "EventsMayPublishRegressions",
    }
    rule = named["RegressionRule"]["Properties"]
    assert rule["EventPattern"]["source"] == [SOURCE]
    assert rule["EventPattern"]["detail-type"] == [REGRESSION_DETECTED]
    (target,) = rule["Targets"]
    run = RunRecord(
        run_id="r",
        team="t",
        plan="p",
        state="succeeded",
        submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
        regressed=("x",),
    )
    detail = event_detail(run, "bench")
    paths = target["InputTransformer"]["InputPathsMap"]
    for name, path in paths.items():
        assert path.removeprefix("$.detail.").partition("[")[0] in detail, name
    assert set(re.findall(r"<(\w+)>", json.loads(target["InputTransformer"]["InputTemplate"]))) == set(paths)
    (statement,) = named["EventsMayPublishRegressions"]["Properties"]["PolicyDocument"]["Statement"]
    assert "Condition" not in statement, "EventBridge delivers to no topic whose policy has one"
    assert "RoleArn" not in target


def test_a_schedule_starts_one_run_for_each_of_its_times() -> None:
    """A second delivery has another id, and the same time; what is sent is what StartExecution takes."""
    target = TEMPLATE["Resources"]["Schedule"]["Properties"]["Target"]
    assert target["Arn"] == {"Fn::Sub": "arn:${AWS::Partition}:scheduler:::aws-sdk:sfn:startExecution"}
    text = target["Input"]["Fn::Sub"]
    machine = "arn:aws:states:us-east-1:000000000000:stateMachine:stepbench-Benchmark"
    values = {"BenchmarkStateMachine": machine, "SchedulePlan": "quick-unloaded-s3"}
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    attributes = {
        "execution-id": "d32c5kddcf5bb8c3",
        "schedule-arn": "arn:aws:scheduler:us-east-1:000000000000:schedule/stepbench/nightly",
        "scheduled-time": "2022-03-22T18:59:43Z",
    }
    for name, value in attributes.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    sent = json.loads(text)
    given = {f"{name[0].lower()}{name[1:]}": value for name, value in sent.items()}
    shape = (
        botocore.session.get_session().get_service_model("stepfunctions").operation_model("StartExecution").input_shape
    )
    assert shape is not None
    assert not ParamValidator().validate(given, shape).has_errors()
    request = parse_request(json.loads(given["input"]))
    assert (request.plan, request.source, request.team) == ("quick-unloaded-s3", "schedule", "default")
    assert given["name"] == attributes["execution-id"]
    assert request.scheduled == f"{attributes['schedule-arn']} {attributes['scheduled-time']}"
