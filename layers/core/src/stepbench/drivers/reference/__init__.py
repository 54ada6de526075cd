"""The reference store, against which Stepbench itself is measured."""

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.reference_endpoint,
    trigger=deferred("stepbench.drivers.reference.trigger:ReferenceDriver"),
)
