"""What a trial asks of a table's capacity, and the highest rate that it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.capacity import AutoscaledCapacity, Capacity, OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs.dynamodb import blob_write_units

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial, TrialPlan


def peak_per_s(trial: AnyTrial) -> float:
    """Return the highest rate that is offered; closed loops have none that a plan knows."""
    return max((step.rate_per_s for phase in trial.phases for step in phase.load), default=0.0)


def peak_units(trial: TrialPlan) -> float:
    """Return how many write units a second the highest rate takes; 0 of a mix, whose operations have several sizes."""
    return 0.0 if trial.workload is not None else peak_per_s(trial) * blob_write_units(trial)


def provisioned_units(trial: AnyTrial) -> int | None:
    """Return the most write units that a trial's table is given; None if it is paid by request all the time."""
    if not isinstance(trial.target, DynamoDbTarget):
        return None
    asked: list[Capacity] = [trial.target.capacity, *(phase.scale.capacity for phase in trial.phases if phase.scale)]
    found = [_write_units(capacity) for capacity in asked if not isinstance(capacity, OnDemandCapacity)]
    return max(found, default=None)


def _write_units(capacity: Capacity) -> int:
    match capacity:
        case ProvisionedCapacity(write_units=units) | AutoscaledCapacity(max_write_units=units):
            return units
        case _:
            return 0
