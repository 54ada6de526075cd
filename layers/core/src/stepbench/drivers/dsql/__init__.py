"""Aurora DSQL: operations, on records or on whole clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import DsqlTarget
from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import BuildDriver, Driver
    from stepbench.settings import Settings


_RECORDS = deferred("stepbench.drivers.dsql.operations:DsqlOperations")
_CLUSTERS = deferred("stepbench.drivers.dsql.clusters:DsqlClusters")


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
    build: BuildDriver = _CLUSTERS if _creates_clusters(spec) else _RECORDS
    return build(spec, settings, clock)


ROOM = StoreRoom(lease=_lease, operations=_operations)
