"""What LocalStack makes of the optional stacks, and that nothing of it is left behind or open to others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.templates import load_template
from tests.support.listening import listening_addresses

from stepbench_tools.local.emulator.server import CHOICE, start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import await_end, family, terminate, wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from stepbench_tools.local.emulator.server import Emulator

pytestmark = pytest.mark.emulator

PASSED_OVER = re.compile(r"Resource type (\S+) is not supported")
STACKS = {
    "aurora-postgresql": {"AWS::RDS::DBCluster", "AWS::RDS::DBInstance", "AWS::RDS::DBSubnetGroup"},
    "cassandra": {"AWS::EC2::LaunchTemplate", "AWS::SSM::Document"},
    "dsql": {"AWS::DSQL::Cluster"},
    "elasticache": {"AWS::ElastiCache::ReplicationGroup", "AWS::ElastiCache::SubnetGroup"},
    "etcd": {"AWS::Route53::HostedZone"},
    "network": {"AWS::EC2::SecurityGroupIngress"},
}
"""What is passed over of each optional stack: who deploys one to LocalStack gets no store."""
FAILS = {"etcd"}
"""Its record sets fail, for the zone that they are in is passed over; so it comes no further."""


@pytest.fixture(scope="module")
def localstack(paths: Paths) -> Iterator[Emulator]:
    """Start LocalStack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CHOICE, "localstack")
        emulator = start_emulator(paths)
    yield emulator
    terminate(emulator.pids)


@pytest.mark.parametrize("stack", STACKS)
def test_what_it_passes_over_is_known(localstack: Emulator, stack: str) -> None:
    """It calls such a resource complete, and only its events tell."""
    cloudformation = local_client("cloudformation", localstack.endpoint)
    template = load_template(f"stacks/{stack}.yaml")
    given = [
        {"ParameterKey": name, "ParameterValue": "us-east-1a,us-east-1b,us-east-1c"}
        for name, parameter in template["Parameters"].items()
        if "Default" not in parameter
    ]
    cloudformation.create_stack(
        StackName=stack, TemplateBody=json.dumps(template), Parameters=given, Capabilities=["CAPABILITY_IAM"]
    )

    def status() -> str:
        return str(cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])

    wait_until("the stack is there", lambda: not status().endswith("_IN_PROGRESS"), timeout_s=60)
    assert (status() != "CREATE_COMPLETE") == (stack in FAILS)
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
    said = [event.get("ResourceStatusReason") or "" for page in pages for event in page["StackEvents"]]
    assert {found[1] for text in said if (found := PASSED_OVER.search(text))} == STACKS[stack]


def test_dynamodb_local_is_on_loopback_and_ends_with_it(paths: Paths, tmp_path: Any) -> None:  # noqa: ANN401
    """It is a process of Java's, which has no setting for an address, and would outlive a killed parent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CHOICE, "localstack")
        emulator = start_emulator(Paths(paths.root, tmp_path))
    try:
        local_client("dynamodb", emulator.endpoint).list_tables()
        wait_until("Java runs", lambda: len(family(emulator.pids)) > 1, timeout_s=20)
        members = family(emulator.pids)
        assert "java" in {member.name() for member in members}
        assert {each.rpartition(":")[0] for each in listening_addresses(emulator.pids)} == {"127.0.0.1"}
        members[0].kill()
        left = await_end(members, 10)
    finally:
        terminate(emulator.pids)
    assert left == []
