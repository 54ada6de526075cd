"""Why no trigger of Cassandra is measured."""

from stepbench.contracts.features import Feature, StoreFeatures

FEATURES = StoreFeatures(
    data_model="rows of wide tables",
    without=Feature(
        text="Triggers are Java classes that each server loads, and run before the write; change data capture is a "
        "directory of commit logs on each server. Neither invokes a function.",
        source="https://cassandra.apache.org/doc/latest/cassandra/developing/cql/triggers.html",
    ),
)
