"""A DynamoDB table that is a trial's own: made, scaled (by AWS, too), and removed; and what its drivers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.capacity import AutoscaledCapacity, Capacity, OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.target import DynamoDbTarget
from stepbench.drivers.aws import AwsAccess, error_code
from stepbench.drivers.protocol import in_turn
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.phase import Scale
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings
    from stepbench.wire.http1.pool import PoolLimits

ACTIVE_WITHIN_NS = 180_000_000_000
"""A table takes 5 to 20 s as a rule; one that is pre-warmed, minutes."""
_FIRST_POLL_S, _POLL_S = 0.02, 0.5
"""An emulator has done it by the first; each pause is twice as long as the last, up to the second."""
SERVICE = "application-autoscaling"
POLICY = "stepbench"


class DynamoDbTable:
    """The table with the trial's tag in its name. All methods may raise TargetUnavailableError."""

    def __init__(self, spec: TrialSpec, settings: Settings, aws: AwsAccess, clock: Clock) -> None:
        target = spec.offered.target
        if not isinstance(target, DynamoDbTarget):
            message = f"this driver serves dynamodb, not {target.store}"
            raise TypeError(message)
        self.name = f"{settings.target_table_prefix}{spec.tag}"
        self.target = target
        self._spec = spec
        self._capacity: Capacity = target.capacity
        self._aws = aws
        self._clock = clock
        self._autoscaling = TableAutoscaling(aws, self.name)

    async def call(self, operation: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- as boto3 takes it
        """Make a control-plane call about the table."""
        return await self._aws.ask(operation, TableName=self.name, **request)

    async def describe(self) -> dict[str, Any] | None:
        """Return the table as DescribeTable shows it; None where there is none."""
        try:
            table: dict[str, Any] = (await self.call("describe_table"))["Table"]
        except TargetUnavailableError as error:
            if error_code(error) == "ResourceNotFoundException":
                return None
            raise
        return table

    async def ensure(self, *, streamed: bool) -> dict[str, Any]:
        """Make it where it is missing, wait until it is active, and return it as described then."""
        if await self.describe() is None:
            stream = stream_of(self.target) if streamed else {}
            await self.call("create_table", **table_request(self._capacity), **stream)
        return await self.until_active(streamed=streamed)

    async def until_active(self, *, streamed: bool) -> dict[str, Any]:
        """
        Wait for the end of a change, and return the table as it is then.

        `streamed`: wait for the ARN of its stream, too, which a table that is ACTIVE may not have at once.
        """
        until_ns, pauses_s = self._clock.now_ns() + ACTIVE_WITHIN_NS, _pauses_s()
        while True:
            table = await self.describe()
            status = table["TableStatus"] if table else "gone"
            if table is not None and status == "ACTIVE" and (not streamed or "LatestStreamArn" in table):
                return table
            if self._clock.now_ns() >= until_ns:
                lacking = "without the ARN of its stream" if status == "ACTIVE" else "not ACTIVE"
                message = f"table {self.name} is {status} after {ACTIVE_WITHIN_NS // 10**9} s, {lacking}"
                raise TargetUnavailableError(message)
            await self._clock.sleep_async(next(pauses_s))

    async def ensure_autoscaling(self) -> None:
        """Register autoscaling, where the trial begins with it."""
        if isinstance(self._capacity, AutoscaledCapacity):
            await self._autoscaling.ensure(self._capacity)

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity, one change at a time as DynamoDB demands; True when all of it is active."""
        table = await self.describe()
        if table is None:
            message = f"table {self.name} is gone and cannot be scaled; start the trial again"
            raise TargetUnavailableError(message)
        if table["TableStatus"] != "ACTIVE" or table.get("WarmThroughput", {}).get("Status", "ACTIVE") != "ACTIVE":
            return False
        request = scaling_request(table, scale.capacity)
        if request or not isinstance(scale.capacity, AutoscaledCapacity):
            await self.stop_autoscaling()  # it would move the units back
        if request:
            await self._unless_in_use("update_table", **request)
        elif isinstance(scale.capacity, AutoscaledCapacity):
            await self._autoscaling.ensure(scale.capacity)
        return not request

    async def stop_autoscaling(self) -> bool:
        """Deregister autoscaling, where the trial ever asks for it; True, since that takes effect at once."""
        asked = [self._capacity, *(phase.scale.capacity for phase in self._spec.offered.phases if phase.scale)]
        if any(isinstance(capacity, AutoscaledCapacity) for capacity in asked):
            await self._autoscaling.remove()
        return True

    async def remove(self) -> bool:
        """Ask for its deletion; True when it is gone."""
        table = await self.describe()
        if table is not None and table["TableStatus"] != "DELETING":
            await self._unless_in_use("delete_table")
        return table is None

    async def _unless_in_use(self, operation: str, **request: Any) -> None:  # noqa: ANN401 -- as boto3 takes it
        """Call; a table in the middle of a change refuses, and will be asked again."""
        try:
            await self.call(operation, **request)
        except TargetUnavailableError as error:
            if error_code(error) != "ResourceInUseException":
                raise


def _pauses_s() -> Iterator[float]:
    """Return how long to wait before each look at a change that AWS makes in its own time."""
    pause_s = _FIRST_POLL_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _POLL_S)


def stream_of(target: DynamoDbTarget) -> dict[str, Any]:
    """Return the argument that turns the stream on."""
    return {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": target.stream_view.upper()}}


def table_request(capacity: Capacity) -> dict[str, Any]:
    """Return CreateTable's arguments, name and stream apart."""
    return {
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        **_billing(capacity),
        **_warmth(capacity),
    }


def scaling_request(table: dict[str, Any], capacity: Capacity) -> dict[str, Any]:
    """
    Return UpdateTable's arguments for the next change towards a capacity; empty when the table has it.

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
    """Return the mode and its units: an autoscaled table begins at its lower bound, so that all runs begin there."""
    if isinstance(capacity, ProvisionedCapacity | AutoscaledCapacity):
        write_units = capacity.write_units if isinstance(capacity, ProvisionedCapacity) else capacity.min_write_units
        units = {"ReadCapacityUnits": capacity.read_units, "WriteCapacityUnits": write_units}
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units}
    return {"BillingMode": "PAY_PER_REQUEST"}


def _warmth(capacity: Capacity) -> dict[str, Any]:
    if isinstance(capacity, OnDemandCapacity) and capacity.warm_write_units:
        return {"WarmThroughput": {"WriteUnitsPerSecond": capacity.warm_write_units}}
    return {}


class TableAutoscaling:
    """Target tracking of a table's write units, registered for the trial and removed with it."""

    def __init__(self, aws: AwsAccess, table: str) -> None:
        self._aws = aws
        self._target = {
            "ServiceNamespace": "dynamodb",
            "ResourceId": f"table/{table}",
            "ScalableDimension": "dynamodb:table:WriteCapacityUnits",
        }

    async def ensure(self, capacity: AutoscaledCapacity) -> None:
        """Register bounds and policy; both calls replace what was there. Raises TargetUnavailableError."""
        bounds = {"MinCapacity": capacity.min_write_units, "MaxCapacity": capacity.max_write_units}
        tracking = {
            "TargetValue": float(capacity.target_utilisation_percent),
            "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"},
        }
        await self._call("register_scalable_target", **bounds)
        await self._call(
            "put_scaling_policy",
            PolicyName=POLICY,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=tracking,
        )

    async def remove(self) -> None:
        """Deregister autoscaling, which deletes the policy and its alarms, too. Raises TargetUnavailableError."""
        try:
            await self._call("deregister_scalable_target")
        except TargetUnavailableError as error:
            if error_code(error) != "ObjectNotFoundException":
                raise

    async def _call(self, operation: str, **request: Any) -> None:  # noqa: ANN401 -- as boto3 takes it
        await self._aws.ask(operation, SERVICE, **self._target, **request)


