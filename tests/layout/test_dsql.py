"""What lint cannot know of the stack's part for Aurora DSQL: it is off, grants what is named, and goes whole."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.templates import Json, listed, load_template, statements

from stepbench.contracts.custom_resource import DsqlClusterProperties, DsqlRoleProperties
from stepbench.drivers.dsql.clusters import STACK_TAG

if TYPE_CHECKING:
    from pydantic import BaseModel

FUNCTIONS = ("PrepareTarget", "AwaitTarget", "RunWriter", "TearDownTarget", "SweepTargets")
"""Which make a driver of a plan's store."""


LOAD_HOST = {"Fn::If": ["TakesLoadFromHosts", {"Fn::GetAtt": ["LoadHostRole", "Arn"]}, {"Ref": "AWS::NoValue"}]}
TEMPLATE = load_template("template.yaml")


def _ours() -> dict[str, Json]:
    return {name: body for name, body in TEMPLATE["Resources"].items() if "Dsql" in name}


def _holds(node: Any, parameters: dict[str, str]) -> bool:  # noqa: ANN401 -- JSON
    """Tell whether a rule's condition or assertion holds, in the functions that CloudFormation knows there."""
    (function, inner), *_ = node.items()
    if function == "Fn::Equals":
        left, right = (parameters[part["Ref"]] if isinstance(part, dict) else part for part in inner)
        return bool(left == right)
    if function == "Fn::EachMemberIn":
        return set(parameters[inner[0]["Ref"]].split(",")) <= set(inner[1])
    told = [_holds(part, parameters) for part in inner]
    if function == "Fn::Not":
        return not told[0]
    return all(told) if function == "Fn::And" else any(told)


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ({}, []),
        ({"Dsql": "on"}, []),
        ({"Dsql": "creations"}, []),
        ({"Dsql": "creations", "EtcdNodes": "on"}, ["DsqlIsOutsideOfTheNetwork"]),
        ({"ElastiCache": "node", "AuroraPostgresql": "serverless"}, []),
        ({"Dsql": "on", "ElastiCache": "serverless"}, ["DsqlIsOutsideOfTheNetwork"]),
        ({"Dsql": "on", "DsqlPeerRegion": "ap-northeast-2"}, ["DsqlPeersHaveAWitness"]),
        ({"DsqlPeerRegion": "ap-northeast-2", "DsqlWitnessRegion": "ap-northeast-3"}, ["DsqlPeersHaveAWitness"]),
        ({"Dsql": "on", "DsqlPeerRegion": "ap-northeast-2", "DsqlWitnessRegion": "ap-northeast-3"}, []),
        ({"ApiAuthorization": "jwt", "JwtIssuer": "https://a"}, ["JwtHasAnIssuerAndAnAudience"]),
        ({"ApiAuthorization": "jwt", "JwtAudience": "a,b"}, ["JwtHasAnIssuerAndAnAudience"]),
        ({"ApiAuthorization": "jwt", "JwtIssuer": "https://a", "JwtAudience": "a,b"}, []),
        ({"PythonRuntime": "python3.11"}, ["ApplicationsHaveTheirLibraries"]),
        ({"PythonRuntime": "python3.11", "Applications": "off"}, []),
    ],
)
def test_what_could_not_work_is_refused_before_anything_is_made(given: dict[str, str], broken: list[str]) -> None:
    """Rules are read as CloudFormation reads them, which no emulator here does."""
    parameters = {name: str(body.get("Default", "")) for name, body in TEMPLATE["Parameters"].items()} | given
    refused = [
        name
        for name, rule in TEMPLATE["Rules"].items()
        if _holds(rule["RuleCondition"], parameters)
        and not all(_holds(each["Assert"], parameters) for each in rule["Assertions"])
    ]
    assert refused == broken


