"""The hosts of the stacks: what they run when they begin, are started again, and are replaced."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any, NamedTuple

import pytest
from botocore.loaders import Loader
from tests.samples.templates import ROOT, Json, load_template, statements
from tests.statemachines.conftest import load_machine

from stepbench.contracts.rules.etcd import COMPACTION_S, QUOTA_BYTES
from stepbench.load_host.__main__ import build_parser
from stepbench.load_host.host import BEAT_S
from stepbench.stages.plan_phase import LOAD_HOST_SILENT_S

STACKS = pytest.mark.parametrize("stack", ["cassandra", "etcd", "load-host"])
HEREDOC = r"^cat > (\S+) <<'?EOF'?\n(.*?)^EOF$"


class Hosts(NamedTuple):
    """A stack, its hosts' launch template, and what that has them run, as CloudFormation substitutes it."""

    stack: Json
    template: str
    data: Json
    script: str

    def of_type(self, kind: str) -> dict[str, Json]:
        """Return the properties of the stack's resources of a kind, by name."""
        bodies = self.stack["Resources"].items()
        return {name: body["Properties"] for name, body in bodies if body["Type"] == f"AWS::{kind}"}

    def written(self, path: str) -> str:
        """Return a file that the script writes."""
        found = dict(re.findall(HEREDOC, self.script, re.MULTILINE | re.DOTALL))
        return str(found[path])


def hosts_of(stack: str) -> Hosts:
    """Return the hosts of `stacks/<stack>.yaml`, with its defaults."""
    loaded = load_template(f"stacks/{stack}.yaml")
    ((name, body),) = (
        (name, body) for name, body in loaded["Resources"].items() if body["Type"] == "AWS::EC2::LaunchTemplate"
    )
    data = body["Properties"]["LaunchTemplateData"]
    values = {name: str(parameter.get("Default", name)) for name, parameter in loaded["Parameters"].items()}
    values |= {"AWS::Region": "us-east-1", "AWS::StackName": "stepbench"}
    text = data["UserData"]["Fn::Base64"]["Fn::Sub"]
    return Hosts(loaded, name, data, re.sub(r"\$\{([^!}]+)\}", lambda found: values[found[1]], text))


def checked(script: str) -> str:
    """Return what bash has against a script, which it does not run."""
    return subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).stderr


@STACKS
def test_what_a_host_runs_is_shell(stack: str) -> None:
    """Nobody sees it fail but who waits for the stack."""
    hosts = hosts_of(stack)
    assert hosts.script.startswith("#!/bin/bash\nset -euo pipefail\n")
    inner = [text for _, text in re.findall(HEREDOC, hosts.script, re.MULTILINE | re.DOTALL) if text.startswith("#!")]
    assert [checked(each) for each in (hosts.script, *inner)] == [""] * (1 + len(inner))
    assert checked("if true; then") != ""


@STACKS
def test_a_host_checks_what_it_fetches_and_has_no_key(stack: str) -> None:
    """Hosts have public addresses, to fetch from; nobody is to come in by them, or with what they fetch."""
    hosts = hosts_of(stack)
    assert "KeyName" not in hosts.data
    assert hosts.data["MetadataOptions"]["HttpTokens"] == "required"
    assert hosts.script.index("sha256sum --check") < hosts.script.index("tar -xzf")


@STACKS
def test_no_update_replaces_a_host_unasked(stack: str) -> None:
    """An alias that means the latest image, resolved at each update, replaces hosts whenever there is a newer one."""
    hosts = hosts_of(stack)
    image = hosts.data["ImageId"]
    image = image if isinstance(image, str) else image["Fn::Sub"]
    assert re.fullmatch(r"resolve:ssm:/aws/service/canonical/\S+/stable/2\d{7}/\S+/ami-id", image)
    assert not any("SSM" in parameter["Type"] for parameter in hosts.stack["Parameters"].values())
    version = {"Fn::GetAtt": [hosts.template, "LatestVersionNumber"]}
    for properties in hosts.of_type("EC2::Instance").values():
        assert properties["LaunchTemplate"] == {"LaunchTemplateId": {"Ref": hosts.template}, "Version": version}
        assert "ImageId" not in properties


@STACKS
def test_a_host_can_be_replaced(stack: str) -> None:
    """The new one is made before the old one goes: what only one of them can have would fail it."""
    hosts = hosts_of(stack)
    assert not hosts.of_type("EC2::NetworkInterface")
    assert not hosts.of_type("EC2::Volume")
    for properties in hosts.of_type("EC2::Instance").values():
        (interface,) = properties["NetworkInterfaces"]
        assert interface.keys() == {"DeviceIndex", "SubnetId", "GroupSet", "AssociatePublicIpAddress"}
    assert "10.73." not in hosts.script


