"""What a trigger of Aurora PostgreSQL that calls Lambda can do, as Amazon and PostgreSQL document it."""

from stepbench.contracts.features import Charge, Feature, StoreFeatures

_AURORA = "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide"
_INVOKE = f"{_AURORA}/PostgreSQL-Lambda-functions.html"
_TRIGGERS = "https://www.postgresql.org/docs/current/sql-createtrigger.html"

FEATURES = StoreFeatures(
    data_model="rows of tables",
    trigger="AFTER trigger that calls aws_lambda.invoke",
    features={
        "selection": Feature(
            text="INSERT, UPDATE (also of named columns), DELETE, TRUNCATE, of rows or of statements.", source=_TRIGGERS
        ),
        "filtering": Feature(
            text="Any condition in SQL over the old and the new row (WHEN, or in the function).",
            source=_TRIGGERS,
            shown_by="test_the_filter_lets_the_matching_and_the_canaries_pass",
        ),
        "execution": Feature(
            text="Within the transaction of the write: it waits until Lambda has queued the event (`Event`), or until "
            "the function has answered (`RequestResponse`).",
            source=_INVOKE,
        ),
        "content": Feature(text="Whatever the trigger's function builds, of old and new row.", source=_TRIGGERS),
        "destination": Feature(text="Lambda.", source=f"{_AURORA}/PostgreSQL-Lambda.html"),
        "delivery": Feature(
            text="Once while the transaction runs; an invocation is not taken back by a rollback, and Lambda hands a "
            "queued event on at least once.",
            source="https://docs.aws.amazon.com/lambda/latest/dg/invocation-async.html",
        ),
        "order": Feature(
            text="None of queued events; `RequestResponse` keeps that of the writes of one connection.",
            source="https://docs.aws.amazon.com/lambda/latest/dg/invocation-async.html",
        ),
        "batching": Feature(
            text="None of row triggers; a statement's trigger may hand all of its rows on at once.", source=_TRIGGERS
        ),
        "payload": Feature(
            text="1 MiB (`Event`), 6 MB (`RequestResponse`).",
            source="https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
        ),
    },
    charges=(
        Charge(
            price="aurora_io", per_event=2, note="at most, as if nothing were in memory; instances cost by the hour"
        ),
    ),
)
