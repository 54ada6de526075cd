"""Cassandra and ScyllaDB: operations, blobs."""

from stepbench.drivers.protocol import StoreRoom, deferred

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.cassandra_endpoint,
    operations=deferred("stepbench.drivers.cassandra.operations:CassandraOperations"),
    blobs=deferred("stepbench.drivers.cassandra.blobs:CassandraBlobs"),
)
