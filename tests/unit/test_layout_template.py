"""What lint cannot know of the template: that it agrees with machines, settings and layers, and grants no more."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepbench.clock_offset import ROUNDS, TIMEOUT_S
from stepbench.contracts.metric import Metric
from stepbench.contracts.plan import SLICE_S
from stepbench.contracts.workload import Kind, ProductRecord, Workload
from stepbench.drivers.operations.dynamodb_requests import Requests
from stepbench.load.operations import Contents
from stepbench.settings import Settings
from stepbench.stages.receive_events import BUCKET_PATIENCE, TABLE_PATIENCE
from stepbench.stages.run_writer import Bench

ROOT = Path(__file__).parents[2]
MEASURED = {"CheckClock", "ReceiveEvents", "RunWriter", "WatchChanges"}
NAMELESS = {
    "lambda:ListEventSourceMappings",
    "lambda:CreateEventSourceMapping",
    "dynamodb:ListStreams",
    "cloudwatch:GetMetricData",
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
    "xray:GetTraceSummaries",
    "xray:BatchGetTraces",
}
"""Actions for which AWS knows no resource, or none before it exists."""
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


class _Loader(yaml.SafeLoader):
    """Reads `!Ref X` as {"Ref": "X"}, and so on."""


def _tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {suffix: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {suffix: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {suffix: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tag)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """`template.yaml`."""
    loaded: dict[str, Any] = yaml.load((ROOT / "template.yaml").read_text(), _Loader)  # noqa: S506 -- a SafeLoader
    return loaded


def _of_type(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: body["Properties"] for name, body in template["Resources"].items() if body["Type"] == f"AWS::{kind}"}


def _functions(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = _of_type(template, "Serverless::Function")
    return {name.removesuffix("Function"): properties for name, properties in found.items()}


def _tasks(node: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 -- JSON
    """All states that call a function, by name."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(node, dict):
        states = node.get("States", {}).items()
        found = {name: state for name, state in states if state.get("Resource") == "arn:aws:states:::lambda:invoke"}
        for inner in node.values():
            found |= _tasks(inner)
    elif isinstance(node, list):
        for inner in node:
            found |= _tasks(inner)
    return found


def _machine_text(name: str) -> str:
    return (ROOT / f"statemachines/{name}.asl.json").read_text()


