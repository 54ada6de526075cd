"""DynamoDB: a table for the trial, whose stream a Lambda event source mapping hands to `ReceiveEvents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.target import (
    AutoscaledCapacity,
    Capacity,
    DynamoDbTarget,
    OnDemandCapacity,
    ProvisionedCapacity,
)
from stepbench.drivers.aws_access import ANSWER_LIMIT_S, AwsAccess, error_code
from stepbench.drivers.dynamodb_items import ItemWrites
from stepbench.drivers.preload import preload
from stepbench.drivers.stream_mapping import StreamMapping, with_filter
from stepbench.drivers.table_autoscaling import TableAutoscaling
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale, TrialSpec
    from stepbench.drivers.protocol import Write, Written
    from stepbench.settings import Settings

ACTIVE_WITHIN_NS = 180_000_000_000
"""A table takes 5 to 20 s as a rule; one that is pre-warmed, minutes."""
TEAR_DOWN_FOR_NS = 20_000_000_000
_POLL_S = 0.5
_STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}


class DynamoDbDriver:
    """`Driver` and `Scalable` for DynamoDB. Items are `{"pk": key, "value": value}`; DynamoDB gives no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        target = spec.plan.target
        if not isinstance(target, DynamoDbTarget):
            message = f"this driver serves dynamodb, not {target.store}"
            raise TypeError(message)
        self._spec = spec
        self._capacity: Capacity = target.capacity
        self._clock = clock
        self._table = f"{settings.target_table_prefix}{spec.tag}"
        self._aws = AwsAccess("dynamodb", spec, settings, clock, answer_limit_s)
        self._mapping = StreamMapping(self._aws, settings, with_filter(target, spec), self._table)
        self._autoscaling = TableAutoscaling(self._aws, self._table)
        self._items = ItemWrites(self._table)

    async def open(self) -> None:
        """Read credentials, connect. Raises TargetUnavailableError."""
        await self._aws.open()

    async def prepare(self) -> None:
        """
        Table, preloaded keys, stream, mapping, each where it is missing.

        The stream is turned on after the preload, so that it holds nothing but the load.
        """
        table = await self._describe()
        if table is None:
            streamed = not self._spec.plan.preloaded_keys
            await self._call("create_table", **table_request(self._capacity, streamed=streamed))
        table = await self._until_active()
        if not table.get("StreamSpecification", {}).get("StreamEnabled"):
            await self._preload()
            await self._call("update_table", StreamSpecification=_STREAM)
            table = await self._until_active()
        if isinstance(self._capacity, AutoscaledCapacity):
            await self._autoscaling.ensure(self._capacity)
        await self._mapping.ensure(table["LatestStreamArn"])

    async def ready(self) -> bool:
        """Whether the table is active and the mapping enabled; Lambda may still take a minute to poll."""
        table = await self._describe()
        return table is not None and table["TableStatus"] == "ACTIVE" and await self._mapping.enabled()

    async def write(self, write: Write) -> Written:
        """PutItem or DeleteItem of one item."""
        return await self._items.send(self._aws.wire, write)

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity, one change at a time as DynamoDB demands; True when all of it is active."""
        table = await self._describe()
        if table is None:
            message = f"table {self._table} is gone and cannot be scaled; start the trial again"
            raise TargetUnavailableError(message)
        if table["TableStatus"] != "ACTIVE" or table.get("WarmThroughput", {}).get("Status", "ACTIVE") != "ACTIVE":
            return False
        request = scaling_request(table, scale.capacity)
        if request or not isinstance(scale.capacity, AutoscaledCapacity):
            await self._stop_autoscaling()  # it would move the units back
        if request:
            await self._unless_in_use("update_table", **request)
        elif isinstance(scale.capacity, AutoscaledCapacity):
            await self._autoscaling.ensure(scale.capacity)
        return not request

    async def tear_down(self) -> bool:
        """Remove the mapping, then the table with its stream, and see both gone."""
        until_ns = self._clock.now_ns() + TEAR_DOWN_FOR_NS
        await self._stop_autoscaling()
        while not (await self._mapping.remove() and await self._remove_table()):
            if self._clock.now_ns() >= until_ns:
                return False
            await self._clock.sleep_async(_POLL_S)
        return True

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def provider(self) -> str:
        """What serves the table."""
        return self._aws.provider("Amazon DynamoDB")

    async def _call(self, operation: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- as boto3 takes it
        client = await self._aws.client()
        answer: dict[str, Any] = await self._aws.call(getattr(client, operation), TableName=self._table, **request)
        return answer

    async def _unless_in_use(self, operation: str, **request: Any) -> None:  # noqa: ANN401 -- as boto3 takes it
        """Call; a table in the middle of a change refuses, and will be asked again."""
        try:
            await self._call(operation, **request)
        except TargetUnavailableError as error:
            if error_code(error) != "ResourceInUseException":
                raise

    async def _stop_autoscaling(self) -> None:
        """Where the trial ever asks for it."""
        asked = [self._capacity, *(phase.scale.capacity for phase in self._spec.plan.phases if phase.scale)]
        if any(isinstance(capacity, AutoscaledCapacity) for capacity in asked):
            await self._autoscaling.remove()

    async def _describe(self) -> dict[str, Any] | None:
        try:
            table: dict[str, Any] = (await self._call("describe_table"))["Table"]
        except TargetUnavailableError as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise
        return table

    async def _until_active(self) -> dict[str, Any]:
        until_ns = self._clock.now_ns() + ACTIVE_WITHIN_NS
        while True:
            table = await self._describe()
            if table is not None and table["TableStatus"] == "ACTIVE":
                return table
            if self._clock.now_ns() >= until_ns:
                status = table["TableStatus"] if table else "gone"
                message = f"table {self._table} is {status} after {ACTIVE_WITHIN_NS // 10**9} s, not ACTIVE"
                raise TargetUnavailableError(message)
            await self._clock.sleep_async(_POLL_S)

    async def _preload(self) -> None:
        async with self._aws.opened():
            await preload(self._spec, self.write, self._clock)

    async def _remove_table(self) -> bool:
        table = await self._describe()
        if table is not None and table["TableStatus"] != "DELETING":
            await self._unless_in_use("delete_table")
        return table is None


def table_request(capacity: Capacity, *, streamed: bool) -> dict[str, Any]:
    """CreateTable's arguments, the name apart."""
    stream = {"StreamSpecification": _STREAM} if streamed else {}
    return {
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        **_billing(capacity),
        **_warmth(capacity),
        **stream,
    }


