"""Tables, mappings, capacity and S3's versions by scripted answers: what AWS says and emulators never do."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import boto3
import pytest
from botocore.stub import Stubber
from tests.support.contracts.trigger_subject import contract_spec, contract_write
from tests.support.fake_clock import FakeClock

from stepbench.contracts.capacity import AutoscaledCapacity, ProvisionedCapacity, ServerlessCapacity
from stepbench.contracts.plan import Scale
from stepbench.drivers.aws import AwsAccess
from stepbench.drivers.dynamodb.table import (
    ACTIVE_WITHIN_NS,
    SERVICE,
    TEAR_DOWN_FOR_NS,
    TableAutoscaling,
    scaling_request,
    table_request,
)
from stepbench.drivers.dynamodb.trigger import DynamoDbDriver
from stepbench.drivers.postgresql.operations import BEFORE, Bounds, ClusterCapacity
from stepbench.drivers.postgresql.trigger import PostgresqlDriver
from stepbench.drivers.s3.trigger import S3Driver
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec

EARLY_POLLS = 4
"""So many looks more than two a second there are in the beginning."""
ARN = "arn:aws:lambda:us-east-1:000000000000:function:ReceiveEvents"
SETTINGS = Settings(
    results_table="r",
    results_bucket="r",
    target_bucket="b",
    target_table_prefix="t-",
    receive_events_function_arn=ARN,
    postgresql_endpoint="127.0.0.1:1/postgres",
)
SPEC = contract_spec({"store": "dynamodb"})
TABLE = f"t-{SPEC.tag}"
STREAM = f"arn:aws:dynamodb:us-east-1:000000000000:table/{TABLE}/stream/2026-01-01T00:00:00.000"
MAPPING = {"UUID": "00000000-0000-0000-0000-000000000001", "EventSourceArn": STREAM, "State": "Enabled"}
AUTOSCALED = AutoscaledCapacity(mode="autoscaled", min_write_units=10, max_write_units=40)
POSTGRESQL = contract_spec({"store": "postgresql"})
TARGET = {
    "ServiceNamespace": "dynamodb",
    "ResourceId": f"table/{TABLE}",
    "ScalableDimension": "dynamodb:table:WriteCapacityUnits",
}
CLUSTER_ARN = "arn:aws:rds:us-east-1:000000000000:cluster:c"


class ImpatientClock(FakeClock):
    """Waiting takes no time at all, on any loop."""

    async def sleep_async(self, seconds: float) -> None:
        """Advance."""
        self.advance(round(seconds * 1e9))


class Aws:
    """Real boto3 clients that are given their answers beforehand, in order, and give them to nobody else."""

    def __init__(self) -> None:
        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
        self.clients = {name: boto3.client(name, **secret) for name in ("dynamodb", "lambda", "s3", SERVICE, "rds")}  # type: ignore[call-overload]
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}

    def __enter__(self) -> Self:
        self._open = ExitStack()
        for stub in self.stubs.values():
            self._open.enter_context(stub)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()

    def answers(self, service: str, operation: str, answer: dict[str, Any] | str) -> None:
        """Script the next answer of a service; a text is an error code."""
        if isinstance(answer, str):
            self.stubs[service].add_client_error(operation, answer)
        else:
            self.stubs[service].add_response(operation, answer)

    def describes(self, *states: str | dict[str, Any]) -> None:
        """Script DescribeTable: a status, or more of a table; "gone" where there is none."""
        for state in states:
            table = {"TableStatus": state} if isinstance(state, str) else {"TableStatus": "ACTIVE", **state}
            self.answers(
                "dynamodb", "describe_table", "ResourceNotFoundException" if state == "gone" else {"Table": table}
            )

    def maps(self, *states: str) -> None:
        """Script ListEventSourceMappings: the mapping's state, or "none"."""
        for state in states:
            found = [] if state == "none" else [MAPPING | {"State": state}]
            self.answers("lambda", "list_event_source_mappings", {"EventSourceMappings": found})

    def dynamodb(self, spec: TrialSpec = SPEC) -> DynamoDbDriver:
        """Return a driver that uses these clients."""
        driver = DynamoDbDriver(spec, SETTINGS, ImpatientClock())
        driver._aws.boto = self.clients.__getitem__
        return driver

    def access(self, service: str) -> AwsAccess:
        """Return an AwsAccess that uses these clients."""
        access = AwsAccess(service, SPEC, SETTINGS, FakeClock())
        access.boto = self.clients.__getitem__
        return access

    def s3(self) -> S3Driver:
        """Return a driver that uses these clients."""
        driver = S3Driver(contract_spec({"store": "s3"}), SETTINGS, ImpatientClock())
        driver._aws.boto = self.clients.__getitem__
        return driver


