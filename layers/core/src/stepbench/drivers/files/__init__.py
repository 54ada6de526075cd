"""Files to transfer, on S3 and EFS: they stay from trial to trial."""

from stepbench.drivers.protocol import StoreRoom, deferred

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.files_bucket,
    transfer=deferred("stepbench.drivers.files.store:FilesDriver"),
)
