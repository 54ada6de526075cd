from __future__ import annotations

import re

import pytest
from tests.samples.templates import ROOT, load_template

from stepbench.costs import standing as module
from stepbench.costs.prices import HOURS_PER_MONTH, bill, find_price
from stepbench.costs.standing import Deployment, hours, parse_options, standing

TEMPLATE = load_template(ROOT / "template.yaml")
DEFAULTS = {name: str(each["Default"]) for name, each in TEMPLATE["Parameters"].items() if "Default" in each}
SWITCHES = ("AuroraPostgresql", "EtcdNodes", "ElastiCache", "CassandraNode", "LoadHost")


def stack(**options: str) -> Deployment:
    """Return a stack with the template's defaults but these."""
    return Deployment(options={**DEFAULTS, **options})


def usd(deployment: Deployment, name: str) -> float:
    """Return what an hour of something costs."""
    return bill(*standing(deployment)[name]).total_usd


def test_a_stack_with_its_defaults_has_nothing_that_is_billed_by_the_hour() -> None:
    """All stores with servers are off."""
    assert standing(stack()) == {}


@pytest.mark.parametrize(
    ("options", "name", "expected"),
    [
        ({"AuroraPostgresql": "provisioned"}, "postgresql", 0.26 + 0.4 / 730),
        ({"AuroraPostgresql": "serverless"}, "postgresql", 0.5 * 0.12 + 0.4 / 730),
        ({"EtcdNodes": "on"}, "etcd", 3 * (0.096 + 40 * 0.08 / 730 + 0.005)),
        ({"ElastiCache": "node"}, "redis", 0.1752),
        ({"ElastiCache": "serverless"}, "redis", 0.1 * 0.084),
        ({"CassandraNode": "on"}, "cassandra", 0.172 + 20 * 0.08 / 730 + 0.005),
        (
            {"CassandraNode": "on", "CassandraBesideTypes": "m5.large,c5.large"},
            "cassandra",
            0.172 + 0.096 + 0.085 + (20 + 120 + 120) * 0.08 / 730 + 3 * 0.005,
        ),
        ({"LoadHost": "on"}, "load-host", 0.686 + 20 * 0.08 / 730 + 0.005),
        ({"LoadHost": "on"}, "network", 4 * 2 * 0.01),
        ({"LoadHost": "on", "MeasuredFunctions": "on"}, "network", 5 * 2 * 0.01),
        ({"AuroraPostgresql": "provisioned", "AvailabilityZones": "a,b,c"}, "network", 5 * 3 * 0.01),
    ],
)
def test_an_hour_of_each_option(options: dict[str, str], name: str, expected: float) -> None:
    """Instances, volumes, addresses, endpoints in each zone, by hand."""
    assert usd(stack(**options), name) == pytest.approx(expected)


def test_the_stacks_are_what_is_priced() -> None:
    """A larger volume, a further endpoint or another least capacity would make these numbers wrong."""
    texts = {path.stem: path.read_text() for path in (ROOT / "stacks").glob("*.yaml")}
    volumes = {name: re.findall(r"VolumeSize: (\d+)", text) for name, text in texts.items()}
    assert volumes["etcd"] == [str(module.ETCD_VOLUME_GB)]
    assert volumes["cassandra"] == volumes["load-host"] == [str(module.HOST_VOLUME_GB)]
    beside = (TEMPLATE["Resources"][f"Cassandra{name}Stack"] for name in ("Second", "Third"))
    assert {each["Properties"]["Parameters"]["DataVolumeGib"] for each in beside} == {module.BESIDE_VOLUME_GB}
    assert texts["etcd"].count("AssociatePublicIpAddress: true") == module.ETCD_NODES
    endpoints = module.NETWORK_ENDPOINTS + module.AURORA_ENDPOINTS + module.CASSANDRA_ENDPOINTS + module.LOGS_ENDPOINTS
    assert texts["network"].count("VpcEndpointType: Interface") == endpoints
    assert f"MinCapacity: {module.LEAST_ACU}" in texts["aurora-postgresql"]
    assert "NatGateway" not in "".join(texts.values())


def test_the_functions_that_price_get_every_option() -> None:
    """What the template does not pass on would be taken for off; every type has a price by default."""
    for function in ("AnalyseTrialFunction", "RenderReportFunction"):
        passed = str(TEMPLATE["Resources"][function]["Properties"]["Environment"]["Variables"]["STACK_OPTIONS"])
        named = set(re.findall(r"(\w+)=\$\{(\w+)\}", passed))
        assert all(name == value for name, value in named)
        wanted = {*SWITCHES, "AvailabilityZones", "ResultsRetentionDays", "RecordsRetentionDays", "LogRetentionDays"}
        wanted |= {
            "CassandraDataVolumeGib",
            "CassandraBesideTypes",
            "Efs",
            "Fargate",
            "FargateCpu",
            "FargateMemory",
        }
        wanted |= {"TransferMemorySize", "TaskMemorySize"}
        wanted |= {
            name
            for name in DEFAULTS
            if re.fullmatch(r"(Aurora|Etcd|ElastiCache|Cassandra|LoadHost)\w*(Type|Class)", name)
        }
        assert {name for name, _ in named} == wanted
    for options in ({"AuroraPostgresql": "provisioned"}, {"ElastiCache": "node"}):
        on = {"EtcdNodes": "on", "CassandraNode": "on", "LoadHost": "on", **options}
        amounts = [amount for each in standing(stack(**on)).values() for amount in each]
        assert all(find_price(amount.price.key) for amount in amounts)


def test_options_are_read_as_the_template_writes_them() -> None:
    """Zones have commas."""
    assert parse_options("EtcdNodes=on;AvailabilityZones=a,b;LogRetentionDays=14") == {
        "EtcdNodes": "on",
        "AvailabilityZones": "a,b",
        "LogRetentionDays": "14",
    }
    assert parse_options("") == {}
    assert not Deployment(options={"LoadHost": "own"}).stands("load-host")
    assert Deployment().days("LogRetentionDays") == 0


def test_hours_multiply() -> None:
    """A month of a host's volume is its size, again."""
    amounts = hours(standing(stack(CassandraNode="on"))["cassandra"], HOURS_PER_MONTH)
    (volume,) = (amount.quantity for amount in amounts if amount.price.key == "ebs_gp3")
    assert volume == pytest.approx(20)
