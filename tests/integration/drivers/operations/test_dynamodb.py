"""DynamoDbOperations against the emulator: the contract, and what DynamoDB alone has."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.operations import preloading
from stepbench.drivers.operations.dynamodb import PRELOAD_LANES, DynamoDbOperations
from stepbench.drivers.operations.dynamodb_requests import BATCH_ITEMS, Requests
from stepbench.drivers.protocol import Operable, Outcome, PromptOperable, Scalable
from stepbench.drivers.tasked import Tasked
from stepbench.errors import TargetUnavailableError
from stepbench.testing.fault_proxy import (
    DYNAMODB_EXCEEDED,
    DYNAMODB_THROTTLING,
    Cut,
    Rule,
    Throttle,
    fault_proxy,
    http1,
)
from stepbench.testing.fault_proxy.throttling import http_answer
from stepbench.testing.operable_contract import OperableContract
from stepbench.testing.operable_subject import (
    SILENT_LIMIT_S,
    Stored,
    contents_of,
    operating,
    operations_spec,
    stored_of,
    until_operated,
)
from stepbench.testing.store_life import until_torn_down
from stepbench.wire.aws import SignedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings
    from stepbench.stages.services import Services
    from stepbench.testing.fault_proxy import FaultProxy, Framing

pytestmark = pytest.mark.emulator


class DynamoDbSubject:
    """The emulator's DynamoDB, looked at through boto3."""

    target: dict[str, Any] = {"store": "dynamodb"}  # noqa: RUF012 -- the Subject protocol's attribute
    framing: Callable[[], Framing] = staticmethod(http1)

    def __init__(self, services: Services, nowhere: str) -> None:
        self.boto = services.aws("dynamodb")
        self.settings = services.settings
        self.upstream = services.settings.aws_endpoint_url
        self._nowhere = nowhere

    def operable(self, spec: TrialSpec) -> Operable:
        """On the emulator."""
        return DynamoDbOperations(spec, self.settings, AnchoredClock())

    def unreachable(self, spec: TrialSpec) -> Operable:
        """On a port that refuses."""
        return DynamoDbOperations(spec, self._at(self._nowhere), AnchoredClock())

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> DynamoDbOperations:
        """By the proxy."""
        return DynamoDbOperations(spec, self._at(proxy.url), AnchoredClock(), answer_limit_s=SILENT_LIMIT_S)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """A consistent read."""
        return await asyncio.to_thread(self._get, spec, key)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """The table, and its items' keys."""
        return await asyncio.to_thread(self._list, spec)

    def table(self, spec: TrialSpec) -> dict[str, Any]:
        """As DescribeTable shows it."""
        found: dict[str, Any] = self.boto.describe_table(TableName=self._name(spec))["Table"]
        return found

    def _at(self, url: str) -> Settings:
        return self.settings.model_copy(update={"aws_endpoint_url": url})

    def _name(self, spec: TrialSpec) -> str:
        return self.settings.target_table_prefix + spec.tag

    def _get(self, spec: TrialSpec, key: str) -> Stored | None:
        item = self.boto.get_item(TableName=self._name(spec), Key={"pk": {"S": key}}, ConsistentRead=True).get("Item")
        if item is None:
            return None
        texts = {name: text for name, typed in item.items() if name != "pk" for text in typed.values()}
        if set(texts) == {"value"}:
            return str(texts["value"]).encode()
        return {**texts, "price": f"{float(texts['price']):.2f}"}  # DynamoDB drops a number's trailing zeros

    def _list(self, spec: TrialSpec) -> list[str]:
        pages = self.boto.get_paginator("list_tables").paginate()
        tables = [name for page in pages for name in page["TableNames"] if spec.tag in name]
        items = [item for name in tables for item in self.boto.scan(TableName=name)["Items"]]
        return tables + [item["pk"]["S"] for item in items]


@pytest.fixture
def subject(services: Services, nowhere: str) -> DynamoDbSubject:
    """The emulator."""
    return DynamoDbSubject(services, nowhere)


class TestDynamoDbOperations(OperableContract):
    """The contract."""

    @pytest.fixture
    def subject(self, subject: DynamoDbSubject) -> DynamoDbSubject:
        """See above."""
        return subject


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
        item = subject.boto.get_item(TableName=subject._name(spec), Key={"pk": {"S": key}})["Item"]
    assert len(item) == 13
    kinds = {name: next(iter(typed)) for name, typed in item.items()}
    assert (kinds["price"], kinds["count"], kinds["city"]) == ("N", "N", "S")


