"""PostgreSQL and Aurora: a trigger that calls Lambda, and operations."""

from stepbench.deferred import deferred
from stepbench.drivers.access import stack_endpoint
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=stack_endpoint,
    trigger=deferred("stepbench.drivers.postgresql.trigger:PostgresqlDriver"),
    operations=deferred("stepbench.drivers.postgresql.operations:PostgresqlOperations"),
)
