"""The reference store, against which Stepbench itself is measured."""

from stepbench.drivers.protocol import StoreRoom, deferred

DEFAULT_PORT = 7300

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.reference_endpoint,
    port=DEFAULT_PORT,
    trigger=deferred("stepbench.drivers.reference.trigger:ReferenceDriver"),
)
