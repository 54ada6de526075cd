"""
The utilisation of a store by a metric of CloudWatch over whole periods: that of a stack's parameter, or another.

A meter is no part of a driver: it needs neither the store's client library nor a way to its network.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from stepbench.contracts.capacity import Metric
from stepbench.drivers.protocol import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepbench.contracts.target import Target
    from stepbench.settings import Settings


class MetricSeries(NamedTuple):
    """
    A metric with some sets of dimensions, each of which has a series of values.

    full: the value of what can do no more. text: names the metric in a reading.
    """

    namespace: str
    metric: str
    dimensions: Sequence[Mapping[str, str]]
    statistic: str
    period_s: int
    full: float
    text: str


def read_utilisation(aws: Callable[[str], Any], series: MetricSeries, from_ns: int, to_ns: int) -> Reading:
    """
    Return the largest of the series' averages, as a share of `full`, over the whole periods between two moments.

    CloudWatch's periods begin at whole multiples of their length.
    """
    text, period_s = series.text, series.period_s
    first, last = math.ceil(from_ns / (period_s * 10**9)), to_ns // (period_s * 10**9)
    if last <= first:
        whole = f"{text} has a value every {period_s} s, and the phase held no whole one"
        return Reading(None, whole=True, text=whole)
    found = _fetch_series(aws, series, first * period_s, last * period_s)
    each = [sum(values) / len(values) / series.full if values else None for values in found]
    averages = [average for average in each if average is not None]
    if not averages:
        return Reading(None, whole=False, text=f"{text} has no value yet")
    came, periods = min(map(len, found)), last - first
    counted = f"{came} of {periods}" if came < periods else f"{periods}"
    plural = "s" if periods > 1 else ""
    shares = ", ".join("unknown" if average is None else f"{100 * average:.0f} %" for average in each)
    busiest = f", the busiest of {len(found)} ({shares})" if len(found) > 1 else ""
    return Reading(max(averages), came >= periods, f"{text}: {counted} period{plural} of {period_s} s{busiest}")


def _fetch_series(aws: Callable[[str], Any], series: MetricSeries, begin_s: int, end_s: int) -> list[list[float]]:
    queries = [_format_query(number, series) for number in range(len(series.dimensions))]
    begin, end = datetime.fromtimestamp(begin_s, UTC), datetime.fromtimestamp(end_s, UTC)
    answer = aws("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=begin, EndTime=end)
    found = {each["Id"]: zip(each["Timestamps"], each["Values"], strict=True) for each in answer["MetricDataResults"]}
    return [[float(value) for at, value in found.get(query["Id"], ()) if begin <= at < end] for query in queries]


def _format_query(number: int, series: MetricSeries) -> dict[str, Any]:
    metric = {
        "Namespace": series.namespace,
        "MetricName": series.metric,
        "Dimensions": [{"Name": key, "Value": value} for key, value in series.dimensions[number].items()],
    }
    statistic = {"Metric": metric, "Period": series.period_s, "Stat": series.statistic}
    return {"Id": f"m{number}", "MetricStat": statistic}


def metric_parameter(store: str) -> str:
    """Return the template's parameter with a store's metric, whether it has one or not."""
    return {"dynamodb": "DynamoDb"}.get(store, store.capitalize()) + "Metric"


def metric_of(target: Target, settings: Settings) -> Metric | None:
    """
    Return the metric that a stack's parameter names for a store; None where it names none.

    Raises:
        ValueError: the parameter is no metric; says which, and why.
    """
    parameter = metric_parameter(target.store)
    text = getattr(settings, f"{target.store}_metric", "")
    try:
        return Metric.model_validate_json(text) if text else None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{parameter} is no metric: {f'{where}: ' if where else ''}{first['msg']}"
        raise ValueError(message) from error


class MetricMeter:
    """`Meter` of servers: the average of a metric, of the busiest of them."""

    def __init__(self, metric: Metric, aws: Callable[[str], Any]) -> None:
        self._metric = metric
        self._aws = aws

    @property
    def period_s(self) -> int:
        """Return the metric's period."""
        return self._metric.period_s

    def read(self, from_ns: int, to_ns: int) -> Reading:
        """Return the largest of the servers' averages over the periods."""
        metric = self._metric
        dimensions = "; ".join(", ".join(one.values()) for one in metric.dimensions)
        series = MetricSeries(
            metric.namespace,
            metric.metric,
            metric.dimensions,
            statistic="Average",
            period_s=metric.period_s,
            full=metric.full,
            text=f"{metric.metric} ({metric.namespace}, {dimensions})",
        )
        return read_utilisation(self._aws, series, from_ns, to_ns)
