"""Why no trigger of Aurora DSQL is measured."""

from stepbench.contracts.features import Feature, StoreFeatures

FEATURES = StoreFeatures(
    data_model="rows of tables",
    without=Feature(
        text="It has no triggers.",
        source="https://docs.aws.amazon.com/aurora-dsql/latest/userguide/working-with-postgresql-compatibility-unsupported-features.html",
    ),
)
