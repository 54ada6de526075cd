"""
The utilisation of a store by a metric of CloudWatch over whole periods: that of a stack's parameter, or another.

A meter is no part of a driver: it needs neither the store's client library nor a way to its network.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.capacity import Metric
from stepbench.drivers.protocol import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.target import Target
    from stepbench.settings import Settings


def read_utilisation(  # noqa: PLR0913 -- what is read, how, and when
    aws: Callable[[str], Any], metric: Metric, from_ns: int, to_ns: int, *, statistic: str, text: str
) -> Reading:
    """
    Return the largest of a metric's averages, as a share of `full`, over the whole periods between two moments.

    Each of its sets of dimensions has a series of values. CloudWatch's periods begin at whole multiples of their
    length. `text` names it in the reading.
    """
    period_s = metric.period_s
    first, last = math.ceil(from_ns / (period_s * 10**9)), to_ns // (period_s * 10**9)
    if last <= first:
        whole = f"{text} has a value every {period_s} s, and the phase held no whole one"
        return Reading(None, whole=True, text=whole)
    found = _fetch_series(aws, metric, statistic, first * period_s, last * period_s)
    each = [sum(values) / len(values) / metric.full if values else None for values in found]
    averages = [average for average in each if average is not None]
    if not averages:
        return Reading(None, whole=False, text=f"{text} has no value yet")
    came, periods = min(map(len, found)), last - first
    counted = f"{came} of {periods}" if came < periods else f"{periods}"
    plural = "s" if periods > 1 else ""
    shares = ", ".join("unknown" if average is None else f"{100 * average:.0f} %" for average in each)
    busiest = f", the busiest of {len(found)} ({shares})" if len(found) > 1 else ""
    return Reading(max(averages), came >= periods, f"{text}: {counted} period{plural} of {period_s} s{busiest}")


def _fetch_series(
    aws: Callable[[str], Any], metric: Metric, statistic: str, begin_s: int, end_s: int
) -> list[list[float]]:
    queries = [_format_query(number, metric, statistic) for number in range(len(metric.dimensions))]
    begin, end = datetime.fromtimestamp(begin_s, UTC), datetime.fromtimestamp(end_s, UTC)
    answer = aws("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=begin, EndTime=end)
    found = {each["Id"]: zip(each["Timestamps"], each["Values"], strict=True) for each in answer["MetricDataResults"]}
    return [[float(value) for at, value in found.get(query["Id"], ()) if begin <= at < end] for query in queries]


def _format_query(number: int, metric: Metric, statistic: str) -> dict[str, Any]:
    asked = {
        "Namespace": metric.namespace,
        "MetricName": metric.metric,
        "Dimensions": [{"Name": key, "Value": value} for key, value in metric.dimensions[number].items()],
    }
    return {"Id": f"m{number}", "MetricStat": {"Metric": asked, "Period": metric.period_s, "Stat": statistic}}


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
        text = f"{metric.metric} ({metric.namespace}, {dimensions})"
        return read_utilisation(self._aws, metric, from_ns, to_ns, statistic="Average", text=text)
