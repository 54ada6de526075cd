"""PostgreSQL and Aurora: rows in a table of the trial's own, and a trigger that calls Lambda."""

from stepbench.drivers.postgresql.driver import PostgresqlDriver

__all__ = ["PostgresqlDriver"]