def test_it_is_off_unless_asked_for() -> None:
    """A cluster costs by what is done with it, but is one more thing to find and to delete."""
    assert TEMPLATE["Parameters"]["Dsql"]["Default"] == "off"
    for name, body in _ours().items():
        assert body["Condition"] in {"WithDsql", "WithDsqlRemote", "WithDsqlPair", "WithDsqlCreations"}, name
    for condition in ("WithDsqlRemote", "WithDsqlPair"):
        assert {"Condition": "WithDsql"} in TEMPLATE["Conditions"][condition]["Fn::And"]
    assert TEMPLATE["Conditions"]["WithDsqlCreations"] == {"Fn::Equals": [{"Ref": "Dsql"}, "creations"]}


def test_clusters_are_deleted_with_the_stack() -> None:
    """With deletion protection the stack's deletion would fail; retained, they would stay."""
    stack = load_template("stacks/dsql.yaml")
    clusters = [body for body in stack["Resources"].values() if body["Type"] == "AWS::DSQL::Cluster"]
    assert len(clusters) == len(stack["Resources"]) == 2
    for cluster in clusters:
        assert cluster["Properties"]["DeletionProtectionEnabled"] is False
        assert (cluster["DeletionPolicy"], cluster["UpdateReplacePolicy"]) == ("Delete", "Delete")
        assert cluster["Properties"]["Tags"] == [{"Key": "stepbench:stack", "Value": {"Ref": "Stack"}}]


def test_the_peer_is_deleted_before_the_cluster_that_it_is_peered_with() -> None:
    """The other way round CloudFormation would wait for a cluster that waits for its peer."""
    peer = TEMPLATE["Resources"]["DsqlPeerCluster"]["Properties"]
    assert peer["PeerArn"] == {"Fn::GetAtt": ["DsqlStack", "Outputs.PairArn"]}


def test_only_the_bootstrap_function_logs_in_as_admin_and_by_name() -> None:
    """An admin may bind any role of IAM to any role of the database."""
    (statement,) = statements(TEMPLATE, "dsql:DbConnectAdmin")
    policy = TEMPLATE["Resources"]["AdministerDsqlPolicy"]["Properties"]
    assert statements(policy, "dsql:DbConnectAdmin") == [statement]
    assert policy["Roles"] == [{"Ref": "BootstrapDsqlFunctionRole"}]
    assert listed(statement["Action"]) == ["dsql:DbConnectAdmin"]
    assert "*" not in json.dumps(statement["Resource"])


def test_writers_may_connect_to_named_clusters_and_do_nothing_else() -> None:
    """They get what is published: nothing but dsql:DbConnect, on the clusters' ARNs."""
    for name in ("WriteTargetPolicy", "TearDownTargetPolicy"):
        policy = TEMPLATE["Resources"][name]
        made, given = statements(policy, "dsql:DbConnect")
        assert [each["Action"] for each in (made, given)] == ["dsql:DbConnect"] * 2
        assert given["Resource"] == {"Ref": "DsqlClusterArns"}
        assert "*" not in json.dumps(made["Resource"])
        assert len(made["Resource"]) == 4  # single, remote, and both of a pair
        others = {"dsql:DeleteCluster"} if name == "TearDownTargetPolicy" else set()
        assert set(re.findall('"(dsql:[^"]+)"', json.dumps(policy))) == {"dsql:DbConnect"} | others


def test_a_cluster_is_deleted_only_if_it_is_this_stacks() -> None:
    """The one right that takes something away goes by the tag that each of ours has."""
    preparing, tearing_down, of_stack = statements(TEMPLATE, "dsql:DeleteCluster")
    for statement, tag in ((of_stack, "stepbench:stack"), (preparing, STACK_TAG), (tearing_down, STACK_TAG)):
        assert statement["Condition"] == {"StringEquals": {f"aws:ResourceTag/{tag}": {"Ref": "AWS::StackName"}}}
        assert statement["Action"] == "dsql:DeleteCluster"


