"""What CloudWatch has of a function: throttles, how long its events waited, and how many of it ran at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.invocations import FunctionMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S = 60
_COUNTED = {"invocations": ("Invocations", "Sum"), "throttles": ("Throttles", "Sum")}
_ASYNCHRONOUS = {"dropped": ("AsyncEventsDropped", "Sum"), "oldest_event_ms": ("AsyncEventAge", "Maximum")}
_STREAMED = {"oldest_event_ms": ("IteratorAge", "Maximum")}
_AT_ONCE = {"most_at_once": ("ConcurrentExecutions", "Maximum")}


def read_function_metrics(
    aws: Callable[[str], Any], name: str, span_s: tuple[int, int], *, streamed: bool
) -> FunctionMetrics:
    """
    Return what there is by now, of all versions of the function; what cannot be read is a reason.

    Lambda leaves out zeros of some counts: once a minute's invocations or throttles have come, a count without a value
    is 0 up to there.

    Args:
        aws: makes a boto3 client.
        name: the function's.
        span_s: from and to, seconds since the epoch.
        streamed: whether a stream's batches are handed to it, and not single events asynchronously.
    """
    asked = _COUNTED | (_STREAMED if streamed else _ASYNCHRONOUS) | _AT_ONCE
    queries = [_format_query(field, name, *metric) for field, metric in asked.items()]
    begin, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (span_s[0] // PERIOD_S * PERIOD_S, span_s[1]))
    try:
        answer = aws("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=begin, EndTime=end)
    except (BotoCoreError, ClientError) as error:
        return FunctionMetrics(reason=str(error))
    whole = (each for each in answer["MetricDataResults"] if each.get("StatusCode", "Complete") == "Complete")
    series = {each["Id"]: each for each in whole}
    minutes = [at.timestamp() for field in _COUNTED if field in series for at in series[field]["Timestamps"]]
    if not minutes:
        return FunctionMetrics()
    until = datetime.fromtimestamp(min(max(minutes) + PERIOD_S, span_s[1]), UTC)
    found = {field: _combine(each["Values"], asked[field][1]) for field, each in series.items()}
    return FunctionMetrics.model_validate({"until": until.isoformat(), **found})


def _format_query(field: str, name: str, metric: str, statistic: str) -> dict[str, Any]:
    dimensions = [{"Name": "FunctionName", "Value": name}]
    asked = {"Namespace": "AWS/Lambda", "MetricName": metric, "Dimensions": dimensions}
    return {"Id": field, "MetricStat": {"Metric": asked, "Period": PERIOD_S, "Stat": statistic}}


def _combine(values: list[float], statistic: str) -> float | None:
    return round(sum(values)) if statistic == "Sum" else max(values, default=None)
