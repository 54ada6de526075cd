"""DynamoDbDriver against the emulator: the contract, and what DynamoDB alone has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import ANY_ATTEMPT, EventId, delete_key
from stepbench.contracts.plan import Scale
from stepbench.contracts.target import OnDemandCapacity, ProvisionedCapacity
from stepbench.drivers.dynamodb import DynamoDbDriver
from stepbench.drivers.protocol import Driver, Outcome, Scalable, Write
from stepbench.errors import TargetUnavailableError
from stepbench.records.deliveries import parse_delivery
from stepbench.testing.driver_contract import DriverContract
from stepbench.testing.driver_subject import contract_spec, contract_write
from stepbench.testing.filter_contract import FilterContract, FilterSubject
from stepbench.testing.store_life import running, until_torn_down

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.integration.drivers.conftest import Receiving

    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings
    from stepbench.stages.services import Services
    from stepbench.testing.filter_contract import Arrived

pytestmark = pytest.mark.emulator


class DynamoDbSubject:
    """The emulator's DynamoDB, looked at through boto3."""

    target: dict[str, Any] = {"store": "dynamodb"}  # noqa: RUF012 -- the Subject protocol's attribute

    def __init__(self, services: Services, settings: Settings, nowhere: str, receiving: Receiving) -> None:
        self._dynamodb, self._lambda = services.aws("dynamodb"), services.aws("lambda")
        self.settings = settings
        self._nowhere = nowhere
        self._receiving = receiving

    def driver(self, spec: TrialSpec) -> DynamoDbDriver:
        """On the emulator."""
        return DynamoDbDriver(spec, self.settings, AnchoredClock())

    def unreachable(self, spec: TrialSpec) -> Driver:
        """On a port that refuses."""
        settings = self.settings.model_copy(update={"aws_endpoint_url": self._nowhere})
        return DynamoDbDriver(spec, settings, AnchoredClock())

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """A consistent read."""
        return await asyncio.to_thread(self._get, spec, key)

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """By the function."""
        return self._receiving(spec.tag)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Tables and mappings."""
        return await asyncio.to_thread(self._list, spec)

    def table(self, spec: TrialSpec) -> dict[str, Any]:
        """As DescribeTable shows it."""
        found: dict[str, Any] = self._dynamodb.describe_table(TableName=self._name(spec))["Table"]
        return found

    def mapping(self, spec: TrialSpec) -> dict[str, Any]:
        """The trial's one mapping."""
        found = [each for each in self._mappings() if spec.tag in each["EventSourceArn"]]
        assert len(found) == 1
        return found[0]

    def _name(self, spec: TrialSpec) -> str:
        return self.settings.target_table_prefix + spec.tag

    def _get(self, spec: TrialSpec, key: str) -> bytes | None:
        answer = self._dynamodb.get_item(TableName=self._name(spec), Key={"pk": {"S": key}}, ConsistentRead=True)
        value = answer.get("Item", {}).get("value", {}).get("S")
        return None if value is None else str(value).encode()

    def _list(self, spec: TrialSpec) -> list[str]:
        pages = self._dynamodb.get_paginator("list_tables").paginate()
        tables = [name for page in pages for name in page["TableNames"] if spec.tag in name]
        return tables + [each["UUID"] for each in self._mappings() if spec.tag in each["EventSourceArn"]]

    def _mappings(self) -> list[dict[str, Any]]:
        pages = self._lambda.get_paginator("list_event_source_mappings").paginate()
        return [mapping for page in pages for mapping in page["EventSourceMappings"]]


@pytest.fixture
def subject(services: Services, receiver_arn: str, nowhere: str, receiving: Receiving) -> DynamoDbSubject:
    """DynamoDB with a receiver that can be mapped and runs within `receiving` only."""
    return DynamoDbSubject(
        services,
        services.settings.model_copy(update={"receive_events_function_arn": receiver_arn}),
        nowhere,
        receiving,
    )


class TestDynamoDbDriver(DriverContract):
    """The contract."""

    @pytest.fixture
    def subject(self, subject: DynamoDbSubject) -> DynamoDbSubject:
        """See above."""
        return subject


class TestDynamoDbFilter(FilterContract):
    """Its filter is the event source mapping's."""

    @pytest.fixture
    def subject(self, subject: DynamoDbSubject) -> FilterSubject:
        """See above."""
        return subject


async def test_the_mapping_is_as_the_plan_says(subject: DynamoDbSubject) -> None:
    """Batch size and window decide the latency that is measured."""
    plan = {"batch_size": 7, "batching_window_s": 3, "parallelization_factor": 2, "filter": {"eventName": ["INSERT"]}}
    spec = contract_spec(subject.target | plan)
    async with running(subject.driver(spec)):
        mapping = subject.mapping(spec)
    assert mapping["BatchSize"] == 7
    assert mapping["MaximumBatchingWindowInSeconds"] == 3
    assert mapping["ParallelizationFactor"] == 2
    assert mapping["FilterCriteria"] == {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]}
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["MaximumRetryAttempts"] == 3
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