@pytest.fixture
def aws() -> Iterator[Aws]:
    """Yield scripted clients; the test fails if an answer was not asked for."""
    with Aws() as scripted:
        yield scripted


async def test_prepare_waits_for_the_table(aws: Aws) -> None:
    """A mapping of a table that is CREATING is refused."""
    streamed = {"StreamSpecification": {"StreamEnabled": True}, "LatestStreamArn": STREAM}
    aws.describes("gone")
    aws.answers("dynamodb", "create_table", {})
    aws.describes("CREATING", "CREATING", streamed)
    aws.maps("none")
    aws.answers("lambda", "create_event_source_mapping", {})
    await aws.dynamodb().prepare()


async def test_a_table_that_never_becomes_active_is_given_up(aws: Aws) -> None:
    """PrepareTarget's own time-out would say nothing about the reason."""
    polls = EARLY_POLLS + ACTIVE_WITHIN_NS // 500_000_000 + 1
    aws.describes("CREATING", *["CREATING"] * polls)
    with pytest.raises(TargetUnavailableError, match="is CREATING after 180 s"):
        await aws.dynamodb().prepare()


@pytest.mark.parametrize(
    ("table", "mapping", "ready"),
    [("gone", None, False), ("UPDATING", None, False), ("ACTIVE", "Creating", False), ("ACTIVE", "Enabled", True)],
)
async def test_ready_means_table_and_mapping(aws: Aws, table: str, mapping: str | None, ready: bool) -> None:  # noqa: FBT001 -- a case
    """Canaries sent before would be late and end the trial for nothing."""
    aws.describes(table)
    if mapping:
        aws.maps(mapping)
    assert await aws.dynamodb().ready() is ready


@pytest.mark.parametrize("busy", ["UPDATING", {"WarmThroughput": {"Status": "UPDATING"}}])
async def test_scaling_waits_for_the_change_before(aws: Aws, busy: Any) -> None:  # noqa: ANN401 -- see `describes`
    """DynamoDB makes one change at a time; warming goes on after the table is ACTIVE again."""
    aws.describes(busy)
    assert await aws.dynamodb().scale(Scale(capacity=ProvisionedCapacity(write_units=20))) is False


@pytest.mark.parametrize("code", ["ResourceInUseException", None])
async def test_a_change_that_comes_too_early_is_asked_for_again(aws: Aws, code: str | None) -> None:
    """The state machine polls; an error would fail the trial."""
    aws.describes("ACTIVE")
    aws.answers("dynamodb", "update_table", code or {})
    assert await aws.dynamodb().scale(Scale(capacity=ProvisionedCapacity(write_units=20))) is False


async def test_a_change_that_is_refused_for_good_fails_the_trial(aws: Aws) -> None:
    """A table may be scaled down 27 times a day; waiting does not help."""
    aws.describes("ACTIVE")
    aws.answers("dynamodb", "update_table", "LimitExceededException")
    with pytest.raises(TargetUnavailableError, match="LimitExceededException"):
        await aws.dynamodb().scale(Scale(capacity=ProvisionedCapacity(write_units=20)))


