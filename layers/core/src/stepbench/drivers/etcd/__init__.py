"""etcd: Watch, and operations."""

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.etcd_endpoint,
    trigger=deferred("stepbench.drivers.etcd.trigger:EtcdDriver"),
    operations=deferred("stepbench.drivers.etcd.operations:EtcdOperations"),
)
