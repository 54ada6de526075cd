"""What etcd's Watch can do, as its project documents it."""

from stepbench.contracts.features import Feature, StoreFeatures

_GUARANTEES = "https://etcd.io/docs/v3.5/learning/api_guarantees/"
_API = "https://etcd.io/docs/v3.5/learning/api/"

FEATURES = StoreFeatures(
    data_model="keys and values",
    trigger="Watch",
    features={
        "selection": Feature(
            text="Puts and deletions, expiry of a lease among them; either can be left out.", source=_API
        ),
        "filtering": Feature(
            text="By key, prefix or range of keys.",
            source=_API,
            shown_by="test_the_filter_lets_the_matching_and_the_canaries_pass",
        ),
        "execution": Feature(
            text="Asynchronous: over a stream that a client holds; typically within 10 ms, without a bound.",
            source=_GUARANTEES,
        ),
        "content": Feature(
            text="Key, value, kind of event, version and revision; the value before, if asked for.", source=_API
        ),
        "destination": Feature(
            text="Any client that holds the stream; no function of Lambda's is invoked.", source=_API
        ),
        "delivery": Feature(
            text="Exactly once in a watch; one that ended resumes from a revision, while that is not compacted.",
            source=_GUARANTEES,
            shown_by="test_a_watch_resumes_from_a_position",
        ),
        "order": Feature(
            text="By revision, over all keys.",
            source=_GUARANTEES,
            shown_by="test_every_change_is_delivered_once_in_order",
        ),
        "batching": Feature(
            text="All events of a revision come together, and more if they are waiting.", source=_GUARANTEES
        ),
        "payload": Feature(
            text="1.5 MiB, a request's, unless the server is configured otherwise.",
            source="https://etcd.io/docs/v3.5/dev-guide/limit/",
        ),
    },
)
