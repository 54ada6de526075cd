"""
The meter of a trial's store: the metric that the stack's parameter names, else what the store's room offers.

A meter is no part of a driver: it needs neither the store's client library nor a way to its network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.capacity import Metric
from stepbench.drivers.cloudwatch import MetricSeries, read_utilisation
from stepbench.drivers.protocol import Meter, Reading
from stepbench.drivers.registry import room_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.target import Target
    from stepbench.settings import Settings


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


def build_meter(spec: TrialSpec, settings: Settings, aws: Callable[[str], Any]) -> Meter | None:
    """
    Return the meter of a trial's store; None where the stack knows no metric of it.

    Raises:
        ValueError: as `metric_of`.
    """
    metric = metric_of(spec.offered.target, settings)
    if metric is not None:
        return MetricMeter(metric, aws)
    build = room_of(spec.offered.target).meter
    return build(spec, settings, aws) if build else None


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
