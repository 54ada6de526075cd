"""etcd: Watch, and operations."""

from stepbench.drivers.protocol import StoreRoom, deferred

DEFAULT_PORT = 2379

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.etcd_endpoint,
    port=DEFAULT_PORT,
    trigger=deferred("stepbench.drivers.etcd.trigger:EtcdDriver"),
    operations=deferred("stepbench.drivers.etcd.operations:EtcdOperations"),
)
