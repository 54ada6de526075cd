"""Capacity that AWS moves itself: Application Auto Scaling's and Aurora Serverless v2's, by scripted answers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber

from stepbench.contracts.plan import Scale
from stepbench.contracts.target import AutoscaledCapacity, ProvisionedCapacity, ServerlessCapacity
from stepbench.drivers.aws_access import AwsAccess
from stepbench.drivers.dynamodb import DynamoDbDriver
from stepbench.drivers.dynamodb_table import scaling_request, table_request
from stepbench.drivers.postgresql.cluster import BEFORE, Bounds, ClusterCapacity
from stepbench.drivers.postgresql.driver import PostgresqlDriver
from stepbench.drivers.table_autoscaling import SERVICE, TableAutoscaling
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec
from stepbench.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = Settings(
    results_table="r",
    results_bucket="r",
    target_table_prefix="t-",
    receive_events_function_arn="arn:aws:lambda:us-east-1:000000000000:function:ReceiveEvents",
    postgresql_endpoint="127.0.0.1:1/postgres",
)
AUTOSCALED = AutoscaledCapacity(mode="autoscaled", min_write_units=10, max_write_units=40)
DYNAMODB, POSTGRESQL = contract_spec({"store": "dynamodb"}), contract_spec({"store": "postgresql"})
TABLE = f"t-{DYNAMODB.tag}"
TARGET = {
    "ServiceNamespace": "dynamodb",
    "ResourceId": f"table/{TABLE}",
    "ScalableDimension": "dynamodb:table:WriteCapacityUnits",
}
CLUSTER_ARN = "arn:aws:rds:us-east-1:000000000000:cluster:c"


class Script:
    """boto3 clients that check each request against AWS's service model, and against what is expected here."""

    def __init__(self, *services: str) -> None:
        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
        self._clients = {name: boto3.client(name, **secret) for name in services}  # type: ignore[call-overload]
        self.stubs = {name: Stubber(client) for name, client in self._clients.items()}

    def access(self, service: str, spec: Any = DYNAMODB) -> AwsAccess:  # noqa: ANN401 -- a TrialSpec
        """An AwsAccess that uses these clients."""
        aws = AwsAccess(service, spec, SETTINGS, FakeClock())
        aws.boto = self._clients.__getitem__
        return aws


@pytest.fixture
def script() -> Iterator[Script]:
    """Fails the test if an answer was not asked for."""
    scripted = Script("dynamodb", SERVICE, "rds")
    with ExitStack() as stack:
        for stub in scripted.stubs.values():
            stack.enter_context(stub)
        yield scripted
    for stub in scripted.stubs.values():
        stub.assert_no_pending_responses()


async def test_a_table_is_registered_with_bounds_and_target(script: Script) -> None:
    """The defaults of the console, 70 % of the units, are the plan's defaults too."""
    stub = script.stubs[SERVICE]
    stub.add_response("register_scalable_target", {}, {**TARGET, "MinCapacity": 10, "MaxCapacity": 40})
    tracking = {
        "TargetValue": 70.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"},
    }
    policy = {
        "PolicyName": "stepbench",
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }
    stub.add_response("put_scaling_policy", {"PolicyARN": "arn"}, {**TARGET, **policy})
    await TableAutoscaling(script.access("dynamodb"), TABLE).ensure(AUTOSCALED)


@pytest.mark.parametrize("answer", [None, "ObjectNotFoundException"])
async def test_removing_it_twice_does_no_harm(script: Script, answer: str | None) -> None:
    """TearDownTarget may be called again after any failure."""
    stub = script.stubs[SERVICE]
    if answer is None:
        stub.add_response("deregister_scalable_target", {}, TARGET)
    else:
        stub.add_client_error("deregister_scalable_target", answer)
    await TableAutoscaling(script.access("dynamodb"), TABLE).remove()


async def test_a_refused_removal_is_not_passed_over(script: Script) -> None:
    """Alarms would be left in the account."""
    script.stubs[SERVICE].add_client_error("deregister_scalable_target", "AccessDeniedException")
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        await TableAutoscaling(script.access("dynamodb"), TABLE).remove()


