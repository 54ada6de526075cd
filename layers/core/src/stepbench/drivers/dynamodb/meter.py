"""The utilisation of a DynamoDB table: write units consumed, of those provisioned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.drivers.cloudwatch import MetricSeries, read_utilisation
from stepbench.drivers.protocol import Reading

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
