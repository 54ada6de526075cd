"""Utilisation read from CloudWatch, over whole periods."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.drivers.protocol import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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
