"""What CloudWatch has of a function, by a real client whose answers are given beforehand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber

from stepbench.contracts.invocations import FunctionMetrics
from stepbench.drivers.receivers.metrics import read_function_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE = 1_700_000_040
"""A whole minute, seconds since the epoch."""
SPAN_S = (MINUTE + 7, MINUTE + 150)
COUNTED = (("invocations", "Invocations", "Sum"), ("throttles", "Throttles", "Sum"))
AT_ONCE = ("most_at_once", "ConcurrentExecutions", "Maximum")


class CloudWatch:
    """A client behind a Stubber, which checks parameters against the service's model."""

    def __init__(self) -> None:
        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
        self.client = boto3.client("cloudwatch", **secret)  # type: ignore[call-overload]
        self.stub = Stubber(self.client)

    def answer(
        self, expected: tuple[tuple[str, str, str], ...] = (), partial: str = "", **series: dict[int, float]
    ) -> None:
        """Answer once with values by seconds after `MINUTE`; the question has these metrics, if any are given."""
        results = [
            {
                "Id": name,
                "Timestamps": [datetime.fromtimestamp(MINUTE + at_s, UTC) for at_s in points],
                "Values": list(points.values()),
                "StatusCode": "PartialData" if name == partial else "Complete",
            }
            for name, points in series.items()
        ]
        dimensions = [{"Name": "FunctionName", "Value": "stack-measured-t"}]
        queries = [
            {
                "Id": field,
                "MetricStat": {
                    "Metric": {"Namespace": "AWS/Lambda", "MetricName": metric, "Dimensions": dimensions},
                    "Period": 60,
                    "Stat": statistic,
                },
            }
            for field, metric, statistic in expected
        ]
        span = {"StartTime": datetime.fromtimestamp(MINUTE, UTC), "EndTime": datetime.fromtimestamp(SPAN_S[1], UTC)}
        asked = {"MetricDataQueries": queries, **span} if expected else None
        self.stub.add_response("get_metric_data", {"MetricDataResults": results}, asked)

    def read(self, *, streamed: bool = False) -> FunctionMetrics:
        """Return what is made of the answer."""
        clients: dict[str, Any] = {"cloudwatch": self.client}
        return read_function_metrics(clients.__getitem__, "stack-measured-t", SPAN_S, streamed=streamed)


@pytest.fixture
def cloudwatch() -> Iterator[CloudWatch]:
    """Yield it; each answer must have been asked for in the end."""
    found = CloudWatch()
    with found.stub:
        yield found
        found.stub.assert_no_pending_responses()


def test_of_single_events_throttles_drops_and_the_queue_are_read(cloudwatch: CloudWatch) -> None:
    """Counts are added up, the others are the highest; the last minute has no value, and `until` says so."""
    asynchronous = (("dropped", "AsyncEventsDropped", "Sum"), ("oldest_event_ms", "AsyncEventAge", "Maximum"))
    cloudwatch.answer(
        (*COUNTED, *asynchronous, AT_ONCE),
        invocations={60: 30, 0: 12},
        throttles={60: 2, 0: 1},
        dropped={60: 4},
        oldest_event_ms={0: 80, 60: 1900.5},
        most_at_once={0: 3, 60: 5},
    )
    assert cloudwatch.read() == FunctionMetrics(
        until="2023-11-14T22:16:00+00:00",
        invocations=42,
        throttles=3,
        dropped=4,
        oldest_event_ms=1900.5,
        most_at_once=5,
    )


def test_of_streams_the_iterator_s_age_is_read(cloudwatch: CloudWatch) -> None:
    """A stream has no queue, and nothing of it is dropped there."""
    cloudwatch.answer((*COUNTED, ("oldest_event_ms", "IteratorAge", "Maximum"), AT_ONCE), oldest_event_ms={0: 7})
    assert cloudwatch.read(streamed=True) == FunctionMetrics()


def test_counts_without_a_value_are_zero_up_to_the_last_minute_that_came(cloudwatch: CloudWatch) -> None:
    """Lambda leaves zeros out; an age without a value is unknown. A minute that still goes on ends now."""
    cloudwatch.answer(invocations={120: 9}, throttles={}, dropped={}, oldest_event_ms={}, most_at_once={})
    found = cloudwatch.read()
    assert (found.invocations, found.throttles, found.dropped) == (9, 0, 0)
    assert (found.oldest_event_ms, found.most_at_once) == (None, None)
    assert found.until == datetime.fromtimestamp(SPAN_S[1], UTC).isoformat()


def test_what_came_in_part_is_unknown(cloudwatch: CloudWatch) -> None:
    """Half of the throttles would be taken for all of them."""
    cloudwatch.answer(partial="throttles", invocations={0: 9}, throttles={0: 1})
    found = cloudwatch.read()
    assert (found.invocations, found.throttles) == (9, None)


def test_nothing_yet_is_no_zero(cloudwatch: CloudWatch) -> None:
    """CloudWatch is a minute late, and a trial may be shorter."""
    cloudwatch.answer(invocations={}, throttles={}, dropped={}, oldest_event_ms={}, most_at_once={})
    assert cloudwatch.read() == FunctionMetrics()


def test_a_refusal_is_the_reason(cloudwatch: CloudWatch) -> None:
    """The trial has its latencies all the same."""
    cloudwatch.stub.add_client_error("get_metric_data", "AccessDenied", "no right")
    found = cloudwatch.read()
    assert (found.throttles, found.until) == (None, "")
    assert "AccessDenied" in found.reason
