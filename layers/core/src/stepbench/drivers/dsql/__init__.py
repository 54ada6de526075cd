"""Aurora DSQL: operations, on records or on whole clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import DsqlTarget
from stepbench.deferred import load
from stepbench.drivers.protocol import StoreRoom

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.settings import Settings


def _creates_clusters(spec: TrialSpec) -> bool:
    workload = spec.offered.workload
    return workload is not None and workload.record.shape == "cluster"


def _lease(spec: TrialSpec, settings: Settings) -> str:
    target = spec.offered.target
    if not isinstance(target, DsqlTarget):
        message = f"this room serves dsql, not {target.store}"
        raise TypeError(message)
    if _creates_clusters(spec):
        return "creation"
    # A multi-region cluster is one, whichever of its endpoints a trial works with.
    return "multi" if target.cluster == "multi" else f"single@{target.region or settings.aws_region}"


def _operations(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    kind = "clusters:DsqlClusters" if _creates_clusters(spec) else "operations:DsqlOperations"
    driver: Driver = load(f"{__package__}.{kind}")(spec, settings, clock)
    return driver


ROOM = StoreRoom(lease=_lease, operations=_operations)
