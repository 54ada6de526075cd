"""The stacks of transfers: files, file system, tasks, and the way between them, which is what is measured."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

from tests.samples.templates import ROOT, Json, load_template, statements
from tests.statemachines.conftest import load_machine

from stepbench.experiments.transfer.offering import FARGATE_GB, FARGATE_VCPU, LAMBDA_GB
from stepbench.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = load_template("template.yaml")
NETWORK, EFS, FARGATE = (load_template(f"stacks/{name}.yaml") for name in ("network", "efs", "fargate"))
RESOURCES = TEMPLATE["Resources"]
NOTHING = {"Ref": "AWS::NoValue"}
TRANSFERRING = ("RunTransfer", "SeedFiles")
STUB = """
import json, os
class Client:
    def get_layer_version_by_arn(self, Arn):
        return {"Content": {"Location": json.loads(os.environ["LOCATIONS"])[Arn]}}
def client(name):
    assert name == "lambda"
    return Client()
"""
PROGRAM = """
import importlib.util, os, sys
print(os.environ["TRANSFER_TASK"], importlib.util.find_spec("of_libraries") is not None, "boto3" in sys.modules)
"""


def _of_type(template: Json, kind: str) -> dict[str, Any]:
    bodies = template["Resources"].items()
    return {name: body["Properties"] for name, body in bodies if body["Type"] == f"AWS::{kind}"}


def _function(name: str) -> Any:  # noqa: ANN401 -- JSON
    return RESOURCES[f"{name}Function"]["Properties"]


def _container() -> Any:  # noqa: ANN401 -- JSON
    (definition,) = _of_type(FARGATE, "ECS::TaskDefinition").values()
    (container,) = definition["ContainerDefinitions"]
    return container


def _variables() -> dict[str, Any]:
    given = [each["Fn::If"][1] if "Fn::If" in each else each for each in _container()["Environment"]]
    return {each["Name"]: each["Value"] for each in given}


def test_files_come_by_the_gateway_endpoint_in_every_subnet() -> None:
    """A public address is for the image and the program alone: S3's own routes are narrower than the default route."""
    gateways = [
        each
        for each in _of_type(NETWORK, "EC2::VPCEndpoint").values()
        if each["ServiceName"]["Fn::Sub"].endswith(".s3")
    ]
    assert [each["VpcEndpointType"] for each in gateways] == ["Gateway"]
    routed = _of_type(NETWORK, "EC2::SubnetRouteTableAssociation").values()
    tables = {each["SubnetId"]["Ref"]: each["RouteTableId"] for each in routed}
    assert tables.keys() == _of_type(NETWORK, "EC2::Subnet").keys()
    assert all(table in gateways[0]["RouteTableIds"] for table in tables.values())
    assert "Condition" not in NETWORK["Resources"]["S3Endpoint"]


def test_transfers_in_lambda_and_in_tasks_are_in_the_same_network() -> None:
    """Else they would be compared by the way that their bytes take."""
    substitutions = RESOURCES["TrialStateMachine"]["Properties"]["DefinitionSubstitutions"]
    subnets = {"Fn::GetAtt": ["NetworkStack", "Outputs.SubnetIds"]}
    group = {"Fn::GetAtt": ["NetworkStack", "Outputs.SecurityGroupId"]}
    assert substitutions["TransferSubnetIds"] == {"Fn::If": ["WithFargate", subnets, "off"]}
    assert substitutions["TransferSecurityGroupId"] == {"Fn::If": ["WithFargate", group, "off"]}
    placed = {"SubnetIds": {"Fn::Split": [",", subnets]}, "SecurityGroupIds": [group]}
    for name in TRANSFERRING:
        assert _function(name)["VpcConfig"] == {"Fn::If": ["TransfersInVpc", placed, NOTHING]}


