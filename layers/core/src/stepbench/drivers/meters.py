"""
How busy a store was, read from CloudWatch: CPU of servers, consumed of provisioned write units of a table.

Beside the drivers, not in them: a meter needs neither the store's client library nor a way to its network. S3 tells
nothing of the kind, of Redis none is read, and the reference store has nothing to be busy with.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, assert_never

from pydantic import ValidationError

from stepbench.contracts.metric import Metric
from stepbench.contracts.target import (
    CassandraTarget,
    DsqlTarget,
    DynamoDbTarget,
    EtcdTarget,
    PostgresqlTarget,
    RedisTarget,
    ReferenceTarget,
    S3Target,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.target import Target
    from stepbench.settings import Settings

    Dimensions = Mapping[str, str]

_SECOND_NS = 10**9
TABLE_PERIOD_S = 60
"""DynamoDB's own metrics are by the minute."""
PARAMETERS = {"dynamodb": "DynamoDbMetric", "postgresql": "PostgresqlMetric", "etcd": "EtcdMetric"}
"""The template's parameter with a store's metric."""


class Reading(NamedTuple):
    """
    What CloudWatch has so far.

    utilisation: None where it has nothing. whole: nothing more is to come. text: of what it is.
    """

    utilisation: float | None
    whole: bool
    text: str


class Meter(Protocol):
    """Reads the utilisation of one store."""

    @property
    def period_s(self) -> int:
        """Of its metric; only whole periods are read."""
        ...

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """
        Over the whole periods between two moments, ns since the epoch.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: AWS does not answer, or not so.
        """
        ...


def metric_of(target: Target, settings: Settings) -> Metric | None:
    """
    The metric that a stack's parameter names for a store; None where it names none.

    Raises:
        ValueError: the parameter is no metric; says which, and why.
    """
    match target:
        case DynamoDbTarget():
            text = settings.dynamodb_metric
        case PostgresqlTarget():
            text = settings.postgresql_metric
        case EtcdTarget():
            text = settings.etcd_metric
        case S3Target() | CassandraTarget() | DsqlTarget() | RedisTarget() | ReferenceTarget():
            return None
        case _ as unreachable:
            assert_never(unreachable)
    try:
        return Metric.model_validate_json(text) if text else None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{PARAMETERS[target.store]} is no metric: {f'{where}: ' if where else ''}{first['msg']}"
        raise ValueError(message) from error


def build_meter(spec: TrialSpec, settings: Settings, aws: Callable[[str], Any]) -> Meter | None:
    """
    The meter of a trial's store; None where the stack knows no metric of it.

    Raises:
        ValueError: as `metric_of`.
    """
    metric = metric_of(spec.plan.target, settings)
    if metric is not None:
        return MetricMeter(metric, aws)
    if isinstance(spec.plan.target, DynamoDbTarget):
        return TableMeter(f"{settings.target_table_prefix}{spec.tag}", aws)
    return None


class MetricMeter:
    """Servers: the average of a metric, of the busiest of them."""

    def __init__(self, metric: Metric, aws: Callable[[str], Any]) -> None:
        self._metric = metric
        self._aws = aws

    @property
    def period_s(self) -> int:
        """The metric's."""
        return self._metric.period_s

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """Average over the periods, then the largest of the servers'."""
        metric, span = self._metric, _whole_periods(from_ns, to_ns, self._metric.period_s)
        of = f"{metric.metric} ({metric.namespace}, {_named(metric.dimensions)})"
        if span.periods == 0:
            return _too_short(of, metric.period_s)
        wanted = _Series(metric.namespace, metric.metric, metric.dimensions, "Average")
        series = _fetch(self._aws, wanted, span)
        averages = [sum(values) / len(values) / metric.full for values in series if values]
        came = min(len(values) for values in series)
        if not averages:
            return Reading(None, whole=False, text=f"{of} has no value yet")
        busiest = f", the busiest of {len(series)}" if len(series) > 1 else ""
        return Reading(max(averages), came >= span.periods, f"{of}: {_periods(came, span)}{busiest}")


class TableMeter:
    """A DynamoDB table: write units consumed, of those provisioned."""

    def __init__(self, table: str, aws: Callable[[str], Any]) -> None:
        self._table = table
        self._aws = aws

    @property
    def period_s(self) -> int:
        """DynamoDB's."""
        return TABLE_PERIOD_S

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """The sum over the periods, of what they would have allowed."""
        of, span = "consumed of provisioned write units", _whole_periods(from_ns, to_ns, TABLE_PERIOD_S)
        if span.periods == 0:
            return _too_short(of, TABLE_PERIOD_S)
        table = self._aws("dynamodb").describe_table(TableName=self._table)["Table"]
        units = table.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", 0)
        if not units:
            return Reading(None, whole=True, text=f"table {self._table} has no provisioned write units")
        name, dimensions = "ConsumedWriteCapacityUnits", ({"TableName": self._table},)
        (values,) = _fetch(self._aws, _Series("AWS/DynamoDB", name, dimensions, "Sum"), span)
        if not values:
            return Reading(None, whole=False, text=f"{name} of {self._table} has no value yet")
        used = sum(values) / (len(values) * TABLE_PERIOD_S * units)
        return Reading(used, len(values) >= span.periods, f"{of} ({units:,}): {_periods(len(values), span)}")


class _Span(NamedTuple):
    """So many whole periods from `begin_s` on, seconds since the epoch."""

    begin_s: int
    periods: int
    period_s: int


def _whole_periods(from_ns: int, to_ns: int, period_s: int) -> _Span:
    """CloudWatch's periods begin at whole multiples of their length."""
    first = math.ceil(from_ns / (period_s * _SECOND_NS))
    last = to_ns // (period_s * _SECOND_NS)
    return _Span(first * period_s, max(0, last - first), period_s)


class _Series(NamedTuple):
    """Which values to fetch: a metric of each set of dimensions."""

    namespace: str
    metric: str
    dimensions: Sequence[Dimensions]
    statistic: str


def _fetch(aws: Callable[[str], Any], series: _Series, span: _Span) -> list[list[float]]:
    """The values of each series inside the span."""
    queries = [_query(f"m{number}", series, one, span.period_s) for number, one in enumerate(series.dimensions)]
    begin = datetime.fromtimestamp(span.begin_s, UTC)
    end = datetime.fromtimestamp(span.begin_s + span.periods * span.period_s, UTC)
    answer = aws("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=begin, EndTime=end)
    found = {each["Id"]: zip(each["Timestamps"], each["Values"], strict=True) for each in answer["MetricDataResults"]}
    return [[float(value) for at, value in found.get(query["Id"], ()) if begin <= at < end] for query in queries]


def _query(name: str, series: _Series, dimensions: Dimensions, period_s: int) -> dict[str, Any]:
    metric = {
        "Namespace": series.namespace,
        "MetricName": series.metric,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }
    return {"Id": name, "MetricStat": {"Metric": metric, "Period": period_s, "Stat": series.statistic}}


def _too_short(of: str, period_s: int) -> Reading:
    return Reading(None, whole=True, text=f"{of} has a value every {period_s} s, and the phase held no whole one")


def _periods(came: int, span: _Span) -> str:
    if came < span.periods:
        return f"{came} of {span.periods} periods of {span.period_s} s"
    return f"{span.periods} period{'s' if span.periods > 1 else ''} of {span.period_s} s"


def _named(dimensions: Sequence[Dimensions]) -> str:
    return "; ".join(", ".join(one.values()) for one in dimensions)
