"""What S3's event notifications can do, as Amazon documents it."""

from stepbench.contracts.features import Charge, Feature, StoreFeatures

_GUIDE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide"
_EVENTS = f"{_GUIDE}/notification-how-to-event-types-and-destinations.html"
_CONTENT = f"{_GUIDE}/notification-content-structure.html"

FEATURES = StoreFeatures(
    data_model="objects",
    trigger="Event Notifications",
    features={
        "selection": Feature(
            text="Objects that are created (put, post, copy, multipart), removed, restored, replicated, tagged, "
            "archived or expired by a lifecycle rule, and changed access lists; no further conditions.",
            source=_EVENTS,
        ),
        "filtering": Feature(
            text="By prefix and suffix of the key, one of each a rule; rules may not overlap.",
            source=f"{_GUIDE}/notification-how-to-filtering.html",
            shown_by="test_the_filter_lets_the_matching_and_the_canaries_pass",
        ),
        "execution": Feature(
            text="Asynchronous: the write is answered first. Typically within seconds, sometimes a minute or longer.",
            source=f"{_GUIDE}/EventNotifications.html",
        ),
        "content": Feature(
            text="Bucket, key, size, ETag, version, sequencer, kind and time of the event; no bytes of the object.",
            source=_CONTENT,
        ),
        "destination": Feature(
            text="Lambda, SQS (standard queues), SNS (standard topics), EventBridge.", source=_EVENTS
        ),
        "delivery": Feature(text="At least once.", source=f"{_GUIDE}/EventNotifications.html"),
        "order": Feature(text="None; of one key the sequencer says which event was the later.", source=_CONTENT),
        "batching": Feature(
            text="None: an invocation a notification.",
            source="https://docs.aws.amazon.com/lambda/latest/dg/with-s3.html",
        ),
        "payload": Feature(
            text="1 MiB, an asynchronous invocation's; a notification has about 1 kB.",
            source="https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
        ),
    },
    charges=(Charge(price="s3_put", per_event=1, note="notifications are free"),),
)