async def test_the_largest_blob_can_be_read(subject: DynamoDbSubject) -> None:
    """An answer to a write is small, and the wire once took none above 64 KB."""
    largest = {"record": {"shape": "blob", "value_bytes": 350_000}}
    spec = operations_spec(subject.target, records=30, workload=largest)
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        operated = await driver.operate(contents.operation(Kind.READ, 29, 0))
        assert (operated.outcome, operated.error) == (Outcome.OK, "")
        assert await subject.read_back(spec, contents.preloaded(29).key) == contents.preloaded(29).value


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (DYNAMODB_THROTTLING, "ThrottlingException"),
        (DYNAMODB_EXCEEDED, "ProvisionedThroughputExceededException"),
    ],
    ids=["on demand", "provisioned"],
)
async def test_throttling_is_failed_with_its_code(subject: DynamoDbSubject, fault: Any, code: str) -> None:  # noqa: ANN401 -- by parameter
    """A retry in the driver would turn a refusal into a latency."""
    spec = operations_spec(subject.target)
    overwrite = contents_of(spec).operation(Kind.OVERWRITE, 1, 9)
    with fault_proxy(subject.upstream, http1) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Throttle(fault), times=1))
            refused = await driver.operate(overwrite)
            stored = await subject.read_back(spec, overwrite.key)
            after = await driver.operate(overwrite)
    assert (refused.outcome, refused.error, refused.retries) == (Outcome.FAILED, code, 0)
    assert stored == stored_of(contents_of(spec).preloaded(1))
    assert after.outcome is Outcome.OK


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_cut_connection_is_unknown_and_is_replaced(subject: DynamoDbSubject, *, reuse: bool) -> None:
    """The write may have happened; the next operation must not wait for, or die on, what is left of the connection."""
    spec = operations_spec(subject.target, reuse=reuse)
    overwrite = contents_of(spec).operation(Kind.OVERWRITE, 1, 9)
    with fault_proxy(subject.upstream, http1) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Cut("before-answer"), times=1))
            cut = await driver.operate(overwrite)
            proxy.follow()
            after = await until_operated(driver, overwrite)
    assert (cut.outcome, cut.error) == (Outcome.UNKNOWN, "connection-reset")
    assert len(after) == 1


async def test_a_read_modify_write_whose_read_is_refused_writes_nothing(subject: DynamoDbSubject) -> None:
    """Otherwise a FAILED operation would have changed the store."""
    spec = operations_spec(subject.target, "product")
    change = contents_of(spec).operation(Kind.READ_MODIFY_WRITE, 1, 9)
    with fault_proxy(subject.upstream, http1) as proxy:
        async with operating(subject.through(spec, proxy)) as driver:
            proxy.follow(Rule(Throttle(DYNAMODB_THROTTLING), times=1))
            refused = await driver.operate(change)
            stored = await subject.read_back(spec, change.key)
    assert refused.outcome is Outcome.FAILED
    assert stored == stored_of(contents_of(spec).preloaded(1))


@pytest.mark.parametrize("reuse", [True, False])
async def test_what_is_made_ahead_ends_as_what_is_awaited(subject: DynamoDbSubject, *, reuse: bool) -> None:
    """The engines make ahead; a request by itself takes no task then, and whatever takes several steps takes one."""
    spec = operations_spec(subject.target, reuse=reuse)
    kinds = (Kind.OVERWRITE, Kind.READ_MODIFY_WRITE, Kind.READ)
    async with operating(subject.operable(spec)) as driver:
        assert isinstance(driver, PromptOperable)
        made = [driver.make(contents_of(spec).operation(kind, 0, 1)) for kind in kinds]
        ends = [await answer_of(each) for each in made]
    assert [type(each) for each in made] == ([SignedRequest, Tasked, SignedRequest] if reuse else [Tasked] * 3)
    assert [(each.outcome, each.connecting is None) for each in ends] == [(Outcome.OK, reuse)] * 3


async def test_preloading_goes_on_where_it_was(subject: DynamoDbSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried PrepareTarget has the same 15 minutes; from the beginning it would never end."""
    monkeypatch.setattr(preloading, "BATCHES_PER_LANE", 1)
    wave = PRELOAD_LANES * BATCH_ITEMS
    spec = operations_spec(subject.target, records=2 * wave + 1)
    with fault_proxy(subject.upstream, http1) as proxy:
        proxy.follow(Rule(Cut("before-request"), match=b"BatchWriteItem", from_nth=2 * PRELOAD_LANES + 1))
        broken, again = subject.through(spec, proxy), subject.through(spec, proxy)
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
    requests = Requests(subject.settings.target_table_prefix + spec.tag)
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
