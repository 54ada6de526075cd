"""
The bill of a trial on DynamoDB: units of its operations or writes, and the capacity that it provisions.

Shares of the mix are taken as they stand in the plan; that a plan's estimate holds comes from the number of operations,
which in closed loop is far above what a store will take.

Source:
    Amazon DynamoDB Developer Guide, "DynamoDB read and write operations".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.target import AutoscaledCapacity, DynamoDbTarget, OnDemandCapacity, ProvisionedCapacity
from stepbench.costs import prices
from stepbench.costs.prices import READS, WRITES, line, operated, record_bytes, share

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import Workload
    from stepbench.costs.prices import Amount, Offered

ATTRIBUTE_NAMES_BYTES = 20
"""DynamoDB bills names of attributes too, and rounds each item up to whole kilobytes."""
READ_BYTES, WRITE_BYTES = 4_096, 1_024
EVENTUALLY_CONSISTENT = 0.5


def dynamodb_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """
    Return the bill of a trial that offers so many writes or operations, what is preloaded included.

    Reads of the stream by Lambda are free; capacity is billed by the mode that the trial ever asks for.
    """
    target = trial.target
    if not isinstance(target, DynamoDbTarget):
        return ()
    asked = [target.capacity, *(phase.scale.capacity for phase in trial.phases if phase.scale)]
    provisioned = [c for c in asked if isinstance(c, ProvisionedCapacity | AutoscaledCapacity)]
    on_demand = [capacity for capacity in asked if isinstance(capacity, OnDemandCapacity)]
    reads, written = _used_units(trial, offered.number + offered.canaries)
    return (
        line(prices.DYNAMODB_WRITE, written if on_demand else 0),
        line(prices.DYNAMODB_TARGET_READ, reads if on_demand else 0),
        line(prices.DYNAMODB_PROVISIONED_WRITE, offered.hours * max(map(_most_write_units, provisioned), default=0)),
        line(prices.DYNAMODB_PROVISIONED_READ, offered.hours * max((c.read_units for c in provisioned), default=0)),
    )


def _used_units(trial: TrialPlan, offered: int) -> tuple[float, float]:
    """Return the read and write units of everything that is offered, what is preloaded included."""
    if trial.workload is None:
        size = trial.record.key_bytes + trial.record.value_bytes + ATTRIBUTE_NAMES_BYTES
        return 0, offered * math.ceil(size / 1_024)
    count = operated(trial.workload, offered)
    written = count * _write_units(trial.workload)
    preloaded = trial.workload.records * _insert_units(trial.workload)
    return count * _read_units(trial.workload), written + preloaded


def _most_write_units(capacity: ProvisionedCapacity | AutoscaledCapacity) -> int:
    return capacity.write_units if isinstance(capacity, ProvisionedCapacity) else capacity.max_write_units


def _read_units(workload: Workload) -> float:
    """Return the read units of an operation, on average; reads are eventually consistent."""
    return share(workload, READS) * math.ceil(record_bytes(workload) / READ_BYTES) * EVENTUALLY_CONSISTENT


def _write_units(workload: Workload) -> float:
    """Return the write units of an operation, on average: an update is billed as the whole item."""
    return share(workload, WRITES) * _insert_units(workload)


def _insert_units(workload: Workload) -> int:
    """Return the write units of one record's insertion."""
    return math.ceil(record_bytes(workload) / WRITE_BYTES)