def scaling_request(table: dict[str, Any], capacity: Capacity) -> dict[str, Any]:
    """
    UpdateTable's arguments for the next change towards a capacity; empty when the table has it.

    Args:
        table: as DescribeTable shows it. A table that reports no warm throughput (an emulator's) cannot be warmed,
            and is not asked to be.
        capacity: what the plan wants.
    """
    billing = _billing(capacity)
    if table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED") != billing["BillingMode"]:
        return billing
    units = table.get("ProvisionedThroughput", {})
    if isinstance(capacity, AutoscaledCapacity):
        inside = capacity.min_write_units <= units.get("WriteCapacityUnits", 0) <= capacity.max_write_units
        return {} if inside and units.get("ReadCapacityUnits") == capacity.read_units else billing
    if any(units.get(name) != wanted for name, wanted in billing.get("ProvisionedThroughput", {}).items()):
        return billing
    warm_units = table.get("WarmThroughput", {}).get("WriteUnitsPerSecond", 0)
    warmth = _warmth(capacity)
    return warmth if warmth and 0 < warm_units < warmth["WarmThroughput"]["WriteUnitsPerSecond"] else {}


def _billing(capacity: Capacity) -> dict[str, Any]:
    """An autoscaled table begins at its lower bound, so that every run begins alike."""
    if isinstance(capacity, ProvisionedCapacity | AutoscaledCapacity):
        write_units = capacity.write_units if isinstance(capacity, ProvisionedCapacity) else capacity.min_write_units
        units = {"ReadCapacityUnits": capacity.read_units, "WriteCapacityUnits": write_units}
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
    return {"BillingMode": "PAY_PER_REQUEST"}


def _warmth(capacity: Capacity) -> dict[str, Any]:
    if isinstance(capacity, OnDemandCapacity) and capacity.warm_write_units:
        return {"WarmThroughput": {"WriteUnitsPerSecond": capacity.warm_write_units}}
    return {}
