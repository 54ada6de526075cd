"""Amazon DynamoDB: streams, and operations; the utilisation of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.capacity import Metric
from stepbench.deferred import deferred
from stepbench.drivers.metering import read_utilisation
from stepbench.drivers.protocol import Reading, StoreRoom

if TYPE_CHECKING:
    from collections.abc import Callable


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
        consumed = Metric(
            namespace="AWS/DynamoDB",
            metric="ConsumedWriteCapacityUnits",
            dimensions=({"TableName": self._table},),
            period_s=TABLE_PERIOD_S,
            full=TABLE_PERIOD_S * units,
        )
        text = f"consumed of provisioned write units ({units:,})"
        return read_utilisation(self._aws, consumed, from_ns, to_ns, statistic="Sum", text=text)


ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.target_table_prefix,
    trigger=deferred("stepbench.drivers.dynamodb.trigger:build_trigger"),
    operations=deferred("stepbench.drivers.dynamodb.operations:DynamoDbOperations"),
    meter=lambda spec, settings, aws: TableMeter(f"{settings.target_table_prefix}{spec.tag}", aws),
)