@pytest.mark.parametrize(("operation", "keys"), [("put", None), ("update", 2)])
async def test_the_stream_carries_new_images(subject: DynamoDbSubject, operation: Any, keys: int | None) -> None:  # noqa: ANN401 -- a literal, by parameter
    """Without NEW_IMAGE the receiver gets the key alone, and an update's key names no event."""
    spec = contract_spec(subject.target, operation, distinct_keys=keys)
    async with running(subject.driver(spec)):
        assert subject.table(spec)["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}


async def test_preloaded_keys_stay_out_of_the_stream(subject: DynamoDbSubject, services: Services) -> None:
    """A million preloaded items in the stream would queue before the first measured one."""
    spec = contract_spec(subject.target, "update", distinct_keys=5)
    streams = services.aws("dynamodbstreams")
    async with running(subject.driver(spec)):
        arn = subject.table(spec)["LatestStreamArn"]
        (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        assert streams.get_records(ShardIterator=iterator)["Records"] == []


async def test_a_deletion_reaches_the_receiver_by_its_key(subject: DynamoDbSubject, services: Services) -> None:
    """As the stream has it: a REMOVE without a new image. The other keys' preloading is not in it."""
    spec = contract_spec(subject.target, "delete")
    event = EventId(spec.tag, 0, 0, 0, ANY_ATTEMPT, 3)
    streams = services.aws("dynamodbstreams")
    async with running(subject.driver(spec)) as driver:
        await driver.write(Write(delete_key(event, 59), b"", delete=True))
        arn = subject.table(spec)["LatestStreamArn"]
        (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        (record,) = streams.get_records(ShardIterator=iterator)["Records"]
    change = {**record["dynamodb"], "ApproximateCreationDateTime": 1_700_000_000}
    delivered = {"eventName": record["eventName"], "eventSource": "aws:dynamodb", "dynamodb": change}
    (arrival,) = parse_delivery({"Records": [delivered]}, 1).arrivals
    assert (arrival.tag, arrival.entry.attempt, arrival.entry.sequence) == (spec.tag, ANY_ATTEMPT, 3)


async def test_capacity_follows_the_plan(subject: DynamoDbSubject) -> None:
    """The experiment across a scaling step is about nothing else."""
    spec = contract_spec(subject.target | {"capacity": {"mode": "provisioned", "write_units": 10}})
    async with running(subject.driver(spec)) as driver:
        assert isinstance(driver, Scalable)
        before = subject.table(spec)["ProvisionedThroughput"]["WriteCapacityUnits"]
        scale = Scale(capacity=ProvisionedCapacity(write_units=20))
        answers = [await driver.scale(scale) for _ in range(3)]
        after = subject.table(spec)["ProvisionedThroughput"]["WriteCapacityUnits"]
    assert [before, after] == [10, 20]
    assert answers == [False, True, True]


async def test_an_emulator_that_cannot_warm_a_table_does_not_hold_up_the_trial(subject: DynamoDbSubject) -> None:
    """It reports no warm throughput ever; waiting for it would end in a time-out."""
    spec = contract_spec(subject.target)
    async with running(subject.driver(spec)) as driver:
        assert isinstance(driver, Scalable)
        assert await driver.scale(Scale(capacity=OnDemandCapacity(warm_write_units=8_000))) is True


async def test_a_table_that_is_gone_cannot_be_scaled(subject: DynamoDbSubject) -> None:
    """Somebody deleted it: the trial is void, and says so instead of waiting."""
    driver = subject.driver(contract_spec(subject.target))
    with pytest.raises(TargetUnavailableError, match="is gone"):
        await driver.scale(Scale(capacity=ProvisionedCapacity(write_units=20)))


async def test_a_refusal_is_failed_with_dynamodbs_own_code(subject: DynamoDbSubject) -> None:
    """The report counts failures by code; throttling and a missing table are different stories."""
    spec = contract_spec(subject.target)
    driver = subject.driver(spec)
    await driver.open()
    try:
        written = await driver.write(contract_write(spec, 0))
    finally:
        await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "ResourceNotFoundException")


async def test_values_need_no_escaping_by_the_caller(subject: DynamoDbSubject) -> None:
    """The value travels inside JSON; quotes, backslashes and control characters must not break out of it."""
    spec = contract_spec(subject.target)
    write = contract_write(spec, 0)
    odd = write._replace(key=write.key + '"\\\n', value=write.value[:40] + '"}\\\x00\x1f\u2028é'.encode())
    async with running(subject.driver(spec)) as driver:
        written = await driver.write(odd)
        assert (written.error, await subject.read_back(spec, odd.key)) == ("", odd.value)


async def test_a_mapping_outlives_its_table_only_until_tear_down(subject: DynamoDbSubject, services: Services) -> None:
    """A table that was deleted by hand took the stream's ARN with it; the mapping must be found all the same."""
    spec = contract_spec(subject.target)
    driver = subject.driver(spec)
    await driver.prepare()
    services.aws("dynamodb").delete_table(TableName=subject.settings.target_table_prefix + spec.tag)
    assert len(await subject.leftovers(spec)) == 1
    await until_torn_down(driver)
    assert await subject.leftovers(spec) == []
