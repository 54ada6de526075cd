"""
The bill of a trial on DynamoDB: units of its operations or writes, and the capacity that it provisions.

Shares of the mix are taken as they stand in the plan; that a plan's estimate holds comes from the number of operations,
which in closed loop is far above what a store will take.

Source:
    Amazon DynamoDB Developer Guide, "DynamoDB read and write operations"; "Understanding DynamoDB warm throughput",
    which says that raising it is charged for, and refers to the price page: at most a unit's hour, once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.capacity import AutoscaledCapacity, OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs import prices
from stepbench.costs.prices import READS, WRITES, line, record_bytes, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.capacity import Capacity
    from stepbench.contracts.plan import TrialPlan
    from stepbench.costs.prices import Amount, Offered, Stretch

ATTRIBUTE_NAMES_BYTES = 20
"""DynamoDB bills names of attributes too, and rounds each item up to whole kilobytes."""
READ_BYTES, WRITE_BYTES = 4_096, 1_024
EVENTUALLY_CONSISTENT = 0.5


WARM_WRITE_UNITS = 4_000
"""A new table on demand takes so many writes a second; nothing is charged for them."""


def dynamodb_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """
    Return the bill of a trial that offers so many writes or operations, what is preloaded included.

    Reads of the stream by Lambda are free. Where it is known when the table had which capacity, each stretch is billed
    by its own mode; an estimate takes all of it for every mode that the trial ever asks for, and the most capacity.
    """
    if not isinstance(trial.target, DynamoDbTarget):
        return ()
    if offered.stretches:
        return _counted_lines(trial, offered.stretches)
    asked = [trial.target.capacity, *(phase.scale.capacity for phase in trial.phases if phase.scale)]
    provisioned = [c for c in asked if isinstance(c, ProvisionedCapacity | AutoscaledCapacity)]
    on_demand = [capacity for capacity in asked if isinstance(capacity, OnDemandCapacity)]
    reads, written = _used_units(trial, offered.number + offered.canaries)
    return (
        line(prices.DYNAMODB_WRITE, written if on_demand else 0),
        line(prices.DYNAMODB_TARGET_READ, reads if on_demand else 0),
        line(prices.DYNAMODB_PROVISIONED_WRITE, offered.hours * max(map(most_write_units, provisioned), default=0)),
        line(prices.DYNAMODB_PROVISIONED_READ, offered.hours * max((c.read_units for c in provisioned), default=0)),
        line(prices.DYNAMODB_WARM_WRITE, max(map(_warmed_units, asked)), "charged once, as an hour of such capacity"),
    )


def unknown_charges(stretches: Sequence[Stretch]) -> Iterator[str]:
    """Yield what a table's bill has beside `dynamodb_lines`, which nothing that was recorded shows."""
    if any(isinstance(each.capacity, AutoscaledCapacity) for each in stretches):
        yield "DynamoDB's write capacity above the least of its autoscaling"
    if warmed := max((_warmed_units(each.capacity) for each in stretches), default=0):
        yield f"DynamoDB's charge for {warmed:,} write units of warm throughput above a table's own"


def blob_write_units(trial: TrialPlan) -> float:
    """Return the write units of one event; of rows of the user's own, on average."""
    facts = trial.record.values.facts if trial.record.values else None
    if facts is not None:
        return facts.mean_kib
    size = trial.record.key_bytes + trial.record.value_bytes + ATTRIBUTE_NAMES_BYTES
    return math.ceil(size / WRITE_BYTES)


def _counted_lines(trial: TrialPlan, stretches: Sequence[Stretch]) -> tuple[Amount, ...]:
    reads = written = write_hours = read_hours = 0.0
    for place, (capacity, number, hours) in enumerate(stretches):
        match capacity:
            case OnDemandCapacity():
                used = _used_units(trial, number, preloaded=not place)
                reads, written = reads + used[0], written + used[1]
            case ProvisionedCapacity(write_units=units) | AutoscaledCapacity(min_write_units=units):
                write_hours, read_hours = write_hours + hours * units, read_hours + hours * capacity.read_units
    scaled = any(isinstance(each.capacity, AutoscaledCapacity) for each in stretches)
    note = "the least of its autoscaling: what it scaled to is not read" if scaled else ""
    return (
        line(prices.DYNAMODB_WRITE, written),
        line(prices.DYNAMODB_TARGET_READ, reads),
        line(prices.DYNAMODB_PROVISIONED_WRITE, write_hours, note),
        line(prices.DYNAMODB_PROVISIONED_READ, read_hours),
    )


def _used_units(trial: TrialPlan, offered: int, *, preloaded: bool = True) -> tuple[float, float]:
    """Return the read and write units of everything that is offered; a workload's records among it, if preloaded."""
    workload = trial.workload
    if workload is None:
        return 0, offered * blob_write_units(trial)
    records, size = workload.records if preloaded else 0, record_bytes(workload)
    count = max(0, offered - records)
    reads = share(workload, READS) * math.ceil(size / READ_BYTES) * EVENTUALLY_CONSISTENT
    insert = math.ceil(size / WRITE_BYTES)  # an update is billed as the whole item
    return count * reads, count * (share(workload, WRITES) * insert) + records * insert


def most_write_units(capacity: ProvisionedCapacity | AutoscaledCapacity) -> int:
    """Return the write units that a table is given at most."""
    return capacity.write_units if isinstance(capacity, ProvisionedCapacity) else capacity.max_write_units


def _warmed_units(capacity: Capacity) -> int:
    """Return the write units by which a table is warmed beyond what it takes anyway."""
    warm_units = capacity.warm_write_units if isinstance(capacity, OnDemandCapacity) else None
    return max(0, (warm_units or 0) - WARM_WRITE_UNITS)
