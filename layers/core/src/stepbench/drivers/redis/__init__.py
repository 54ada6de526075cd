"""Redis and Valkey: operations, blobs."""

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.redis_endpoint,
    operations=deferred("stepbench.drivers.redis.operations:RedisOperations"),
    blobs=deferred("stepbench.drivers.redis.blobs:RedisBlobs"),
)