def test_a_network_for_transfers_alone_costs_nothing_by_the_hour() -> None:
    """Neither function nor task calls more of AWS than S3 and DynamoDB, whose endpoints are free."""
    given = RESOURCES["NetworkStack"]["Properties"]["Parameters"]["Endpoints"]
    assert given == {"Fn::If": ["NeedsEndpoints", "true", "false"]}
    needing = TEMPLATE["Conditions"]["NeedsEndpoints"]["Fn::Or"]
    assert needing == [{"Condition": "WithNetwork"}, {"Condition": "WithLoadHost"}]
    bodies = NETWORK["Resources"].values()
    billed = [each for each in bodies if each.get("Properties", {}).get("VpcEndpointType") == "Interface"]
    assert {each["Condition"] for each in billed} == {"WithEndpoints", "WithAurora", "WithSystemsManager", "WithLogs"}
    assert RESOURCES["NetworkStack"]["Properties"]["Parameters"]["SystemsManager"] == {
        "Fn::If": ["WithCassandra", "true", "false"]
    }
    assert TEMPLATE["Conditions"]["WithNetwork"]["Fn::Or"][0] == {"Condition": "WithAurora"}


def test_without_efs_and_fargate_a_stack_has_a_bucket_and_idle_functions_more() -> None:
    """Nothing that is billed while nobody runs a plan of transfers."""
    for switch in ("Efs", "Fargate"):
        assert TEMPLATE["Parameters"][switch]["Default"] == "off"
    conditions = {name: RESOURCES[name]["Condition"] for name in ("EfsStack", "FargateStack", "TransferTaskRole")}
    assert conditions == {"EfsStack": "WithEfs", "FargateStack": "WithFargate", "TransferTaskRole": "WithFargate"}
    for name in TRANSFERRING:
        assert _function(name)["FileSystemConfigs"]["Fn::If"][::2] == ["WithEfs", NOTHING]
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["TRANSFER_PLATFORMS"] == {"Fn::If": ["WithFargate", "lambda,fargate", "lambda"]}
    assert variables["FILES_FOLDER"] == {"Fn::If": ["WithEfs", "/mnt/files", {"Ref": "FilesFolder"}]}


def test_the_file_system_is_the_published_one() -> None:
    """General purpose, elastic throughput, encrypted, and mounted by an access point, in each zone."""
    (system,) = _of_type(EFS, "EFS::FileSystem").values()
    settings = (system["PerformanceMode"], system["ThroughputMode"], system["Encrypted"])
    assert settings == ("generalPurpose", "elastic", True)
    mounts = _of_type(EFS, "EFS::MountTarget").values()
    assert [each["SubnetId"]["Fn::Select"][0] for each in mounts] == [0, 1, 2]
    assert {json.dumps(each["SecurityGroups"]) for each in mounts} == {'[{"Ref": "Mounts"}]'}
    (group,) = _of_type(EFS, "EC2::SecurityGroup").values()
    (rule,) = group["SecurityGroupIngress"]
    assert (rule["FromPort"], rule["ToPort"]) == (2049, 2049)
    assert rule["SourceSecurityGroupId"] == {"Ref": "ClientSecurityGroupId"}


def test_the_file_system_serves_nobody_without_a_role_that_may() -> None:
    """A policy without an Allow leaves what roles allow; without a policy any client in the network would be served."""
    (system,) = _of_type(EFS, "EFS::FileSystem").values()
    effects = [each["Effect"] for each in system["FileSystemPolicy"]["Statement"]]
    assert effects == ["Deny"]
    assert "aws:SecureTransport" in str(system["FileSystemPolicy"])


def test_only_who_seeds_may_write_to_the_file_system() -> None:
    """A transfer that wrote would measure something else."""
    writing = [
        name
        for name, body in RESOURCES.items()
        if any("elasticfilesystem:ClientWrite" in str(one["Action"]) for one in statements(body))
    ]
    assert writing == ["SeedFilesFunction"]
    of_point = {
        "StringEquals": {"elasticfilesystem:AccessPointArn": {"Fn::GetAtt": ["EfsStack", "Outputs.AccessPointArn"]}}
    }
    mounting = [one for one in statements(RESOURCES) if "elasticfilesystem:Client" in str(one["Action"])]
    assert [one["Condition"] for one in mounting] == [of_point] * 2


