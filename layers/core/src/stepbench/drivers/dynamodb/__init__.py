"""Amazon DynamoDB: streams, and operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.target import DynamoDbTarget
from stepbench.drivers.protocol import StoreRoom, deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver, Meter
    from stepbench.settings import Settings


def _trigger(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    target = spec.offered.target
    same_sandbox = isinstance(target, DynamoDbTarget) and target.same_sandbox
    build = deferred("stepbench.drivers.dynamodb.trigger:DynamoDbDriver")
    if same_sandbox:
        build = deferred("stepbench.drivers.dynamodb.same_sandbox:SameSandboxDriver")
    driver: Driver = build(spec, settings, clock)
    return driver


def _meter(spec: TrialSpec, settings: Settings, aws: Callable[[str], Any]) -> Meter:
    from stepbench.drivers.dynamodb.meter import TableMeter

    return TableMeter(f"{settings.target_table_prefix}{spec.tag}", aws)


ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.target_table_prefix,
    trigger=_trigger,
    operations=deferred("stepbench.drivers.dynamodb.operations:DynamoDbOperations"),
    meter=_meter,
)
