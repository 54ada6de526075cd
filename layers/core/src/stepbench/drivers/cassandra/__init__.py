"""Cassandra and ScyllaDB: operations, blobs; the configuration of a Cassandra node that is the stack's own."""

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.cassandra_endpoint,
    operations=deferred("stepbench.drivers.cassandra.operations:CassandraOperations"),
    tuning=deferred("stepbench.drivers.cassandra.tuning:CassandraTuning"),
    blobs=deferred("stepbench.drivers.cassandra.blobs:CassandraBlobs"),
)
