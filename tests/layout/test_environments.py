"""
The environment of every function has room in Lambda's 4 KB, whatever the stack is deployed with.

A stack has servers of its own, or is given some: both are added up with every name as long as it can be. CloudFormation
finds out in the middle of a deployment, and rolls it back.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from tests.samples.templates import ROOT, load_template

LIMIT_BYTES = 4_096
"""Of all variables together (Lambda quotas), measured as JSON, which is more than names and values alone."""
TEMPLATE = load_template(ROOT / "template.yaml")
PARAMETERS = TEMPLATE["Parameters"]
TYPE = "AWS::Serverless::Function"
FUNCTIONS = {name: body for name, body in TEMPLATE["Resources"].items() if body["Type"] == TYPE}
STACK = "s" * 45
REGION, ACCOUNT = "ap-southeast-1", "0" * 12
PSEUDO = {
    "AWS::StackName": STACK,
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::NoValue": "",
}
NAMES = {
    "AWS::DynamoDB::Table": f"{STACK}-ResultsTable-ABCDEFGHIJKLM",
    "AWS::S3::Bucket": "b" * 63,
    "AWS::SQS::Queue": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{'q' * 80}",
    "AWS::Serverless::LayerVersion": f"arn:aws:lambda:{REGION}:{ACCOUNT}:layer:{STACK}-Measuring:1000",
    "AWS::Serverless::StateMachine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{STACK}-Benchmark",
}
METRIC = '{"namespace":"AWS/EC2","metric":"CPUUtilization","dimensions":[%s],"period_s":60}'
OUTPUTS = {
    "AuroraPostgresqlStack.Outputs.Endpoint": "e" * 63
    + ".cluster-abcdefghijkl."
    + REGION
    + ".rds.amazonaws.com:5432/stepbench",
    "AuroraPostgresqlStack.Outputs.SecretArn": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:rds!{'s' * 51}",
    "AuroraPostgresqlStack.Outputs.Cluster": "c" * 63,
    "AuroraPostgresqlStack.Outputs.Metric": METRIC % ('{"DBInstanceIdentifier":"%s"}' % ("i" * 63)),
    "EtcdStack.Outputs.Endpoint": ",".join(["10.255.255.255:2379"] * 3),
    "EtcdStack.Outputs.Metric": METRIC % ",".join(['{"InstanceId":"i-0123456789abcdef0"}'] * 3),
    "ElastiCacheStack.Outputs.Endpoint": f"master.{'g' * 40}.abcdef.apse1.cache.amazonaws.com:6379",
    "ElastiCacheStack.Outputs.TlsEndpoint": f"master.{'g' * 40}.abcdef.apse1.cache.amazonaws.com:6379",
    "CassandraStack.Outputs.Endpoint": f"{'t' * 24}=10.255.255.255:9042",
    "CassandraSecondStack.Outputs.Endpoint": f"{'t' * 24}=10.255.255.255:9042",
    "CassandraThirdStack.Outputs.Endpoint": f"{'t' * 24}=10.255.255.255:9042",
    "CassandraStack.Outputs.Control": f"i-0123456789abcdef0/{'o' * 40}",
    "DsqlRemoteCluster.ActiveAfterS": "600",
    "DsqlPeerCluster.ActiveAfterS": "600",
    "StreamFailuresQueue.Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{'q' * 80}",
}
"""What AWS makes of resources, at its longest; an endpoint of DSQL has 26 characters of its own."""
DSQL = f"{'d' * 26}.dsql.{REGION}.on.aws"
EMPTY_ON_AWS = {"AwsEndpointUrl", "CassandraControl", "DynamoDbMetric", "Emulator", "FilesFolder", "ReferenceEndpoint"}
"""Parameters for emulators and local runs only."""
PATH = {"TlsAuthority": "/opt/authorities/some-company-authority.pem"}
"""One without a limit, since it is a path: locally, of any length."""
ARN_OF_ROLE = "arn:aws:iam::000000000000:role/ci-of-payments"


def given(name: str) -> str:
    """Return a parameter's longest value."""
    known = PARAMETERS[name]
    if "AllowedValues" in known:
        return max(map(str, known["AllowedValues"]), key=len)
    if known["Type"] == "Number":
        return str(known.get("MaxValue", 10**6))
    if name in EMPTY_ON_AWS:
        return ""
    if name in PATH:
        return PATH[name]
    limit = known["MaxLength"]
    if name == "Teams":
        team = f'"{ARN_OF_ROLE}":"payments",'
        return f"{{{team * (limit // len(team))}}}".ljust(limit)
    return METRIC.ljust(limit, "x") if name.endswith("Metric") else "x" * limit


def longest(node: Any, *, own: bool) -> str:  # noqa: ANN401 -- JSON
    """Return the longest value that a variable may get: with servers of the stack's `own`, or with those given."""
    if not isinstance(node, dict):
        return str(node)
    ((function, argument),) = node.items()
    value = partial(longest, own=own)
    match function:
        case "Fn::If":
            condition, first, second = argument
            if condition.startswith(("With", "TakesLoad")):
                return value(first if own else second)
            return max(value(first), value(second), key=len)
        case "Fn::Join":
            between, parts = argument
            return str(between).join(map(value, parts))
        case "Fn::Sub":
            text, named = argument if isinstance(argument, list) else (argument, {})
            parts = {name: value(each) for name, each in named.items()}
            return re.sub(r"\$\{([^}]+)\}", lambda found: parts.get(found[1]) or _referenced(found[1], own=own), text)
    return _referenced(argument if function == "Ref" else ".".join(argument), own=own)


def _referenced(name: str, *, own: bool) -> str:
    if name in PARAMETERS:
        is_servers = name.endswith(("Endpoint", "Endpoints", "SecretArn", "Metric"))
        return "" if own and is_servers else given(name)
    if "." in name:
        return OUTPUTS.get(name) or DSQL
    return PSEUDO[name] if name in PSEUDO else NAMES[TEMPLATE["Resources"][name]["Type"]]


@pytest.mark.parametrize("own", [True, False], ids=["own-servers", "given-servers"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_environment_fits_into_lambda_s_4_kb(function: str, *, own: bool) -> None:
    """Thirteen roles in Teams, names of 45 characters for stacks, and each server's address at its longest."""
    common = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    variables = {**common, **FUNCTIONS[function]["Properties"].get("Environment", {}).get("Variables", {})}
    environment = {name: longest(value, own=own) for name, value in variables.items()}
    assert len(json.dumps(environment, separators=(",", ":")).encode()) <= LIMIT_BYTES
