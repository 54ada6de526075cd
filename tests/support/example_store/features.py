"""What the example store's trigger can do, as its server does it; a store of others names their documentation."""

from stepbench.contracts.features import Feature, StoreFeatures

_PAGE = "docs/writing-a-driver.md"

FEATURES = StoreFeatures(
    data_model="keys and values, in memory",
    trigger="WATCH",
    features={
        "selection": Feature(text="Writes and deletions.", source=_PAGE),
        "filtering": Feature(
            text="By prefix of the key.",
            source=_PAGE,
            shown_by="test_the_filter_lets_the_matching_and_the_canaries_pass",
        ),
        "execution": Feature(text="Asynchronous, over a connection that a client holds.", source=_PAGE),
        "content": Feature(text="Position and value; of a deletion the key.", source=_PAGE),
        "destination": Feature(text="Any client that watches.", source=_PAGE),
        "delivery": Feature(text="Once, from a position on.", source=_PAGE),
        "order": Feature(
            text="By position, over all keys.", source=_PAGE, shown_by="test_every_change_is_delivered_once_in_order"
        ),
        "batching": Feature(text="None.", source=_PAGE),
        "payload": Feature(text="A line of 16 MiB.", source=_PAGE),
    },
)