async def test_tear_down_sees_mapping_and_table_off_in_turn(aws: Aws) -> None:
    """A table that goes first leaves Lambda polling a stream that is no more."""
    aws.maps("Enabled")
    aws.answers("lambda", "delete_event_source_mapping", {})
    aws.maps("Deleting", "none", "none", "none")
    aws.describes("ACTIVE")
    aws.answers("dynamodb", "delete_table", {})
    aws.describes("DELETING", "gone")
    assert await aws.dynamodb().tear_down() is True


@pytest.mark.parametrize("code", ["ResourceInUseException", "ResourceConflictException", "ResourceNotFoundException"])
async def test_a_mapping_that_is_busy_is_removed_later(aws: Aws, code: str) -> None:
    """A mapping in the middle of its creation cannot be deleted, and a sweep may come just then."""
    aws.maps("Creating")
    aws.answers("lambda", "delete_event_source_mapping", code)
    aws.maps("none")
    aws.describes("gone")
    assert await aws.dynamodb().tear_down() is True


async def test_a_function_that_is_gone_took_its_mappings_along(aws: Aws) -> None:
    """The stack was deleted before the sweep."""
    aws.answers("lambda", "list_event_source_mappings", "ResourceNotFoundException")
    aws.describes("gone")
    assert await aws.dynamodb().tear_down() is True


async def test_what_cannot_be_removed_keeps_nothing_else_from_being(aws: Aws) -> None:
    """A network without an endpoint for autoscaling, and a mapping that is locked: the table goes all the same."""
    plan = SPEC.plan
    target = plan.target.model_copy(update={"capacity": AUTOSCALED})
    spec = SPEC.model_copy(update={"plan": plan.model_copy(update={"target": target})})
    aws.answers(SERVICE, "deregister_scalable_target", "AccessDeniedException")
    aws.maps("Enabled")
    aws.answers("lambda", "delete_event_source_mapping", "AccessDeniedException")
    aws.describes("ACTIVE")
    aws.answers("dynamodb", "delete_table", {})
    with pytest.raises(TargetUnavailableError, match="DeregisterScalableTarget"):
        await aws.dynamodb(spec).tear_down()


async def test_prepare_waits_for_the_streams_arn(aws: Aws) -> None:
    """A table can be ACTIVE before its new stream has an ARN."""
    aws.describes("gone")
    aws.answers("dynamodb", "create_table", {})
    streamed = {"StreamSpecification": {"StreamEnabled": True}}
    aws.describes("CREATING", streamed, streamed | {"LatestStreamArn": STREAM})
    aws.maps("none")
    aws.answers("lambda", "create_event_source_mapping", {})
    await aws.dynamodb().prepare()


