"""Redis and Valkey: operations, blobs."""

from stepbench.drivers.protocol import StoreRoom, deferred

DEFAULT_PORT = 6379

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.redis_endpoint,
    port=DEFAULT_PORT,
    operations=deferred("stepbench.drivers.redis.operations:RedisOperations"),
    blobs=deferred("stepbench.drivers.redis.blobs:RedisBlobs"),
)
