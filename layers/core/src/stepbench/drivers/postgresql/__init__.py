"""PostgreSQL and Aurora: a trigger that calls Lambda, and operations."""

from stepbench.drivers.protocol import StoreRoom, deferred

ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.postgresql_endpoint,
    trigger=deferred("stepbench.drivers.postgresql.trigger:PostgresqlDriver"),
    operations=deferred("stepbench.drivers.postgresql.operations:PostgresqlOperations"),
)
