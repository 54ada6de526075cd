"""Cassandra and ScyllaDB: operations, blobs; the configuration of a Cassandra node that is the stack's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.protocol import StoreRoom, deferred

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Tunable
    from stepbench.settings import Settings


def _tuning(spec: TrialSpec, settings: Settings, clock: Clock) -> Tunable:
    from stepbench.drivers.cassandra.tuning import CassandraTuning

    return CassandraTuning(spec, settings, clock)


ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.cassandra_endpoint,
    operations=deferred("stepbench.drivers.cassandra.operations:CassandraOperations"),
    tuning=_tuning,
    blobs=deferred("stepbench.drivers.cassandra.blobs:CassandraBlobs"),
)