@STACKS
def test_a_host_serves_again_when_it_is_started_again(stack: str) -> None:
    """User data runs once; only what is enabled is there after a stop."""
    hosts = hosts_of(stack)
    assert "systemd-run" not in hosts.script
    assert re.search(rf"^systemctl( --no-block)? enable --now {stack}$", hosts.script, re.MULTILINE)
    unit = hosts.written(f"/etc/systemd/system/{stack}.service")
    assert {"Restart=always", "StartLimitIntervalSec=0", "WantedBy=multi-user.target"} <= set(unit.splitlines())


def test_an_empty_disk_is_formatted_at_each_start() -> None:
    """A host's own disk has lost all when it was stopped, the file system included; after a reboot it has it still."""
    hosts = hosts_of("cassandra")
    script = "/usr/local/sbin/cassandra-disk"
    assert f"ExecStartPre=+{script}\n" in hosts.written("/etc/systemd/system/cassandra.service")
    assert 'blkid "$disk" > /dev/null || mkfs.xfs' in hosts.written(script)


@pytest.mark.parametrize("stack", ["cassandra", "load-host"])
def test_a_host_that_serves_may_say_so(stack: str) -> None:
    """Without the right, or with a field that is none, the stack fails after a quarter of an hour for nothing."""
    hosts = hosts_of(stack)
    (call,) = re.findall(r"signal_resource\((.+?)\)'", hosts.script, re.DOTALL)
    shapes = Loader().load_service_model("cloudformation", "service-2")["shapes"]
    given = dict(re.findall(r"(\w+)=([^,)]+)", call))
    assert given.keys() == set(shapes["SignalResourceInput"]["required"])
    assert given["LogicalResourceId"].strip('"') in hosts.of_type("EC2::Instance")
    assert set(re.findall(r"\btell (\w+)", hosts.script)) == set(shapes["ResourceSignalStatus"]["enum"])
    (right,) = statements(hosts.stack, "cloudformation:SignalResource")
    assert right["Resource"] == {"Ref": "AWS::StackId"}
    assert hosts.stack["Resources"]["Host"]["CreationPolicy"]["ResourceSignal"]["Count"] == 1


def _flags(unit: str) -> dict[str, str]:
    (command,) = re.findall(r"^ExecStart=(.+)", unit.replace("\\\n", ""), re.MULTILINE)
    words = shlex.split(command)[1:]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_nodes_have_the_space_that_plans_are_held_against() -> None:
    """With etcd's own 2 GiB, a plan that was let through would be refused by the store."""
    hosts = hosts_of("etcd")
    flags = _flags(hosts.written("/etc/systemd/system/etcd.service"))
    assert flags["--quota-backend-bytes"] == str(QUOTA_BYTES)
    assert flags["--auto-compaction-mode"] == "periodic"
    assert flags["--auto-compaction-retention"] == f"{COMPACTION_S}s"
    (disk,) = hosts.data["BlockDeviceMappings"]
    assert disk["Ebs"]["VolumeSize"] * 2**30 > 2 * QUOTA_BYTES + 16 * 2**30


def test_nodes_find_each_other_by_their_tags_and_names() -> None:
    """Each is told apart by a tag; a name that is in one place only would keep the cluster from beginning."""
    hosts = hosts_of("etcd")
    nodes = hosts.of_type("EC2::Instance")
    tags: dict[str, dict[str, Any]] = {
        name: {tag["Key"]: tag["Value"] for tag in properties["Tags"]} for name, properties in nodes.items()
    }
    generation = {"Fn::GetAtt": [hosts.template, "LatestVersionNumber"]}
    assert {each["Member"]: each["Generation"] for each in tags.values()} == dict.fromkeys("abc", generation)
    assert hosts.data["MetadataOptions"]["InstanceMetadataTags"] == "enabled"
    assert set(re.findall(r"=\$\(tag (\w+)\)", hosts.script)) == {"Member", "Generation"}
    (group,) = hosts.of_type("Route53::RecordSetGroup").values()
    addresses = {record["Name"]: record["ResourceRecords"] for record in group["RecordSets"]}
    (zone,) = (properties["Name"] for properties in hosts.of_type("Route53::HostedZone").values())
    assert addresses == {f"{tag['Member']}.{zone}": [{"Fn::GetAtt": [name, "PrivateIp"]}] for name, tag in tags.items()}
    flags = _flags(hosts.written("/etc/systemd/system/etcd.service"))
    assert flags["--initial-cluster"] == ",".join(f"{each}=http://{each}.{zone}:2380" for each in "abc")
    assert flags["--initial-advertise-peer-urls"] == f"http://$member.{zone}:2380"
    assert flags["--initial-cluster-token"] == "stepbench-$generation"
    assert {"Ref": "SubnetIds"} in hosts.data["TagSpecifications"][0]["Tags"][0]["Value"]["Fn::Join"]
    subnets = [properties["NetworkInterfaces"][0]["SubnetId"] for properties in nodes.values()]
    assert subnets == [{"Fn::Select": [number, {"Ref": "SubnetIds"}]} for number in range(3)]