TEAR_DOWN_FOR_NS = 20_000_000_000


class DynamoDbStore:
    """The part of the drivers of triggers and operations that they share: all but `prepare` and `prepare_request`."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock, limits: PoolLimits) -> None:
        self._spec = spec
        self._clock = clock
        tls = spec.offered.target.tls if isinstance(spec.offered.target, DynamoDbTarget) else None
        self._plain = tls is False and spec.offered.target.endpoint is None and not settings.emulator
        self._aws = AwsAccess("dynamodb", spec, settings, clock, limits=limits, tls=tls)
        self._table = DynamoDbTable(spec, settings, self._aws, clock)

    async def open(self) -> None:
        """Read credentials and connect. Raises TargetUnavailableError."""
        await self._aws.open()

    async def ready(self) -> bool:
        """Return whether the table is active."""
        table = await self._table.describe()
        return table is not None and table["TableStatus"] == "ACTIVE"

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity, one change at a time as DynamoDB demands; True when all of it is active."""
        return await self._table.scale(scale)

    async def tear_down(self) -> bool:
        """Remove what belongs to the trial, and see it gone."""
        return await in_turn(self._table.stop_autoscaling, self._remove_in_time)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"table {self._table.name}",)

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def provider(self) -> str:
        """Return what serves the table."""
        return self._aws.provider("Amazon DynamoDB, plain HTTP" if self._plain else "Amazon DynamoDB")

    async def _remove_in_time(self) -> bool:
        until_ns, pauses_s = self._clock.now_ns() + TEAR_DOWN_FOR_NS, _pauses_s()
        while not await self._remove():
            if self._clock.now_ns() >= until_ns:
                return False
            await self._clock.sleep_async(next(pauses_s))
        return True

    async def _remove(self) -> bool:
        return await self._table.remove()