def _statements(node: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- YAML
    if isinstance(node, list):
        return [statement for inner in node for statement in _statements(inner)]
    if not isinstance(node, dict):
        return []
    own = [node] if "Effect" in node else []
    return own + [statement for inner in node.values() for statement in _statements(inner)]


def test_functions_are_named_after_their_states(template: dict[str, Any]) -> None:
    """Log groups, policies and the receiver's address are made of these names."""
    for name, properties in _functions(template).items():
        module = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        assert properties["FunctionName"] == {"Sub": f"${{AWS::StackName}}-{name}"}
        assert properties["Handler"] == f"{module}.handler"
        assert (ROOT / f"functions/{module}.py").is_file()


def test_there_is_a_function_for_each_handler(template: dict[str, Any]) -> None:
    """And no other."""
    modules = {properties["Handler"].split(".")[0] for properties in _functions(template).values()}
    assert modules == {path.stem for path in (ROOT / "functions").glob("*.py")}


def test_every_function_has_a_log_group_with_an_end(template: dict[str, Any]) -> None:
    """One that Lambda makes itself keeps its lines for ever, and outlives the stack."""
    groups = _of_type(template, "Logs::LogGroup")
    for name, properties in _functions(template).items():
        group = groups[properties["LoggingConfig"]["LogGroup"]["Ref"]]
        assert group["LogGroupName"] == {"Sub": f"/aws/lambda/${{AWS::StackName}}-{name}"}
    assert all("RetentionInDays" in group for group in groups.values())


def test_tasks_time_out_after_their_functions(template: dict[str, Any]) -> None:
    """The other way round Step Functions would go on while the function still works, or writes."""
    functions = _functions(template)
    for machine in ("benchmark", "trial"):
        for name, state in _tasks(json.loads(_machine_text(machine))).items():
            assert state["TimeoutSeconds"] > functions[name]["Timeout"], name


@pytest.mark.parametrize("machine", ["benchmark", "trial"])
def test_substitutions_are_those_that_the_machine_uses(template: dict[str, Any], machine: str) -> None:
    """One that is missing stays in the definition as text, and fails at run time."""
    used = set(re.findall(r"\$\{(\w+)\}", _machine_text(machine)))
    properties = _of_type(template, "Serverless::StateMachine")[f"{machine.title()}StateMachine"]
    assert set(properties["DefinitionSubstitutions"]) == used


@pytest.mark.parametrize("machine", ["benchmark", "trial"])
def test_a_machine_may_invoke_its_functions_and_no_others(template: dict[str, Any], machine: str) -> None:
    """A function that is forgotten here fails on AWS only: the emulator enforces no permissions."""
    properties = _of_type(template, "Serverless::StateMachine")[f"{machine.title()}StateMachine"]
    allowed = [
        one["Resource"] for one in _statements(properties["Policies"]) if one["Action"] == "lambda:InvokeFunction"
    ]
    wanted = {f"{name}Function.Arn" for name in _tasks(json.loads(_machine_text(machine)))}
    assert {resource["GetAtt"] for resource in allowed[0]} == wanted


def test_the_environment_is_what_settings_read(template: dict[str, Any]) -> None:
    """A variable with another name would be ignored, and the default used in silence."""
    given = set(template["Globals"]["Function"]["Environment"]["Variables"])
    of_lambda = {"AWS_REGION", "AWS_ENDPOINT_URL", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"}
    assert given == {name.upper() for name in Settings.model_fields} - of_lambda


def test_no_star_where_a_name_can_stand(template: dict[str, Any]) -> None:
    """Least privilege: every `*` is for an action that knows no resource."""
    for statement in _statements(template["Resources"]):
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        if "Resource" in statement and "*" in statement["Resource"]:
            assert set(actions) <= NAMELESS


def test_a_mapping_can_be_made_for_the_receivers_only(template: dict[str, Any]) -> None:
    """The one `*` that would give something away has a condition."""
    statements = [one for one in _statements(template["Resources"]) if "EventSourceMapping" in str(one["Action"])]
    changing = [one for one in statements if one["Action"] != "lambda:ListEventSourceMappings"]
    receivers = [{"GetAtt": f"{name}Function.Arn"} for name in ("ReceiveEvents", "CheckClock")]
    condition = {"ArnEquals": {"lambda:FunctionArn": receivers}}
    assert [one["Condition"] for one in changing] == [condition] * 2


def test_the_bucket_may_invoke_the_receiver_and_nobody_elses_bucket(template: dict[str, Any]) -> None:
    """Without the account, whoever recreates a deleted bucket of that name could invoke it."""
    permission = _of_type(template, "Lambda::Permission")["BucketMayInvokeReceiveEvents"]
    assert permission["SourceArn"] == {"GetAtt": "TargetBucket.Arn"}
    assert permission["SourceAccount"] == {"Ref": "AWS::AccountId"}


def test_nothing_traces_on_the_measured_path(template: dict[str, Any]) -> None:
    """Tracing costs time, in the middle of what is measured."""
    assert template["Globals"]["Function"]["Tracing"] == "Active"
    disabled = {name for name, body in _functions(template).items() if body.get("Tracing") == "Disabled"}
    assert disabled == MEASURED


def test_the_clock_check_has_one_sandbox_and_writers_may_call_it(template: dict[str, Any]) -> None:
    """A second sandbox would have a second clock."""
    reserved = _functions(template)["CheckClock"]["ReservedConcurrentExecutions"]
    assert reserved == {"If": ["WithClockCheck", 1, {"Ref": "AWS::NoValue"}]}
    policy = _of_type(template, "IAM::ManagedPolicy")["WriteTargetPolicy"]["PolicyDocument"]
    (allowed,) = (one["Resource"] for one in _statements(policy) if one["Action"] == "lambda:InvokeFunction")
    assert allowed == {"GetAtt": "CheckClockFunction.Arn"}


def test_the_clock_check_may_do_what_a_stream_receiver_does(template: dict[str, Any]) -> None:
    """It reuses the receiver's stage, so it needs the receiver's rights to table, bucket and stream."""

    def rights(name: str) -> set[str]:
        return {json.dumps([one["Action"], one["Resource"]]) for one in _statements(_functions(template)[name])}

    missing = [json.loads(each) for each in rights("ReceiveEvents") - rights("CheckClock")]
    assert [action for action, _ in missing] == ["sqs:SendMessage"]  # nothing invokes it asynchronously


def test_an_asynchronous_event_is_not_retried_and_not_lost(template: dict[str, Any]) -> None:
    """Lambda's own retries come minutes later, and would be counted as latencies."""
    config = _functions(template)["ReceiveEvents"]["EventInvokeConfig"]
    assert config["MaximumRetryAttempts"] == 0
    assert config["MaximumEventAgeInSeconds"] <= 300
    assert config["DestinationConfig"]["OnFailure"]["Destination"] == {"GetAtt": "InvokeFailuresQueue.Arn"}


def test_buckets_are_private_and_encrypted(template: dict[str, Any]) -> None:
    """Whatever the account's defaults are."""
    for bucket in _of_type(template, "S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert bucket["BucketEncryption"]


def test_the_target_bucket_empties_itself(template: dict[str, Any]) -> None:
    """It backs up a tear-down that never came; versions that are not current cost as much as those that are."""
    bucket = _of_type(template, "S3::Bucket")["TargetBucket"]
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert rule["ExpirationInDays"] == 1
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}


def test_every_ending_without_a_catch_starts_the_sweeper(template: dict[str, Any]) -> None:
    """Abort, time-out and uncatchable errors, of both machines."""
    rule = _of_type(template, "Events::Rule")["UnfinishedExecutionsRule"]
    detail = rule["EventPattern"]["detail"]
    assert set(detail["status"]) == {"ABORTED", "TIMED_OUT", "FAILED"}
    assert detail["stateMachineArn"] == [{"Ref": "BenchmarkStateMachine"}, {"Ref": "TrialStateMachine"}]
    assert rule["Targets"][0]["Arn"] == {"GetAtt": "SweepTargetsFunction.Arn"}


def test_layers_are_built_for_what_runs_them(template: dict[str, Any]) -> None:
    """One parameter decides, so that an interpreter and its wheels cannot drift apart."""
    layers = {name: body for name, body in template["Resources"].items() if name.endswith("Layer")}
    assert len(layers) == 7
    for name, layer in layers.items():
        assert layer["Metadata"] == {
            "BuildMethod": "makefile" if name in {"TracingLayer", "DrawingLayer"} else {"Ref": "PythonRuntime"},
            "BuildArchitecture": {"Ref": "Architecture"},
        }
        assert layer["Properties"]["CompatibleRuntimes"] == [{"Ref": "PythonRuntime"}]


@pytest.mark.parametrize("layer", ["core/src", "tracing", "stores", "analysis", "export", "report", "drawing"])
def test_layers_hold_what_the_tests_ran_with(layer: str) -> None:
    """Otherwise the suite proves something about other versions than those that are deployed."""
    lines = (ROOT / "layers" / layer / "requirements.txt").read_text().splitlines()
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        pinned, _, marker = line.partition(" ; ")
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
    core = (ROOT / "layers/core/src/requirements.txt").read_text()
    assert needed == {"botocore", "wrapt"}
    assert re.search(r"^wrapt==", core, re.MULTILINE)


def test_what_traces_has_the_tracing_layer(template: dict[str, Any]) -> None:
    """Powertools imports the SDK when the function's first invocation begins, not before."""
    functions = _functions(template).items()
    tracing = {name for name, body in functions if {"Ref": "TracingLayer"} in body["Layers"]}
    assert tracing == _functions(template).keys() - MEASURED


def test_a_writer_ends_before_its_function(template: dict[str, Any]) -> None:
    """The longest lead, slice and drain, and a minute for the last files."""
    lead_s = template["Parameters"]["LeadSeconds"]["MaxValue"]
    (bound,) = (each.le for each in Settings.model_fields["lead_s"].metadata if hasattr(each, "le"))
    assert bound == lead_s
    needed_s = lead_s + SLICE_S + Bench().grace_s + Bench().drain_s + 60
    assert needed_s <= _functions(template)["RunWriter"]["Timeout"]


@pytest.mark.parametrize("name", ["ReceiveEvents", "CheckClock"])
def test_a_receiver_gives_up_before_its_function_does(template: dict[str, Any], name: str) -> None:
    """Killed by the time-out it would raise nothing, and Lambda's on-failure queue would not get the event."""
    function = _functions(template)[name]
    asked = [sys.executable, "-c", RESOLVER]
    found = subprocess.run(asked, env=function["Environment"]["Variables"], check=True, capture_output=True, text=True)
    try_s, tries = map(int, found.stdout.split())
    look_up_s = 2 * try_s * tries  # the name, and the name with the first domain of a search list
    assert look_up_s <= 4
    assert TABLE_PATIENCE.whole_s + look_up_s < BUCKET_PATIENCE.whole_s
    assert BUCKET_PATIENCE.whole_s + look_up_s < function["Timeout"]
    assert TABLE_PATIENCE.whole_s + 2 * look_up_s + ROUNDS * TIMEOUT_S < function["Timeout"]  # with the clock's host


@pytest.mark.parametrize(
    ("function", "policies"),
    {
        "ValidatePlan": {"WriteDocuments"},
        "RenderReport": {"ReadTrial", "WriteDocuments"},
        "PrepareTarget": {
            "ReadTrial",
            "WriteDocuments",
            "WriteItems",
            "WriteTarget",
            "DescribeTarget",
            "PrepareTarget",
            "ChangeCapacity",
        },
        "AwaitTarget": {"ReadTrial", "WriteTarget", "DescribeTarget"},
        "WatchChanges": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "ScaleTarget": {"ReadTrial", "WriteDocuments", "ChangeCapacity"},
        "PlanPhase": {"ReadTrial", "WriteDocuments"},
        "RunWriter": {"ReadTrial", "WriteDocuments", "WriteItems", "WriteTarget"},
        "CheckPrecision": {"ReadTrial", "WriteDocuments", "WriteItems"},
        "MeasureUtilisation": {"ReadTrial", "WriteDocuments"},
        "AwaitArrivals": {"ReadTrial"},
        "CollectLogs": {"ReadTrial", "WriteDocuments"},
        "AnalyseTrial": {"ReadTrial", "WriteDocuments"},
        "ExportRecords": {"ReadTrial", "WriteDocuments"},
        "TearDownTarget": {
            "ReadTrial",
            "WriteDocuments",
            "WriteItems",
            "ReleaseLease",
            "DescribeTarget",
            "TearDownTarget",
            "ChangeCapacity",
        },
        "SweepTargets": {
            "ReadTrial",
            "WriteDocuments",
            "WriteItems",
            "ReleaseLease",
            "DescribeTarget",
            "TearDownTarget",
            "ChangeCapacity",
        },
        "BootstrapDsql": set(),
        "ReceiveEvents": set(),
        "CheckClock": set(),
    }.items(),
)
def test_a_function_may_do_what_its_stage_does(template: dict[str, Any], function: str, policies: set[str]) -> None:
    """As read off the stages: one more is a right too many, one less fails on AWS only."""
    attached = {
        each["Ref"].removesuffix("Policy") for each in _functions(template)[function]["Policies"] if "Ref" in each
    }
    assert attached == policies


def test_roles_stay_below_the_quota_of_managed_policies(template: dict[str, Any]) -> None:
    """Ten to a role; SAM adds up to three of AWS's own (logs, VPC, X-Ray)."""
    for name, body in _functions(template).items():
        assert sum("Ref" in policy for policy in body["Policies"]) <= 7, name


def test_the_trial_machine_may_see_to_its_map_runs(template: dict[str, Any]) -> None:
    """AWS's policy for Distributed Maps names the machine's executions; the children's carry the Map's label."""
    statements = _statements(_of_type(template, "Serverless::StateMachine")["TrialStateMachine"]["Policies"])
    (resources,) = (one["Resource"] for one in statements if "states:DescribeExecution" in one["Action"])
    endings = {resource["Sub"].partition(":execution:")[2] for resource in resources}
    assert endings == {"${AWS::StackName}-Trial:*", "${AWS::StackName}-Trial/OfferLoad:*"}


def test_functions_may_do_to_a_trial_s_table_what_operations_ask_for(template: dict[str, Any]) -> None:
    """The emulator checks no rights: what is missing here is seen on AWS first, as AccessDeniedException."""
    requests, contents = Requests("table"), Contents(Workload(record=ProductRecord(shape="product")), "tag")
    kinds = (Kind.READ, Kind.INSERT, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
    writing = [call for kind in kinds for call in requests.of(contents.operation(kind, 1, 1))]
    preloading = [requests.batch([contents.preloaded(0)])]
    policies = _of_type(template, "IAM::ManagedPolicy")
    for name, calls in {"WriteTargetPolicy": writing, "PrepareTargetPolicy": preloading}.items():
        asked = {f"dynamodb:{dict(call.form.headers)['x-amz-target'].partition('.')[2]}" for call in calls}
        statements = _statements(policies[name]["PolicyDocument"])
        assert asked <= {action for one in statements for action in _listed(one["Action"])}


def _listed(action: str | list[str]) -> list[str]:
    return [action] if isinstance(action, str) else action


def test_versions_are_deleted_with_both_rights(template: dict[str, Any]) -> None:
    """S3's reference for DeleteObjects asks for s3:DeleteObject in any case."""
    document = _of_type(template, "IAM::ManagedPolicy")["TearDownTargetPolicy"]["PolicyDocument"]
    (actions,) = (one["Action"] for one in _statements(document) if "s3:DeleteObjectVersion" in one["Action"])
    assert set(actions) == {"s3:DeleteObject", "s3:DeleteObjectVersion"}


@pytest.mark.parametrize("stack", ["aurora-postgresql", "etcd"])
def test_a_stack_of_servers_tells_the_metric_of_how_busy_they_are(stack: str) -> None:
    """`find_rate` reads it; CloudWatch takes a wrong name for a server that is silent."""
    loaded = yaml.load((ROOT / f"stacks/{stack}.yaml").read_text(), _Loader)  # noqa: S506 -- a SafeLoader
    text = loaded["Outputs"]["Metric"]["Value"]["Sub"]
    metric = Metric.model_validate_json(re.sub(r"\$\{(\w+)\}", r"\1", text))
    named = [name for one in metric.dimensions for name in one.values()]
    kinds = {loaded["Resources"][name]["Type"] for name in named}
    assert (metric.period_s, metric.full, metric.metric) == (60, 100, "CPUUtilization")
    servers = {"aurora-postgresql": "AWS::RDS::DBInstance", "etcd": "AWS::EC2::Instance"}
    assert kinds == {servers[stack]}
    assert len(named) == sum(body["Type"] in kinds for body in loaded["Resources"].values())


def test_optional_stacks_are_off_and_go_with_the_stack(template: dict[str, Any]) -> None:
    """They cost by the hour."""
    stacks = {
        name: body for name, body in template["Resources"].items() if body["Type"] == "AWS::CloudFormation::Stack"
    }
    assert {"ElastiCacheStack", "CassandraStack", "EtcdStack", "AuroraPostgresqlStack"} <= stacks.keys()
    for name, body in stacks.items():
        assert body["DeletionPolicy"] == body["UpdateReplacePolicy"] == "Delete", name
        assert body["Condition"], name
        assert (ROOT / body["Properties"]["TemplateURL"]).is_file()
    for parameter in ("AuroraPostgresql", "EtcdNodes", "ElastiCache", "CassandraNode"):
        assert template["Parameters"][parameter]["Default"] == "off"


@pytest.mark.parametrize("stack", ["cassandra", "etcd"])
def test_a_host_checks_what_it_fetches_and_has_no_key(stack: str) -> None:
    """Hosts have public addresses, to fetch from; nobody is to come in by them, or with what they fetch."""
    loaded = yaml.load((ROOT / f"stacks/{stack}.yaml").read_text(), _Loader)  # noqa: S506 -- a SafeLoader
    hosts = _of_type(loaded, "EC2::Instance")
    assert hosts
    for properties in hosts.values():
        script = str(properties["UserData"])
        assert "KeyName" not in properties
        assert properties["MetadataOptions"] == {"HttpTokens": "required"}
        assert script.index("sha256sum --check") < script.index("tar -xzf")


@pytest.mark.parametrize("stack", ["elasticache", "cassandra"])
def test_a_stores_stack_is_reached_by_the_networks_members_only(stack: str) -> None:
    """It asks for no password."""
    text = (ROOT / f"stacks/{stack}.yaml").read_text()
    loaded = yaml.load(text, _Loader)  # noqa: S506 -- a SafeLoader
    assert not _of_type(loaded, "EC2::SecurityGroup")
    assert {"SubnetIds", "SecurityGroupId"} <= loaded["Parameters"].keys()
    assert "0.0.0.0/0" not in text
