"""The network of the stacks, deployed: which zones it takes, and that what is in it is in all of them."""

from __future__ import annotations

import copy
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.templates import load_template

from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.emulator
UNKNOWN_TO_THE_EMULATOR = "MembersMayTalk"


def _zones(text: str) -> str:
    """Return what the root template makes of its parameter."""
    given = load_template("template.yaml")["Resources"]["NetworkStack"]["Properties"]["Parameters"]["Zones"]
    substituted: str = given["Fn::Sub"]
    return substituted.replace("${AvailabilityZones}", text)


@pytest.fixture(params=["", "us-east-1d,us-east-1f", "us-east-1d,us-east-1f,us-east-1b"])
def network(request: pytest.FixtureRequest, emulator: str) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Deploy the network for these zones; yield them, the outputs, and a client of EC2."""
    cloudformation, ec2 = (local_client(name, emulator) for name in ("cloudformation", "ec2"))
    template = copy.deepcopy(load_template("stacks/network.yaml"))
    del template["Resources"][UNKNOWN_TO_THE_EMULATOR]
    name = f"network-{uuid.uuid4().hex[:8]}"
    parameters = [{"ParameterKey": "Zones", "ParameterValue": _zones(request.param)}]
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), Parameters=parameters)
    cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
    (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    yield request.param, {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}, ec2
    cloudformation.delete_stack(StackName=name)


def test_a_network_has_a_subnet_in_each_zone(network: tuple[str, dict[str, str], Any]) -> None:
    """The first two, unless told otherwise: an account may see but two, and one may lack an endpoint."""
    zones, outputs, ec2 = network
    wanted = zones.split(",") if zones else ["us-east-1a", "us-east-1b"]
    subnets = outputs["SubnetIds"].split(",")
    found = {each["SubnetId"]: each for each in ec2.describe_subnets(SubnetIds=subnets)["Subnets"]}
    assert [found[subnet]["AvailabilityZone"] for subnet in subnets] == wanted
    nodes = outputs["NodeSubnetIds"].split(",")
    assert [found[subnet]["AvailabilityZone"] for subnet in nodes] == [*wanted, wanted[0]][:3]


def test_every_endpoint_is_in_every_zone(network: tuple[str, dict[str, str], Any]) -> None:
    """A function in a zone without one is served from another, and pays for the way."""
    _, outputs, ec2 = network
    mine = [{"Name": "vpc-id", "Values": [outputs["VpcId"]]}]
    endpoints = ec2.describe_vpc_endpoints(Filters=mine)["VpcEndpoints"]
    interfaces = [each for each in endpoints if each["VpcEndpointType"] == "Interface"]
    assert len(interfaces) == 4
    assert {frozenset(each["SubnetIds"]) for each in interfaces} == {frozenset(outputs["SubnetIds"].split(","))}
