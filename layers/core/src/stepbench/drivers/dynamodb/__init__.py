"""Amazon DynamoDB: streams, and operations; the utilisation of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.target import DynamoDbTarget
from stepbench.drivers.metering import MetricSeries, read_utilisation
from stepbench.drivers.protocol import Reading, StoreRoom, deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver, Meter
    from stepbench.settings import Settings


TABLE_PERIOD_S = 60
"""DynamoDB's own metrics are by the minute."""


class TableMeter:
    """`Meter` of a DynamoDB table."""

    def __init__(self, table: str, aws: Callable[[str], Any]) -> None:
        self._table = table
        self._aws = aws

    @property
    def period_s(self) -> int:
        """Return DynamoDB's period."""
        return TABLE_PERIOD_S

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """Return the sum over the periods as a share of what they would have allowed."""
        table = self._aws("dynamodb").describe_table(TableName=self._table)["Table"]
        units = table.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", 0)
        if not units:
            return Reading(None, whole=True, text=f"table {self._table} has no provisioned write units")
        series = MetricSeries(
            "AWS/DynamoDB",
            "ConsumedWriteCapacityUnits",
            ({"TableName": self._table},),
            statistic="Sum",
            period_s=TABLE_PERIOD_S,
            full=TABLE_PERIOD_S * units,
            text=f"consumed of provisioned write units ({units:,})",
        )
        return read_utilisation(self._aws, series, from_ns, to_ns)


def _trigger(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    target = spec.offered.target
    same_sandbox = isinstance(target, DynamoDbTarget) and target.same_sandbox
    build = deferred("stepbench.drivers.dynamodb.trigger:DynamoDbDriver")
    if same_sandbox:
        build = deferred("stepbench.drivers.dynamodb.trigger:SameSandboxDriver")
    driver: Driver = build(spec, settings, clock)
    return driver


def _meter(spec: TrialSpec, settings: Settings, aws: Callable[[str], Any]) -> Meter:

    return TableMeter(f"{settings.target_table_prefix}{spec.tag}", aws)


ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.target_table_prefix,
    trigger=_trigger,
    operations=deferred("stepbench.drivers.dynamodb.operations:DynamoDbOperations"),
    meter=_meter,
)