def test_function_and_task_have_the_published_sizes_where_every_account_may() -> None:
    """8 vCPU and 32 GB, and of the function 10,240 MB, which a new account refuses; the estimate counts on them."""
    sizes = {
        name: TEMPLATE["Parameters"][name]["Default"] for name in ("TransferMemorySize", "FargateCpu", "FargateMemory")
    }
    assert sizes == {"TransferMemorySize": 3_008, "FargateCpu": 8_192, "FargateMemory": 32_768}
    assert _function("RunTransfer")["MemorySize"] == {"Ref": "TransferMemorySize"}
    assert f"TransferMemorySize={LAMBDA_GB * 1_024} " in (ROOT / "docs/published.md").read_text("utf-8")
    assert (sizes["FargateCpu"], sizes["FargateMemory"]) == (FARGATE_VCPU * 1_024, FARGATE_GB * 1_024)


def test_function_and_task_run_one_artefact_with_the_same_rights() -> None:
    """Layers of the function are what the task fetches; its role has the function's policy, and reads those layers."""
    layers = _function("RunTransfer")["Layers"]
    given = RESOURCES["FargateStack"]["Properties"]["Parameters"]
    assert given["LayerArns"] == {"Fn::Join": [",", layers]}
    role = RESOURCES["TransferTaskRole"]["Properties"]
    assert role["ManagedPolicyArns"] == _function("RunTransfer")["Policies"] == [{"Ref": "RunTransferPolicy"}]
    (fetching,) = statements(role["Policies"])
    assert (fetching["Action"], fetching["Resource"]) == ("lambda:GetLayerVersion", layers)


def test_the_task_has_the_function_s_variables() -> None:
    """As far as a transfer reads them; each is a setting, or botocore's, or the bootstrap's own."""
    names = {name.lower() for name in _variables()}
    assert {"results_table", "results_bucket", "files_folder", "aws_region", "aws_endpoint_url"} <= names
    assert names - Settings.model_fields.keys() == {"layers", "aws_default_region", "pythonunbuffered"}


def test_the_machine_overrides_the_container_that_there_is() -> None:
    """Another name is refused when the first task is started."""
    overrides = load_machine("trial")["RunTransferTask"].definition["Parameters"]["Overrides"]
    assert [each["Name"] for each in overrides["ContainerOverrides"]] == [_container()["Name"]]


def test_the_image_is_of_the_interpreter_that_the_layers_are_built_for() -> None:
    """Lambda's own, in its public place; a wheel for another version or machine would not be imported."""
    text, values = _container()["Image"]["Fn::Sub"]
    assert text == "public.ecr.aws/lambda/python:${Version}-${Architecture}"
    assert values == {"Version": {"Fn::Select": [1, {"Fn::Split": ["python", {"Ref": "PythonRuntime"}]}]}}
    assert (
        FARGATE["Parameters"]["Architecture"]["AllowedValues"]
        == TEMPLATE["Parameters"]["Architecture"]["AllowedValues"]
    )
    assert [each.split("python")[1] for each in TEMPLATE["Parameters"]["PythonRuntime"]["AllowedValues"]][2] == "3.13"


def test_a_task_hears_sigterm() -> None:
    """The first process of a container ignores what it has no handler for; so does Python before it has set one."""
    assert _container()["LinuxParameters"] == {"InitProcessEnabled": True}
    assert 2 <= _container()["StopTimeout"] <= 120


def test_a_task_s_log_is_where_the_logs_are_collected() -> None:
    """CollectLogs may read it, and no group of anybody else's."""
    (group,) = _of_type(FARGATE, "Logs::LogGroup").values()
    assert group["LogGroupName"] == {"Fn::Sub": "/aws/ecs/${Stack}-RunTransferTask"}
    options = _container()["LogConfiguration"]["Options"]
    assert options["awslogs-group"] == {"Ref": "Logs"}
    (allowed,) = (one["Resource"] for one in statements(_function("CollectLogs"), "logs:FilterLogEvents"))
    condition, tasks, otherwise = allowed[1]["Fn::If"]
    assert (condition, otherwise) == ("WithFargate", NOTHING)
    assert tasks["Fn::Sub"].endswith(":log-group:/aws/ecs/${AWS::StackName}-*")


