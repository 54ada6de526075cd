"""Aurora DSQL: operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import DsqlTarget
from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings


def _lease(spec: TrialSpec, settings: Settings) -> str:
    target = spec.offered.target
    if not isinstance(target, DsqlTarget):
        message = f"this room serves dsql, not {target.store}"
        raise TypeError(message)
    # A multi-region cluster is one, whichever of its endpoints a trial works with.
    return "multi" if target.cluster == "multi" else f"single@{target.region or settings.aws_region}"


ROOM = StoreRoom(lease=_lease, operations=deferred("stepbench.drivers.dsql.operations:DsqlOperations"))
