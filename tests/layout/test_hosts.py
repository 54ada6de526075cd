"""The hosts of the stacks: what they run when they begin, are started again, and are replaced."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from botocore.loaders import Loader
from tests.samples.templates import ROOT, Json, load_template, statements
from tests.statemachines.conftest import load_machine

from stepbench.contracts.rules import COMPACTION_S, QUOTA_BYTES
from stepbench.contracts.tuning import COMMANDS, NODE_SETTINGS
from stepbench.drivers.cassandra.tuning import NodeValues
from stepbench.load_host import BEAT_S
from stepbench.load_host.__main__ import build_parser
from stepbench.stages.plan_phase import LOAD_HOST_SILENT_S

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(("gib", "disk"), [("0", "nvme1n1"), ("40", "nvme2n1")])
def test_data_lie_on_the_hosts_own_disk_or_on_its_volume(tmp_path: Path, gib: str, disk: str) -> None:
    """Never on the disk of the system; a host with both must not take the wrong one."""
    script = hosts_of("cassandra").written("/usr/local/sbin/cassandra-disk")
    script = script.replace("[ 0 -gt 0 ]", f"[ {gib} -gt 0 ]").replace("/opt/cassandra", str(tmp_path))
    listing = "nvme0n1 {}Amazon Elastic Block Store\nnvme1n1 {}Amazon EC2 NVMe Instance Storage\n"
    listing += "nvme2n1 {}Amazon Elastic Block Store\n"
    programs = {
        "lsblk": f'case "$*" in *PKNAME*) echo nvme0n1 ;; *TYPE*) printf "{listing.format(*["disk "] * 3)}" ;; '
        f'*) printf "{listing.format("", "", "")}" ;; esac',
        "findmnt": "echo /dev/nvme0n1p1",
        "blkid": "exit 1",
        "mountpoint": "exit 1",
        "mkfs.xfs": f'echo "$@" > {tmp_path}/made',
        "mount": "true",
        "chown": "true",
    }
    _run(script, [], programs, tmp_path)
    assert (tmp_path / "made").read_text().split()[-1] == f"/dev/{disk}"


CONF = "# file_cache_size: 512MiB\nconcurrent_writes: 32\nrpc_address: 127.0.0.1\n"


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["concurrent_writes=64", "file_cache_enabled=true"], ["concurrent_writes: 64", "file_cache_enabled: true"]),
        ([], ["concurrent_writes: 32"]),
    ],
)
def test_a_host_starts_cassandra_anew_with_settings_over_those_as_released(
    tmp_path: Path, arguments: list[str], left: list[str]
) -> None:
    """What an earlier configuration set, and this one does not name, is as released again."""
    (tmp_path / "cassandra.yaml").write_text("concurrent_compactors: 7\n")
    (tmp_path / "cassandra.yaml.released").write_text(CONF)
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = _run(_control(tmp_path, server.getsockname()[1]), ["restart", *arguments], SYSTEMCTL, tmp_path)
    assert int(said) >= 0
    lines = (tmp_path / "cassandra.yaml").read_text().splitlines()
    assert sorted(lines) == sorted(["# file_cache_size: 512MiB", "rpc_address: 127.0.0.1", *left])
    assert (tmp_path / "restarted").read_text() == "restart cassandra\n"


@pytest.mark.parametrize(
    "arguments", [["restart", "data_file_directories=/"], ["nodetool", "drain"], ["sh"], ["nodetool"]]
)
def test_a_host_does_nothing_that_tuning_does_not_need(tmp_path: Path, arguments: list[str]) -> None:
    """Run Command is root there."""
    (tmp_path / "cassandra.yaml.released").write_text(CONF)
    with pytest.raises(subprocess.CalledProcessError):
        _run(_control(tmp_path, 9), arguments, SYSTEMCTL, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "cassandra.yaml.released"}


def test_hosts_and_functions_know_the_same_commands_and_settings() -> None:
    """A setting that only one side knows would fail in the middle of a run, on AWS alone."""
    script = hosts_of("cassandra").written("/usr/local/sbin/cassandra-control")
    assert " | ".join(NODE_SETTINGS) in script
    assert all(command in script for command in COMMANDS)
    document = hosts_of("cassandra").stack["Resources"]["Operator"]["Properties"]["Content"]
    arguments = re.compile(document["parameters"]["Arguments"]["allowedPattern"])
    values = NodeValues(16, 4, 256, 0.2).as_settings
    assert arguments.search(" ".join(f"{name}={value}" for name, value in values.items()))
    assert not arguments.search("x; rm -r /")
    assert not arguments.search("$(x)")


SYSTEMCTL = {"systemctl": 'echo "$@" >> "$(dirname "$0")/../restarted"'}


def _control(tmp_path: Path, port: int) -> str:
    script = hosts_of("cassandra").written("/usr/local/sbin/cassandra-control")
    return script.replace("/opt/cassandra/conf", str(tmp_path)).replace("9042", str(port))


def _run(script: str, arguments: list[str], programs: dict[str, str], tmp_path: Path) -> str:
    """Run a host's script, with some programs replaced, and return what it prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": str(folder)}
    command = ["/bin/bash", "-c", script, "script", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20, env=environ).stdout