def test_the_machine_may_run_stop_and_see_its_tasks_and_no_others() -> None:
    """What `.sync` asks for, by AWS's page on it; StopTask and DescribeTasks there have a star, here the cluster."""
    found = statements(RESOURCES["TrialStateMachine"]["Properties"]["Policies"])
    ours = {json.dumps(one["Action"]): one for one in found if re.search("ecs:|iam:|events:", str(one["Action"]))}
    assert ours.keys() == {
        '"ecs:RunTask"',
        '["ecs:StopTask", "ecs:DescribeTasks"]',
        '"iam:PassRole"',
        '["events:PutTargets", "events:PutRule", "events:DescribeRule"]',
    }
    assert ours['"ecs:RunTask"']["Resource"] == {"Fn::GetAtt": ["FargateStack", "Outputs.TaskDefinitionArn"]}
    assert ours['["ecs:StopTask", "ecs:DescribeTasks"]']["Resource"]["Fn::Sub"].endswith(":task/${AWS::StackName}/*")
    (cluster,) = _of_type(FARGATE, "ECS::Cluster").values()
    assert cluster["ClusterName"] == {"Ref": "Stack"}
    passed = ours['"iam:PassRole"']
    assert passed["Resource"] == [
        {"Fn::GetAtt": ["TransferTaskRole", "Arn"]},
        {"Fn::GetAtt": ["FargateStack", "Outputs.ExecutionRoleArn"]},
    ]
    assert passed["Condition"] == {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}


def test_the_machine_may_make_the_managed_rule_whether_there_are_tasks_or_not() -> None:
    """AWS asks for that right when a machine with `.sync` is made, and refuses the machine, whatever it will run."""
    (own,) = (each for each in RESOURCES["TrialStateMachine"]["Properties"]["Policies"] if "Statement" in each)
    given = [each for each in own["Statement"] if "Fn::If" not in each]
    rules = [each for each in given if "StepFunctionsGetEventsForECSTaskRule" in str(each["Resource"])]
    assert [sorted(each["Action"]) for each in rules] == [
        ["events:DescribeRule", "events:PutRule", "events:PutTargets"]
    ]


def test_a_new_sandbox_is_made_of_one_function_only() -> None:
    """Who may change a function's configuration may have it run anything."""
    changing = [one for one in statements(RESOURCES) if "lambda:UpdateFunctionConfiguration" in str(one["Action"])]
    assert [one["Resource"] for one in changing] == [{"Fn::GetAtt": ["RunTransferFunction", "Arn"]}]


RAN = {
    **{f"stepbench/{folder}__init__.py": "" for folder in ("", "experiments/", "experiments/transfer/")},
    "stepbench/experiments/transfer/program.py": PROGRAM,
}
"""In place of the package, with the program in place of its package."""


def test_a_task_fetches_the_layers_and_becomes_the_program(tmp_path: Path) -> None:
    """What the template has the image run, run: both layers are unpacked over each other, and boto3 is gone by then."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    files = {
        "core": {f"python/{path}": text for path, text in RAN.items()},
        "libraries": {f"python/lib/{version}/site-packages/of_libraries.py": ""},
    }
    for name, content in files.items():
        (tmp_path / f"{name}.zip").write_bytes(_zipped(content))
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "boto3.py").write_text(STUB)
    (script,) = _container()["Command"]
    environment = {
        "LAYERS": "core,libraries",
        "LOCATIONS": json.dumps({name: f"file://{tmp_path}/{name}.zip" for name in files}),
        "TRANSFER_TASK": "the-task",
        "PYTHONPATH": str(tmp_path / "stub"),
    }
    unpacked = script.replace("/tmp/layers", str(tmp_path / "layers"))  # noqa: S108 -- the image's own
    command = [sys.executable, "-S", "-c", unpacked]  # without site: this environment's stepbench is not there
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("the-task True False\n", "", 0)


def test_a_task_whose_layers_are_there_fetches_nothing(tmp_path: Path) -> None:
    """On one machine they are unpacked once for all tasks."""
    for path, text in RAN.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (script,) = _container()["Command"]
    environment = {"TRANSFER_TASK": "the-task", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("the-task False False\n", "", 0)


def _zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_parts_of_an_upload_that_was_killed_go_after_a_day() -> None:
    """SeedFiles may not list uploads, and would pay for such parts as long as the bucket is there."""
    (rule,) = RESOURCES["FilesBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["AbortIncompleteMultipartUpload"]) == ("Enabled", {"DaysAfterInitiation": 1})
    assert "Prefix" not in rule
