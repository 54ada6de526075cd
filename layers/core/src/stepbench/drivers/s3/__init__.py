"""Amazon S3: event notifications, blobs."""

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.target_bucket,  # its notification configuration is one document
    trigger=deferred("stepbench.drivers.s3.trigger:S3Driver"),
    blobs=deferred("stepbench.drivers.s3.blobs:S3Blobs"),
)
