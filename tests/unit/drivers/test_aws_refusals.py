"""What AWS says and emulators never do: tables that take their time, calls that come too early, deletions refused."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import boto3
import pytest
from botocore.stub import Stubber

from stepbench.contracts.plan import Scale
from stepbench.contracts.target import ProvisionedCapacity
from stepbench.drivers.dynamodb import DynamoDbDriver
from stepbench.drivers.dynamodb_table import ACTIVE_WITHIN_NS
from stepbench.drivers.s3 import S3Driver
from stepbench.errors import TargetUnavailableError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec, contract_write
from stepbench.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

ARN = "arn:aws:lambda:us-east-1:000000000000:function:ReceiveEvents"
SETTINGS = Settings(
    results_table="r", results_bucket="r", target_bucket="b", target_table_prefix="t-", receive_events_function_arn=ARN
)
SPEC = contract_spec({"store": "dynamodb"})
TABLE = f"t-{SPEC.tag}"
STREAM = f"arn:aws:dynamodb:us-east-1:000000000000:table/{TABLE}/stream/2026-01-01T00:00:00.000"
MAPPING = {"UUID": "00000000-0000-0000-0000-000000000001", "EventSourceArn": STREAM, "State": "Enabled"}


class ImpatientClock(FakeClock):
    """Waiting takes no time at all, on any loop."""

    async def sleep_async(self, seconds: float) -> None:
        """Advance."""
        self.advance(round(seconds * 1e9))


class Aws:
    """Real boto3 clients that are given their answers beforehand, in order, and give them to nobody else."""

    def __init__(self) -> None:
        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
        self._clients = {name: boto3.client(name, **secret) for name in ("dynamodb", "lambda", "s3")}  # type: ignore[call-overload]
        self._stubs = {name: Stubber(client) for name, client in self._clients.items()}

    def __enter__(self) -> Self:
        self._open = ExitStack()
        for stub in self._stubs.values():
            self._open.enter_context(stub)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for stub in self._stubs.values():
            stub.assert_no_pending_responses()

    def answers(self, service: str, operation: str, answer: dict[str, Any] | str) -> None:
        """The next answer of a service; a text is an error code."""
        if isinstance(answer, str):
            self._stubs[service].add_client_error(operation, answer)
        else:
            self._stubs[service].add_response(operation, answer)

    def describes(self, *states: str | dict[str, Any]) -> None:
        """DescribeTable: a status, or more of a table; "gone" where there is none."""
        for state in states:
            table = {"TableStatus": state} if isinstance(state, str) else {"TableStatus": "ACTIVE", **state}
            self.answers(
                "dynamodb", "describe_table", "ResourceNotFoundException" if state == "gone" else {"Table": table}
            )

    def maps(self, *states: str) -> None:
        """ListEventSourceMappings: the mapping's state, or "none"."""
        for state in states:
            found = [] if state == "none" else [MAPPING | {"State": state}]
            self.answers("lambda", "list_event_source_mappings", {"EventSourceMappings": found})

    def dynamodb(self) -> DynamoDbDriver:
        """A driver that talks to these."""
        driver = DynamoDbDriver(SPEC, SETTINGS, ImpatientClock())
        driver._aws.boto = self._clients.__getitem__
        return driver

    def s3(self) -> S3Driver:
        """A driver that talks to these."""
        driver = S3Driver(contract_spec({"store": "s3"}), SETTINGS, ImpatientClock())
        driver._aws.boto = self._clients.__getitem__
        return driver


@pytest.fixture
def aws() -> Iterator[Aws]:
    """Fails the test if an answer was not asked for."""
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
    polls = ACTIVE_WITHIN_NS // 500_000_000 + 1
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


async def test_a_mapping_that_may_not_be_removed_is_an_error(aws: Aws) -> None:
    """A missing permission must not look like patience."""
    aws.maps("Enabled")
    aws.answers("lambda", "delete_event_source_mapping", "AccessDeniedException")
    with pytest.raises(TargetUnavailableError, match="AccessDeniedException"):
        await aws.dynamodb().tear_down()


async def test_a_function_that_is_gone_took_its_mappings_along(aws: Aws) -> None:
    """The stack was deleted before the sweep."""
    aws.answers("lambda", "list_event_source_mappings", "ResourceNotFoundException")
    aws.describes("gone")
    assert await aws.dynamodb().tear_down() is True


async def test_mappings_that_may_not_be_listed_are_an_error(aws: Aws) -> None:
    """'None found' would leave one behind, polling for ever."""
    aws.answers("lambda", "list_event_source_mappings", "AccessDeniedException")
    with pytest.raises(TargetUnavailableError, match="AccessDeniedException"):
        await aws.dynamodb().tear_down()


async def test_one_tear_down_call_is_bounded(aws: Aws) -> None:
    """A Lambda that waits for a slow deletion until its own time-out loses the lease's release."""
    aws.maps(*["Deleting"] * 41)
    assert await aws.dynamodb().tear_down() is False


async def test_a_table_that_may_not_be_described_is_an_error(aws: Aws) -> None:
    """'Gone' would make tear-down believe that it is done."""
    aws.maps("none")
    aws.answers("dynamodb", "describe_table", "AccessDeniedException")
    with pytest.raises(TargetUnavailableError, match="AccessDeniedException"):
        await aws.dynamodb().tear_down()


async def test_versions_that_may_not_be_deleted_are_an_error(aws: Aws) -> None:
    """Object lock, or a bucket policy: the loop would go round for ever and call it progress."""
    version = {"Key": "k", "VersionId": "v"}
    aws.answers("s3", "get_bucket_notification_configuration", {})
    aws.answers("s3", "list_object_versions", {"Versions": [version]})
    aws.answers("s3", "delete_objects", {"Errors": [version | {"Code": "AccessDenied"}]})
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        await aws.s3().tear_down()


async def test_a_bucket_that_may_not_be_touched_is_an_error(aws: Aws) -> None:
    """Only NoSuchBucket means that nothing is left."""
    aws.answers("s3", "get_bucket_notification_configuration", "AccessDenied")
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        await aws.s3().tear_down()


async def test_writing_needs_an_open_driver(aws: Aws) -> None:
    """A mistake of the caller, not an outcome of the store."""
    for driver in (aws.s3(), aws.dynamodb()):
        with pytest.raises(RuntimeError, match="open the driver"):
            await driver.write(contract_write(SPEC, 0))