async def test_one_tear_down_call_is_bounded(aws: Aws) -> None:
    """A Lambda that waits for a slow deletion until its own time-out loses the lease's release."""
    aws.maps(*["Deleting"] * (EARLY_POLLS + TEAR_DOWN_FOR_NS // 500_000_000 + 1))
    assert await aws.dynamodb().tear_down() is False


VERSION = {"Key": "k", "VersionId": "v"}
DENIED: dict[str, list[tuple[str, str, dict[str, Any] | str]]] = {
    "a mapping that may not be removed": [
        ("lambda", "list_event_source_mappings", {"EventSourceMappings": [MAPPING]}),
        ("lambda", "delete_event_source_mapping", "AccessDeniedException"),
        ("dynamodb", "describe_table", "ResourceNotFoundException"),
    ],
    "mappings that may not be listed": [
        ("lambda", "list_event_source_mappings", "AccessDeniedException"),
        ("dynamodb", "describe_table", "ResourceNotFoundException"),
    ],
    "a table that may not be described": [
        ("lambda", "list_event_source_mappings", {"EventSourceMappings": []}),
        ("dynamodb", "describe_table", "AccessDeniedException"),
    ],
    "a bucket that may not be touched": [
        ("s3", "get_bucket_notification_configuration", "AccessDenied"),
        ("s3", "list_object_versions", {"Versions": [VERSION]}),
        ("s3", "delete_objects", {}),
        ("s3", "list_object_versions", {}),
    ],
    "versions that may not be deleted": [
        ("s3", "get_bucket_notification_configuration", {}),
        ("s3", "list_object_versions", {"Versions": [VERSION]}),
        ("s3", "delete_objects", {"Errors": [VERSION | {"Code": "AccessDenied"}]}),
    ],
}


@pytest.mark.parametrize("case", DENIED)
async def test_what_may_not_be_removed_is_an_error(aws: Aws, case: str) -> None:
    """A missing permission must look neither like patience nor as if nothing were left; a lock, not like progress."""
    for answer in DENIED[case]:
        aws.answers(*answer)
    driver = aws.s3() if DENIED[case][0][0] == "s3" else aws.dynamodb()
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        await driver.tear_down()


async def test_writing_needs_an_open_driver(aws: Aws) -> None:
    """A mistake of the caller, not an outcome of the store."""
    for driver in (aws.s3(), aws.dynamodb()):
        with pytest.raises(RuntimeError, match="open the driver"):
            await perform(driver, contract_write(SPEC, 0))


async def test_a_table_is_registered_with_bounds_and_target(aws: Aws) -> None:
    """The defaults of the console, 70 % of the units, are the plan's defaults too."""
    stub = aws.stubs[SERVICE]
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
    await TableAutoscaling(aws.access("dynamodb"), TABLE).ensure(AUTOSCALED)


@pytest.mark.parametrize("answer", [None, "ObjectNotFoundException"])
async def test_removing_it_twice_does_no_harm(aws: Aws, answer: str | None) -> None:
    """TearDownTarget may be called again after any failure."""
    stub = aws.stubs[SERVICE]
    if answer is None:
        stub.add_response("deregister_scalable_target", {}, TARGET)
    else:
        stub.add_client_error("deregister_scalable_target", answer)
    await TableAutoscaling(aws.access("dynamodb"), TABLE).remove()


async def test_a_refused_removal_is_not_passed_over(aws: Aws) -> None:
    """Alarms would be left in the account."""
    aws.stubs[SERVICE].add_client_error("deregister_scalable_target", "AccessDeniedException")
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        await TableAutoscaling(aws.access("dynamodb"), TABLE).remove()


def test_an_autoscaled_table_begins_at_its_lower_bound_and_may_be_anywhere_inside() -> None:
    """Otherwise each run would begin where the one before ended, or each look would put it back to the start."""
    units = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}
    assert table_request(AUTOSCALED)["ProvisionedThroughput"] == units
    for inside in (10, 25, 40):
        table = {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": inside}}
        assert scaling_request(table, AUTOSCALED) == {}
    for outside in (9, 41):
        table = {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": outside}}
        assert scaling_request(table, AUTOSCALED)["ProvisionedThroughput"] == units
    on_demand = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
    assert scaling_request(on_demand, AUTOSCALED)["BillingMode"] == "PROVISIONED"


@pytest.mark.parametrize(("units", "changes"), [(10, False), (20, True)])
async def test_a_step_to_fixed_units_ends_autoscaling_first(aws: Aws, units: int, *, changes: bool) -> None:
    """It would move the units while the step is measured, also where they are right at this moment."""
    phases = [
        {"name": "measured", "scale": {"capacity": AUTOSCALED.model_dump()}, "load": [{"rate_per_s": 1, "count": 1}]}
    ]
    plan = SPEC.plan.model_validate({**SPEC.plan.model_dump(), "phases": phases})
    aws.describes({"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}})
    aws.stubs[SERVICE].add_response("deregister_scalable_target", {}, TARGET)
    if changes:
        aws.answers("dynamodb", "update_table", {})
    driver = aws.dynamodb(SPEC.model_copy(update={"plan": plan}))
    done = await driver.scale(Scale(capacity=ProvisionedCapacity(write_units=units)))
    assert done is not changes


def cluster(bounds: tuple[float, float] | None, status: str = "available", before: str = "") -> dict[str, Any]:
    """Return DescribeDBClusters' answer."""
    found: dict[str, Any] = {"DBClusterArn": CLUSTER_ARN, "Status": status}
    if bounds is not None:
        found["ServerlessV2ScalingConfiguration"] = {"MinCapacity": bounds[0], "MaxCapacity": bounds[1]}
    if before:
        found["TagList"] = [{"Key": "other", "Value": "x"}, {"Key": BEFORE, "Value": before}]
    return {"DBClusters": [found]}


def expect_modify(aws: Aws, low: float, high: float) -> None:
    """Expect that the stack's own cluster is changed, at once."""
    request = {
        "DBClusterIdentifier": "c",
        "ServerlessV2ScalingConfiguration": {"MinCapacity": low, "MaxCapacity": high},
        "ApplyImmediately": True,
    }
    aws.stubs["rds"].add_response("modify_db_cluster", {}, request)


async def test_a_cluster_is_scaled_and_given_back(aws: Aws) -> None:
    """Its own bounds survive in a tag, whichever function runs next, and however often."""
    rds = aws.stubs["rds"]
    capacity = ClusterCapacity(aws.access("rds"), "c")
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=8, max_acu=16)
    tag = {"ResourceName": CLUSTER_ARN, "Tags": [{"Key": BEFORE, "Value": "0.5-16"}]}

    rds.add_response("describe_db_clusters", cluster((0.5, 16)))
    rds.add_response("add_tags_to_resource", {}, tag)
    expect_modify(aws, 8, 16)
    assert not await capacity.scale(wanted)
    rds.add_response("describe_db_clusters", cluster((8, 16), "modifying", "0.5-16"))
    assert not await capacity.scale(wanted)
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    assert await capacity.scale(wanted)

    rds.add_response("describe_db_clusters", cluster((8, 16), "modifying", "0.5-16"))
    assert not await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    expect_modify(aws, 0.5, 16)
    assert not await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((0.5, 16), before="0.5-16"))
    untag = {"ResourceName": CLUSTER_ARN, "TagKeys": [BEFORE]}
    rds.add_response("remove_tags_from_resource", {}, untag)
    assert await capacity.restore()
    rds.add_response("describe_db_clusters", cluster((0.5, 16)))
    assert await capacity.restore()


async def test_a_second_step_keeps_the_first_bounds_in_mind(aws: Aws) -> None:
    """Else the cluster would be given back as the first step had left it."""
    rds = aws.stubs["rds"]
    rds.add_response("describe_db_clusters", cluster((8, 16), before="0.5-16"))
    expect_modify(aws, 16, 32)
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=16, max_acu=32)
    assert not await ClusterCapacity(aws.access("rds"), "c").scale(wanted)


async def test_a_provisioned_cluster_has_no_bounds(aws: Aws) -> None:
    """The plan asked for what this stack does not have."""
    aws.stubs["rds"].add_response("describe_db_clusters", cluster(None))
    wanted = ServerlessCapacity(mode="serverless_v2", min_acu=1, max_acu=2)
    with pytest.raises(TargetUnavailableError, match="cluster c is not Serverless v2"):
        await ClusterCapacity(aws.access("rds"), "c").scale(wanted)


def test_bounds_survive_their_tag() -> None:
    """Halves are included."""
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


@pytest.mark.parametrize(
    ("tls", "emulator", "provider"),
    [
        (None, "", "Amazon DynamoDB"),
        (True, "", "Amazon DynamoDB"),
        (False, "", "Amazon DynamoDB, plain HTTP"),
        (False, "MiniStack 1.5.33", "MiniStack 1.5.33"),
    ],
)
async def test_the_provider_says_that_nothing_was_encrypted(*, tls: bool | None, emulator: str, provider: str) -> None:
    """Such numbers are not those of DynamoDB as everybody uses it; an emulator's are plain anyway."""
    settings = SETTINGS.model_copy(update={"emulator": emulator})
    driver = DynamoDbDriver(contract_spec({"store": "dynamodb", "tls": tls}), settings, FakeClock())
    assert await driver.provider() == provider