def test_an_autoscaled_table_begins_at_its_lower_bound_and_may_be_anywhere_inside() -> None:
    """Otherwise each run would begin where the one before ended, or each look would put it back to the start."""
    units = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}
    assert table_request(AUTOSCALED, streamed=True)["ProvisionedThroughput"] == units
    for inside in (10, 25, 40):
        table = {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": inside}}
        assert scaling_request(table, AUTOSCALED) == {}
    for outside in (9, 41):
        table = {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": outside}}
        assert scaling_request(table, AUTOSCALED)["ProvisionedThroughput"] == units
    on_demand = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
    assert scaling_request(on_demand, AUTOSCALED)["BillingMode"] == "PROVISIONED"


@pytest.mark.parametrize(("units", "changes"), [(10, False), (20, True)])
async def test_a_step_to_fixed_units_ends_autoscaling_first(script: Script, units: int, *, changes: bool) -> None:
    """It would move the units while the step is measured, also where they are right at this moment."""
    phases = [
        {"name": "measured", "scale": {"capacity": AUTOSCALED.model_dump()}, "load": [{"rate_per_s": 1, "count": 1}]}
    ]
    plan = DYNAMODB.plan.model_validate({**DYNAMODB.plan.model_dump(), "phases": phases})
    driver = DynamoDbDriver(DYNAMODB.model_copy(update={"plan": plan}), SETTINGS, FakeClock())
    driver._aws.boto = script._clients.__getitem__
    throughput = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}
    described = {"Table": {"TableStatus": "ACTIVE", "ProvisionedThroughput": throughput}}
    script.stubs["dynamodb"].add_response("describe_table", described)
    script.stubs[SERVICE].add_response("deregister_scalable_target", {}, TARGET)
    if changes:
        script.stubs["dynamodb"].add_response("update_table", {})
    done = await driver.scale(Scale(capacity=ProvisionedCapacity(write_units=units)))
    assert done is not changes


def cluster(bounds: tuple[float, float] | None, status: str = "available", before: str = "") -> dict[str, Any]:
    """DescribeDBClusters' answer."""
    found: dict[str, Any] = {"DBClusterArn": CLUSTER_ARN, "Status": status}
    if bounds is not None:
        found["ServerlessV2ScalingConfiguration"] = {"MinCapacity": bounds[0], "MaxCapacity": bounds[1]}
    if before:
        found["TagList"] = [{"Key": "other", "Value": "x"}, {"Key": BEFORE, "Value": before}]
    return {"DBClusters": [found]}


def expect_modify(script: Script, low: float, high: float) -> None:
    """Of the stack's own cluster, at once."""
    request = {
        "DBClusterIdentifier": "c",
        "ServerlessV2ScalingConfiguration": {"MinCapacity": low, "MaxCapacity": high},
        "ApplyImmediately": True,
    }
    script.stubs["rds"].add_response("modify_db_cluster", {}, request)


async def test_a_cluster_is_scaled_and_given_back(script: Script) -> None:
    """Its own bounds survive in a tag, whichever function runs next, and however often."""
    rds = script.stubs["rds"]
    capacity = ClusterCapacity(script.access("rds"), "c")
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=8, max_acu=16)
    tag = {"ResourceName": CLUSTER_ARN, "Tags": [{"Key": BEFORE, "Value": "0.5-16"}]}

    rds.add_response("describe_db_clusters", cluster((0.5, 16)))
    rds.add_response("add_tags_to_resource", {}, tag)
    expect_modify(script, 8, 16)
    assert not await capacity.scale(wanted)
    rds.add_response("describe_db_clusters", cluster((8, 16), "modifying", "0.5-16"))
    assert not await capacity.scale(wanted)
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    assert await capacity.scale(wanted)

    rds.add_response("describe_db_clusters", cluster((8, 16), "modifying", "0.5-16"))
    assert not await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    expect_modify(script, 0.5, 16)
    assert not await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((0.5, 16), before="0.5-16"))
    untag = {"ResourceName": CLUSTER_ARN, "TagKeys": [BEFORE]}
    rds.add_response("remove_tags_from_resource", {}, untag)
    assert await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((0.5, 16)))
    assert await capacity.restore()


async def test_a_second_step_keeps_the_first_bounds_in_mind(script: Script) -> None:
    """Else the cluster would be given back as the first step had left it."""
    rds = script.stubs["rds"]
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    expect_modify(script, 16, 32)
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=16, max_acu=32)
    assert not await ClusterCapacity(script.access("rds"), "c").scale(wanted)


async def test_a_provisioned_cluster_has_no_bounds(script: Script) -> None:
    """The plan asked for what this stack does not have."""
    script.stubs["rds"].add_response("describe_db_clusters", cluster(None))
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=1, max_acu=2)
    with pytest.raises(TargetUnavailableError, match="cluster c is not Serverless v2"):
        await ClusterCapacity(script.access("rds"), "c").scale(wanted)


def test_bounds_survive_their_tag() -> None:
    """Halves included."""
    assert Bounds.parse(Bounds(0.5, 16).text()) == Bounds(0.5, 16)
    assert Bounds(0.5, 16).text() == "0.5-16"


async def test_a_stack_without_a_cluster_says_so_before_anything_is_created() -> None:
    """PrepareTarget asks, long before the phase that scales."""
    wanted = {"capacity": {"mode": "serverless_v2", "min_acu": 1, "max_acu": 2}}
    phases = [{"name": "measured", "scale": wanted, "load": [{"rate_per_s": 1, "count": 1}]}]
    plan = POSTGRESQL.plan.model_validate({**POSTGRESQL.plan.model_dump(), "phases": phases})
    driver = PostgresqlDriver(POSTGRESQL.model_copy(update={"plan": plan}), SETTINGS, FakeClock())
    with pytest.raises(PlanError, match="no Aurora Serverless v2 cluster") as refused:
        await driver.prepare()
    assert "AuroraPostgresql=serverless" in str(refused.value)
