"""Why no trigger of Redis is measured."""

from stepbench.contracts.features import Feature, StoreFeatures

FEATURES = StoreFeatures(
    data_model="keys and values, lists, hashes",
    without=Feature(
        text="Keyspace notifications are messages to clients that listen at that moment: at most once, and no function "
        "is invoked.",
        source="https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/",
    ),
)
