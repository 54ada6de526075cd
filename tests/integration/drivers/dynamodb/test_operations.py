"""DynamoDbOperations against the emulator: the contract, and what DynamoDB alone has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.subjects import UnencryptedOperations
from tests.support.contracts.life import until_torn_down
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import contents_of, operating, operations_spec, stored_of
from tests.support.fault_proxy import (
    DYNAMODB_EXCEEDED,
    DYNAMODB_THROTTLING,
    Cut,
    Rule,
    Throttle,
    fault_proxy,
    http1,
)
from tests.support.fault_proxy.faults import http_answer

from stepbench.contracts.workload import Kind
from stepbench.drivers import preload as preloading
from stepbench.drivers.aws import ANSWER_LIMIT_S
from stepbench.drivers.dynamodb.operations import BATCH_ITEMS, PRELOAD_LANES, OperationRequests
from stepbench.drivers.protocol import Scalable
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import CoroutineRequest, perform, result_of
from stepbench.model.request import Outcome
from stepbench.wire.http1.aws import SignedRequest

if TYPE_CHECKING:
    from tests.integration.drivers.dynamodb.conftest import DynamoDbSubject

pytestmark = pytest.mark.emulator


class TestDynamoDbOperations(UnencryptedOperations, OperationsContract):
    """The contract."""


async def test_the_table_has_the_plans_capacity_and_no_stream(subject: DynamoDbSubject) -> None:
    """A stream is for triggers, and whoever compares capacities wants the one that was asked for."""
    capacity = {"mode": "provisioned", "read_units": 11, "write_units": 12}
    spec = operations_spec(subject.target | {"capacity": capacity})
    async with operating(subject.operable(spec)) as driver:
        table = subject.table(spec)
        assert isinstance(driver, Scalable)
    assert not table.get("StreamSpecification", {}).get("StreamEnabled")
    units = table["ProvisionedThroughput"]
    assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (11, 12)


async def test_a_product_is_twelve_attributes_numbers_as_numbers(subject: DynamoDbSubject) -> None:
    """What the publication measured; one text of JSON would be another item."""
    spec = operations_spec(subject.target, "product")
    async with operating(subject.operable(spec)):
        key = contents_of(spec).preloaded(3).key
        item = subject.boto.get_item(TableName=subject.name(spec), Key={"pk": {"S": key}})["Item"]
    assert len(item) == 13
    kinds = {name: next(iter(typed)) for name, typed in item.items()}
    assert (kinds["price"], kinds["count"], kinds["city"]) == ("N", "N", "S")


@pytest.mark.parametrize(
    ("fault", "code", "kind"),
    [
        (DYNAMODB_THROTTLING, "ThrottlingException", Kind.OVERWRITE),
        (DYNAMODB_EXCEEDED, "ProvisionedThroughputExceededException", Kind.OVERWRITE),
        (DYNAMODB_THROTTLING, "ThrottlingException", Kind.READ_MODIFY_WRITE),
    ],
    ids=["on demand", "provisioned", "its read"],
)
async def test_throttling_is_failed_with_its_code(
    subject: DynamoDbSubject, fault: bytes, code: str, kind: Kind
) -> None:
    """A retry in the driver would turn a refusal into a latency; and what is FAILED has not changed the store."""
    spec = operations_spec(subject.target, "product")
    change = contents_of(spec).operation(kind, 1, 9)
    with fault_proxy(subject.upstream, http1) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Throttle(fault), times=1))
            refused = await perform(driver, change)
            stored = await subject.read_back(spec, change.key)
            after = await perform(driver, change)
    assert (refused.outcome, refused.error, refused.retries) == (Outcome.FAILED, code, 0)
    assert stored == stored_of(contents_of(spec).preloaded(1))
    assert after.outcome is Outcome.OK


@pytest.mark.parametrize("reuse", [True, False])
async def test_what_is_made_ahead_ends_as_what_is_awaited(subject: DynamoDbSubject, *, reuse: bool) -> None:
    """The engines make ahead; a request by itself takes no task then, and whatever takes several steps takes one."""
    spec = operations_spec(subject.target, reuse=reuse)
    kinds = (Kind.OVERWRITE, Kind.READ_MODIFY_WRITE, Kind.READ)
    async with operating(subject.operable(spec)) as driver:
        made = [driver.prepare_request(contents_of(spec).operation(kind, 0, 1)) for kind in kinds]
        ends = [await result_of(each) for each in made]
    assert [type(each) for each in made] == (
        [SignedRequest, CoroutineRequest, SignedRequest] if reuse else [CoroutineRequest] * 3
    )
    assert [(each.outcome, each.connecting is None) for each in ends] == [(Outcome.OK, reuse)] * 3


async def test_preloading_goes_on_where_it_was(subject: DynamoDbSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried PrepareTarget has the same 15 minutes; from the beginning it would never end."""
    monkeypatch.setattr(preloading, "BATCHES_PER_LANE", 1)
    monkeypatch.setattr(preloading, "_ATTEMPTS", 2)
    wave = PRELOAD_LANES * BATCH_ITEMS
    spec = operations_spec(subject.target, records=2 * wave + 1)
    with fault_proxy(subject.upstream, http1) as proxy:
        proxy.follow(Rule(Cut("before-request"), match=b"BatchWriteItem", from_nth=2 * PRELOAD_LANES + 1))
        # With the usual limit: a batch that is slow to be answered would be sent again, and counted twice.
        broken, again = (subject.through(spec, proxy, ANSWER_LIMIT_S) for _ in range(2))
        try:
            with pytest.raises(TargetUnavailableError, match="800 are written"):
                await broken.prepare()
            proxy.follow(Rule(Cut("before-request"), match=b"BatchWriteItem", from_nth=PRELOAD_LANES + 2))
            await again.prepare()
            proxy.follow()
            assert len(await subject.leftovers(spec)) == 1 + 2 * wave + 1
        finally:
            await broken.close()
            proxy.follow()
            await until_torn_down(again)
            await again.close()


async def test_a_batch_that_is_done_in_part_is_completed(subject: DynamoDbSubject) -> None:
    """DynamoDB acknowledges it all the same, and names what it left in UnprocessedItems."""
    spec = operations_spec(subject.target)
    requests = OperationRequests(subject.settings.target_table_prefix + spec.tag)
    left = [contents_of(spec).preloaded(number) for number in (3, 4)]
    body = json.loads(requests.batch(left).body)["RequestItems"]
    answer = json.dumps({"UnprocessedItems": body}).encode()
    unfinished = Throttle(http_answer("200 OK", "application/x-amz-json-1.0", answer))
    with fault_proxy(subject.upstream, http1) as proxy:
        proxy.follow(Rule(unfinished, match=b"BatchWriteItem", times=1))
        async with operating(subject.through(spec, proxy)):
            assert [await subject.read_back(spec, each.key) for each in left] == [stored_of(each) for each in left]
            assert proxy.stats().faults == {unfinished.name: 1}
            assert await subject.read_back(spec, contents_of(spec).preloaded(5).key) is None