def test_trials_create_and_change_clusters_with_their_own_tag_alone() -> None:
    """What has no condition is either a look, or of no use without one of the two actions that have."""
    policy = TEMPLATE["Resources"]["CreateDsqlPolicy"]
    assert policy["Properties"]["Roles"][0] == {"Ref": "RunWriterFunctionRole"}
    creating, changing, more = statements(policy)
    conditions = {f"aws:{what}Tag/{STACK_TAG}": {"Ref": "AWS::StackName"} for what in ("Request", "Resource")}
    assert creating["Condition"]["StringEquals"] | changing["Condition"]["StringEquals"] == conditions
    assert creating["Action"] == ["dsql:CreateCluster", "dsql:TagResource"]
    assert changing["Action"] == "dsql:UpdateCluster"
    permission_only = {
        f"dsql:{each}"
        for each in ("PutMultiRegionProperties", "AddPeerCluster", "RemovePeerCluster", "PutWitnessRegion")
    }
    assert set(more["Action"]) == permission_only | {"dsql:GetCluster"}


def test_every_function_that_connects_is_bound_in_every_cluster() -> None:
    """One that is forgotten would be refused on AWS only."""
    bound = [body["Properties"] for body in _ours().values() if body["Type"] == "Custom::DsqlRole"]
    assert [each["Endpoint"]["Fn::GetAtt"] for each in bound] == [
        ["DsqlStack", "Outputs.SingleEndpoint"],
        ["DsqlRemoteCluster", "Endpoint"],
        ["DsqlStack", "Outputs.PairEndpoint"],
    ]
    for each in bound:
        owners, writers = each["IamRoles"], each["WriterRoles"]
        arns = {name: {"Fn::GetAtt": [f"{name}FunctionRole", "Arn"]} for name in FUNCTIONS}
        assert owners == [arn for name, arn in arns.items() if name != "RunWriter"]
        assert writers == [arns["AwaitTarget"], arns["RunWriter"], LOAD_HOST]
    policies = {
        name: json.dumps(TEMPLATE["Resources"][f"{name}Function"]["Properties"]["Policies"]) for name in FUNCTIONS
    }
    assert all("WriteTargetPolicy" in text or "TearDownTargetPolicy" in text for text in policies.values())


def test_custom_resources_say_what_the_function_reads() -> None:
    """It ignores what it does not know, so a misspelt property would be a default in silence."""
    models: dict[str, type[BaseModel]] = {
        "Custom::DsqlCluster": DsqlClusterProperties,
        "Custom::DsqlRole": DsqlRoleProperties,
    }
    for name, body in _ours().items():
        if body["Type"] in models:
            given = set(body["Properties"]) - {"ServiceToken", "ServiceTimeout"}
            assert given <= set(models[body["Type"]].model_fields), name


def test_the_bootstrap_function_does_not_wait_for_what_it_makes() -> None:
    """Every function is told the endpoints; this one, which has to be there first, is told none."""
    variables = TEMPLATE["Resources"]["BootstrapDsqlFunction"]["Properties"]["Environment"]["Variables"]
    assert variables == {"DSQL_ENDPOINTS": ""}


def test_a_peer_may_be_told_of_the_other() -> None:
    """
    UpdateCluster demands all of these for multi-region properties.

    Source:
        AWS, Aurora DSQL API reference, UpdateCluster, required permissions.
    """
    policies = TEMPLATE["Resources"]["BootstrapDsqlFunction"]["Properties"]["Policies"]
    for action in ("UpdateCluster", "PutMultiRegionProperties", "GetCluster", "AddPeerCluster", "PutWitnessRegion"):
        assert statements(policies, f"dsql:{action}"), action
    (removing,) = statements(policies, "dsql:RemovePeerCluster")
    assert removing["Resource"]["Fn::Sub"] == "arn:${AWS::Partition}:dsql:*:${AWS::AccountId}:cluster/*"


def test_only_clusters_with_the_stacks_tag_are_made() -> None:
    """What is made can be found and deleted by it."""
    making = statements(TEMPLATE["Resources"]["BootstrapDsqlFunction"]["Properties"]["Policies"], "dsql:CreateCluster")
    wanted = {"StringEquals": {"aws:RequestTag/stepbench:stack": {"Ref": "AWS::StackName"}}}
    assert [each["Condition"] for each in making] == [wanted, wanted]