def test_a_name_is_never_unknown() -> None:
    """A node asks for its peers before they have addresses, and resolvers remember a "no such name" for 15 minutes."""
    hosts = hosts_of("etcd")
    (wildcard,) = (name for name, each in hosts.of_type("Route53::RecordSet").items() if each["Name"].startswith("*."))
    instances = [body for body in hosts.stack["Resources"].values() if body["Type"] == "AWS::EC2::Instance"]
    assert {body["DependsOn"] for body in instances} == {wildcard}


@pytest.mark.parametrize(
    ("zones", "taken"),
    [
        ("", True),
        ("a-1a,a-1b", True),
        ("a-1a,a-1b,a-1c", True),
        ("a-1a", False),
        ("a,b,c,d", False),
        ("a-1a, a-1b", False),
    ],
)
def test_two_or_three_zones_are_taken(zones: str, *, taken: bool) -> None:
    """Anything else would fail in the middle of the deployment, at a subnet or at a database."""
    parameter = load_template("template.yaml")["Parameters"]["AvailabilityZones"]
    assert bool(re.search(parameter["AllowedPattern"], zones)) == taken


def test_a_load_host_runs_the_writers_code_as_the_program_takes_it() -> None:
    """An argument that is none ends the program at each start, and nobody sees more than silence."""
    hosts = hosts_of("load-host")
    unit = hosts.written("/etc/systemd/system/load-host.service")
    (command,) = re.findall(r"^ExecStart=(.+)", unit.replace("\\\n", ""), re.MULTILINE)
    program, flag, module, *arguments = shlex.split(command)
    assert (program, flag, module) == ("/opt/stepbench/bin/python", "-m", "stepbench.load_host")
    given = vars(build_parser().parse_args(arguments))
    assert given["at_once"] == 64
    assert (given["queue_url"], given["function"], given["machine"]) == ("QueueUrl", "Function", "InstanceType")
    assert "Type=notify" in unit  # it serves when it says so, and not when it begins
    assert (
        hosts.stack["Resources"]["Host"]["DependsOn"] == "SayThatItServes"
    )  # else nothing makes it wait for the right
    assert "StandardError=journal+console" in unit  # nobody can log in to read its log
    assert "KillMode=mixed" in unit  # a stop asks the program, which lets its writers end
    limit_s = load_template("template.yaml")["Resources"]["RunWriterFunction"]["Properties"]["Timeout"]
    (stop_s,) = re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert int(stop_s) > limit_s


def test_a_load_host_has_the_layers_and_the_libraries_of_the_function() -> None:
    """What it measures with must be what the function would have measured with."""
    resources = load_template("template.yaml")["Resources"]
    layers = resources["RunWriterFunction"]["Properties"]["Layers"]
    given = resources["LoadHostStack"]["Properties"]["Parameters"]["LayerArns"]
    assert given == {"Fn::Join": [",", layers]}
    policies = resources["RunWriterFunction"]["Properties"]["Policies"]
    assert resources["LoadHostRole"]["Properties"]["ManagedPolicyArns"] == policies
    pinned = re.findall(r"boto3==[\d.]+", hosts_of("load-host").script)
    assert pinned == re.findall(r"^boto3==[\d.]+", (ROOT / "requirements/lambda.in").read_text(), re.MULTILINE)
    (version,) = re.findall(r"uv/releases/download/([\d.]+)", hosts_of("load-host").script)
    assert f"uv=={version}\n" in (ROOT / "requirements/uv.in").read_text()


def test_one_silence_is_too_long_for_state_machine_and_plans_alike() -> None:
    """Four signs of life fit in: one that is late loses no slice."""
    state = load_machine("trial")["RunWriterOnHost"].definition
    assert state["HeartbeatSeconds"] == LOAD_HOST_SILENT_S == 4 * BEAT_S
    assert f"for {LOAD_HOST_SILENT_S} s" in load_machine("trial")["LoadHostLost"].definition["Result"]["Cause"]
