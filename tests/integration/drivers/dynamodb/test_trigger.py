"""DynamoDbDriver against the emulator: the contract, and what DynamoDB alone has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.subjects import SubjectFixture
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.life import running, until_torn_down
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import contract_spec, contract_write

from stepbench.contracts.capacity import OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.identity import ANY_ATTEMPT, EventId, delete_key
from stepbench.contracts.phase import Scale
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Scalable
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench.records.formats.deliveries import parse_delivery

if TYPE_CHECKING:
    from tests.integration.drivers.dynamodb.conftest import DynamoDbSubject

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services

pytestmark = pytest.mark.emulator


class TestDynamoDbDriver(SubjectFixture, TriggerContract):
    """The contract."""


class TestDynamoDbFilter(SubjectFixture, FilterContract):
    """Its filter is the event source mapping's."""


def stream_records(subject: DynamoDbSubject, spec: TrialSpec, services: Services) -> list[Any]:
    """Return what is in the stream of the trial's table."""
    streams, arn = services.aws("dynamodbstreams"), subject.table(spec)["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    at_start = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    iterator = streams.get_shard_iterator(**at_start)["ShardIterator"]
    records: list[Any] = streams.get_records(ShardIterator=iterator)["Records"]
    return records


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


async def test_a_stream_with_old_images_hands_on_both_values(subject: DynamoDbSubject, services: Services) -> None:
    """An update's event has the value before it, too, and the event is found by the new one all the same."""
    spec = contract_spec(subject.target | {"stream_view": "new_and_old_images"}, "update", distinct_keys=2)
    async with running(subject.driver(spec)) as driver:
        for sequence in (0, 1):
            first = contract_write(spec, 0)
            await perform(driver, first._replace(value=contract_write(spec, sequence).value))
        *_, record = stream_records(subject, spec, services)
    old, new = (record["dynamodb"][image]["value"]["S"].encode() for image in ("OldImage", "NewImage"))
    assert [old, new] == [contract_write(spec, sequence).value for sequence in (0, 1)]
    change = {**record["dynamodb"], "ApproximateCreationDateTime": 1_700_000_000}
    delivered = {"eventName": record["eventName"], "eventSource": "aws:dynamodb", "dynamodb": change}
    (arrival,) = parse_delivery({"Records": [delivered]}, 1).arrivals
    assert arrival.entry.sequence == 1


async def test_preloaded_keys_stay_out_of_the_stream(subject: DynamoDbSubject, services: Services) -> None:
    """A million preloaded items in the stream would queue before the first measured one."""
    spec = contract_spec(subject.target, "update", distinct_keys=5)
    async with running(subject.driver(spec)):
        assert stream_records(subject, spec, services) == []


async def test_a_deletion_reaches_the_receiver_by_its_key(subject: DynamoDbSubject, services: Services) -> None:
    """The stream has a REMOVE without a new image; the other keys' preloading is not in it."""
    spec = contract_spec(subject.target, "delete")
    event = EventId(spec.tag, 0, 0, 0, ANY_ATTEMPT, 3)
    async with running(subject.driver(spec)) as driver:
        await perform(driver, Request(Kind.DELETE, delete_key(event, 59)))
        (record,) = stream_records(subject, spec, services)
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
        written = await perform(driver, contract_write(spec, 0))
    finally:
        await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "ResourceNotFoundException")


async def test_values_need_no_escaping_by_the_caller(subject: DynamoDbSubject) -> None:
    """The value travels inside JSON; quotes, backslashes and control characters must not break out of it."""
    spec = contract_spec(subject.target)
    write = contract_write(spec, 0)
    odd = write._replace(key=write.key + '"\\\n', value=write.value[:40] + '"}\\\x00\x1f\u2028é'.encode())
    async with running(subject.driver(spec)) as driver:
        written = await perform(driver, odd)
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
