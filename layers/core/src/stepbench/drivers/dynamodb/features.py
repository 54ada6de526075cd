"""What DynamoDB Streams with an event source mapping can do, as Amazon documents it."""

from stepbench.contracts.features import Charge, Feature, StoreFeatures

_STREAMS = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html"
_LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg"
_PARAMETERS = f"{_LAMBDA}/services-ddb-params.html"

FEATURES = StoreFeatures(
    data_model="items of a table",
    trigger="DynamoDB Streams",
    features={
        "selection": Feature(
            text="Items that are inserted, modified or removed, expiry by TTL among the removals. The stream has all; "
            "the mapping's filter selects by `eventName`.",
            source=_STREAMS,
        ),
        "filtering": Feature(
            text="Patterns over the record's keys, old and new values, up to five a mapping (ten by request).",
            source=f"{_LAMBDA}/invocation-eventfiltering.html",
            shown_by="test_the_filter_lets_the_matching_and_the_canaries_pass",
        ),
        "execution": Feature(
            text="Asynchronous: Lambda polls each shard of the stream, four times a second.",
            source=f"{_LAMBDA}/with-ddb.html",
        ),
        "content": Feature(
            text="Keys, by the stream's view new value, old value, or both; sequence number; time in seconds.",
            source=_STREAMS,
        ),
        "destination": Feature(
            text="Lambda, EventBridge Pipes, and any reader of the stream (two a shard at most, kept for 24 hours).",
            source=_STREAMS,
        ),
        "delivery": Feature(
            text="Each change appears in the stream exactly once; Lambda hands it on at least once, and a batch that "
            "fails is tried again until its attempts or its age end.",
            source=f"{_LAMBDA}/with-ddb.html",
        ),
        "order": Feature(
            text="Of one item in the order of its changes; among items of one shard likewise, if "
            "`ParallelizationFactor` is 1.",
            source=_STREAMS,
        ),
        "batching": Feature(
            text="Up to 10,000 records, gathered for up to 300 s; partial batch responses; halving of what fails.",
            source=_PARAMETERS,
        ),
        "payload": Feature(
            text="6 MB, a synchronous invocation's; an item has 400 KB at most.",
            source=f"{_LAMBDA}/gettingstarted-limits.html",
        ),
    },
    charges=(Charge(price="dynamodb_write", per_event=1, note="on demand; what Lambda reads of the stream is free"),),
)
