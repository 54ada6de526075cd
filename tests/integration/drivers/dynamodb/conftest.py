"""The emulator's DynamoDB, looked at through boto3."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.subjects import NO_SERVER
from tests.support.contracts.operations_subject import SILENT_LIMIT_S
from tests.support.fault_proxy import http1

from stepbench.clock import AnchoredClock
from stepbench.drivers.dynamodb.operations import DynamoDbOperations
from stepbench.drivers.dynamodb.trigger import DynamoDbDriver

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.integration.drivers.conftest import Receiving
    from tests.support.contracts.filter import Arrived
    from tests.support.fault_proxy import FaultProxy, Framing

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.settings import Settings


class DynamoDbSubject:
    """See `TriggerSubject`, `FilterSubject` and `OperationsSubject`."""

    target: dict[str, Any] = {"store": "dynamodb"}  # noqa: RUF012 -- the TriggerSubject protocol's attribute
    framing: Callable[[], Framing] = staticmethod(http1)

    def __init__(self, services: Services, settings: Settings, receiving: Receiving) -> None:
        self.boto, self._lambda = services.aws("dynamodb"), services.aws("lambda")
        self.settings = settings
        self.upstream = settings.aws_endpoint_url
        self._receiving = receiving

    def driver(self, spec: TrialSpec) -> DynamoDbDriver:
        """See above."""
        return DynamoDbDriver(spec, self.settings, AnchoredClock())

    def operable(self, spec: TrialSpec) -> DynamoDbOperations:
        """See above."""
        return DynamoDbOperations(spec, self.settings, AnchoredClock())

    def unreachable(self, spec: TrialSpec) -> DynamoDbDriver | DynamoDbOperations:
        """See above."""
        make = DynamoDbOperations if spec.plan.experiment == "operations" else DynamoDbDriver
        return make(spec, self._at(NO_SERVER), AnchoredClock())

    def through(self, spec: TrialSpec, proxy: FaultProxy, answer_limit_s: float = SILENT_LIMIT_S) -> DynamoDbOperations:
        """See above."""
        return DynamoDbOperations(spec, self._at(proxy.url), AnchoredClock(), answer_limit_s=answer_limit_s)

    async def read_back(self, spec: TrialSpec, key: str) -> Any:  # noqa: ANN401 -- bytes, and of operations `Stored`
        """Read consistently."""
        return await asyncio.to_thread(self._get, spec, key)

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Let the function run."""
        return self._receiving(spec.tag)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return tables and mappings, and in operations the items' keys."""
        return await asyncio.to_thread(self._list, spec)

    def table(self, spec: TrialSpec) -> dict[str, Any]:
        """Return the table as DescribeTable shows it."""
        found: dict[str, Any] = self.boto.describe_table(TableName=self.name(spec))["Table"]
        return found

    def mapping(self, spec: TrialSpec) -> dict[str, Any]:
        """Return the trial's one mapping."""
        found = [each for each in self._mappings() if spec.tag in each["EventSourceArn"]]
        assert len(found) == 1
        return found[0]

    def name(self, spec: TrialSpec) -> str:
        """Return the name of the trial's table."""
        return self.settings.target_table_prefix + spec.tag

    def _at(self, url: str) -> Settings:
        return self.settings.model_copy(update={"aws_endpoint_url": url})

    def _get(self, spec: TrialSpec, key: str) -> bytes | dict[str, str] | None:
        item = self.boto.get_item(TableName=self.name(spec), Key={"pk": {"S": key}}, ConsistentRead=True).get("Item")
        if item is None:
            return None
        texts = {name: text for name, typed in item.items() if name != "pk" for text in typed.values()}
        if set(texts) == {"value"}:
            return str(texts["value"]).encode()
        return {**texts, "price": f"{float(texts['price']):.2f}"}  # DynamoDB drops a number's trailing zeros

    def _list(self, spec: TrialSpec) -> list[str]:
        pages = self.boto.get_paginator("list_tables").paginate()
        tables = [name for page in pages for name in page["TableNames"] if spec.tag in name]
        if spec.plan.experiment == "operations":
            items = [item for name in tables for item in self.boto.scan(TableName=name)["Items"]]
            return tables + [item["pk"]["S"] for item in items]
        return tables + [each["UUID"] for each in self._mappings() if spec.tag in each["EventSourceArn"]]

    def _mappings(self) -> list[dict[str, Any]]:
        pages = self._lambda.get_paginator("list_event_source_mappings").paginate()
        return [mapping for page in pages for mapping in page["EventSourceMappings"]]


@pytest.fixture
def subject(services: Services, receiver_arn: str, receiving: Receiving) -> DynamoDbSubject:
    """Return DynamoDB with a receiver that can be mapped and runs within `receiving` only."""
    settings = services.settings.model_copy(update={"receive_events_function_arn": receiver_arn})
    return DynamoDbSubject(services, settings, receiving)
