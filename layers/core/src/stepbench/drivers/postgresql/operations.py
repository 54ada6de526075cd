"""
A trial's PostgreSQL server (which it is, who logs in, its cluster's capacity, how a schema is dropped), and operations.

They work on rows `(key, value, created_at)` in a table of the trial's own, found by their primary key.

A blob's value is text; a product's is jsonb, which an update merges its fields into (`||`, so that PostgreSQL writes a
whole new row all the same). Keys compare by their bytes (`COLLATE "C"`), whatever the database's language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

from stepbench.contracts.target import PostgresqlTarget
from stepbench.drivers.access import ServerLogin, choose_endpoint, parse_endpoint, stack_endpoint
from stepbench.drivers.sql import CREATE_ROWS, Table, table_of_rows
from stepbench.drivers.sql.access import (
    CONTROL_LIMIT_S,
    WRITE_LIMIT_S,
    Access,
    PermanentErrors,
    Tls,
    find_authorities,
    rds_region,
    target_error,
)
from stepbench.drivers.sql.operations import Database, SqlOperations, workload_of
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.capacity import ServerlessCapacity
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.aws import AwsAccess
    from stepbench.drivers.sql.access import BoundedConnection
    from stepbench.settings import Settings


STATEMENT_LIMIT_MS = 10_000
"""The server's own limit; below ours, so that a slow trigger is a refusal with a code and not an open question."""
SESSION_OPTIONS = f"-c statement_timeout={STATEMENT_LIMIT_MS}"
_DROP_LIMITS = "SET lock_timeout = '2s'; SET statement_timeout = '25s'"
_NOT_NOW = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
_VERSION = "SELECT current_setting('server_version'), current_setting('cluster_name'), to_regproc('aurora_version')"


def trial_access(spec: TrialSpec, settings: Settings, control_limit_s: float = CONTROL_LIMIT_S) -> Access:
    """
    Return the access to the plan's own endpoint, or to the stack's with the stack's secret.

    Operations are encrypted or not as the plan says. Without a secret, `postgres` is trusted.

    Raises:
        PlanError: neither names a server, or nobody here knows the authorities of RDS in its region.
    """
    target, tls = spec.offered.target, None
    endpoint = parse_endpoint(
        choose_endpoint(spec, stack_endpoint(spec, settings), "postgresql"), PostgresqlTarget.default_port
    )
    if spec.plan.workload is not None:
        encrypted = isinstance(target, PostgresqlTarget) and target.tls
        tls = Tls(encrypted, settings.tls_authority or (_authorities(spec, endpoint.host) if encrypted else ""))
    login = ServerLogin(spec, settings, settings.postgresql_secret_arn, ("postgres", ""))
    return Access("PostgreSQL", endpoint, login.read, tls, control_limit_s)


def _authorities(spec: TrialSpec, host: str) -> str:
    """Return who signs the server's certificate, as `Tls` takes it. Raises PlanError: a server of RDS, and unknown."""
    found, region = find_authorities(host), rds_region(host)
    if region and not found:
        message = f"asks for TLS, and this stack has no authorities of Amazon RDS in {region}"
        remedy = (
            "Remove what was built without them (.aws-sam/cache, from which `sam build` would take it again; of a local"
            " environment .stepbench/build, after `stepbench down`), and build and deploy it where npm is, which"
            " fetches them (layers/authorities); or name a PEM file of AWS's for this region in the parameter"
            " TlsAuthority; or set tls to false."
        )
        raise target_error(spec, message, remedy)
    return found


async def server_name(connection: BoundedConnection) -> str:
    """Return `PostgreSQL 18.6 (wheel)`, or `Aurora PostgreSQL 16.4 (Aurora 16.4.1)`."""
    version, cluster, aurora = await connection.row(_VERSION)
    if aurora:
        (release,) = await connection.row("SELECT aurora_version()")
        return f"Aurora PostgreSQL {version} (Aurora {release})"
    return f"PostgreSQL {version} ({cluster})" if cluster else f"PostgreSQL {version}"


async def drop_schema(connection: BoundedConnection, schema: sql.Identifier) -> bool:
    """Drop a schema with all that is in it; False if somebody holds a lock on it now."""
    await connection.execute(_DROP_LIMITS)
    try:
        await connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
    except _NOT_NOW:
        return False
    return True


BEFORE = "stepbench:acu"
"""Tag that keeps the cluster's own bounds (`0.5-16`) while a trial's are in force; no function lives as long."""


class Bounds(NamedTuple):
    """Capacities between which a cluster moves, in ACU."""

    min_acu: float
    max_acu: float

    def text(self) -> str:
        """Format the bounds for the tag."""
        return f"{self.min_acu:g}-{self.max_acu:g}"

    @classmethod
    def parse(cls, text: str) -> Bounds:
        """Parse what `text` wrote."""
        low, high = text.split("-")
        return cls(float(low), float(high))


class ClusterCapacity:
    """The bounds of one cluster; every method may be called again after any failure."""

    def __init__(self, aws: AwsAccess, cluster: str) -> None:
        self._aws = aws
        self._cluster = cluster

    async def scale(self, capacity: ServerlessCapacity) -> bool:
        """
        Ask for bounds, and keep in mind those before; True once they are in force.

        Raises:
            TargetUnavailableError: the cluster is not there, is not Serverless v2, or AWS refuses.
        """
        cluster = await self._describe()
        wanted, bounds = Bounds(capacity.min_acu, capacity.max_acu), self._bounds(cluster)
        if cluster["Status"] != "available":
            return False
        if bounds == wanted:
            return True
        if _before(cluster) is None:
            tags = [{"Key": BEFORE, "Value": bounds.text()}]
            await self._aws.ask("add_tags_to_resource", ResourceName=cluster["DBClusterArn"], Tags=tags)
        await self._modify(wanted)
        return False

    async def restore(self) -> bool:
        """Give the cluster its own bounds back; True once it has them, or if they were never changed."""
        cluster = await self._describe()
        before = _before(cluster)
        if before is None:
            return True
        if cluster["Status"] != "available":
            return False
        if self._bounds(cluster) != before:
            await self._modify(before)
            return False
        await self._aws.ask("remove_tags_from_resource", ResourceName=cluster["DBClusterArn"], TagKeys=[BEFORE])
        return True

    async def _describe(self) -> dict[str, Any]:
        found = await self._aws.ask("describe_db_clusters", DBClusterIdentifier=self._cluster)
        cluster: dict[str, Any] = found["DBClusters"][0]
        return cluster

    def _bounds(self, cluster: dict[str, Any]) -> Bounds:
        configured = cluster.get("ServerlessV2ScalingConfiguration")
        if not configured:
            message = f"cluster {self._cluster} is not Serverless v2, so it has no bounds to change"
            raise TargetUnavailableError(message)
        return Bounds(configured["MinCapacity"], configured["MaxCapacity"])

    async def _modify(self, bounds: Bounds) -> None:
        configuration = {"MinCapacity": bounds.min_acu, "MaxCapacity": bounds.max_acu}
        await self._aws.ask(
            "modify_db_cluster",
            DBClusterIdentifier=self._cluster,
            ServerlessV2ScalingConfiguration=configuration,
            ApplyImmediately=True,
        )


def _before(cluster: dict[str, Any]) -> Bounds | None:
    tags = {tag["Key"]: tag["Value"] for tag in cluster.get("TagList", [])}
    return Bounds.parse(tags[BEFORE]) if BEFORE in tags else None


_PRELOAD_ROWS, _PRELOAD_BYTES, _PRELOAD_SESSIONS = 2_000, 2_000_000, 1
_CREATE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema};"
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    key text COLLATE "C" PRIMARY KEY, value {type} NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)"""
_TLS_VERSION = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
_PERMANENT = PermanentErrors(
    (psycopg.errors.InsufficientPrivilege,), "Use a user that may create schemas in the database."
)


class PostgresqlOperations(SqlOperations):
    """One trial's schema `stepbench_<tag>` with its table `records`, in one database."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        answer_limit_s: float = WRITE_LIMIT_S,
    ) -> None:
        """
        `answer_limit_s`: when a statement is given up; the server's own limit is `STATEMENT_LIMIT_MS`.

        Raises:
            PlanError: no server is known, or the trial has no workload.
        """
        self._schema = sql.Identifier(f"stepbench_{spec.tag}")
        name = sql.Identifier(f"stepbench_{spec.tag}", "records")
        shape, self._type = workload_of(spec).record.shape, sql.SQL("text")
        if shape == "row":
            table = table_of_rows(name)
        elif shape == "blob":
            table = Table(name, sql.SQL(""), None)
        else:
            merged = sql.SQL("value || $2::text::jsonb")
            self._type, table = sql.SQL("jsonb"), Table(name, sql.SQL("::text::jsonb"), merged)
        access = trial_access(spec, settings)
        sizes = _PRELOAD_ROWS, _PRELOAD_BYTES, _PRELOAD_SESSIONS
        super().__init__(spec, clock, Database(access, _PERMANENT, table, *sizes, SESSION_OPTIONS), answer_limit_s)

    async def prepare(self) -> None:
        """See `SqlOperations`."""
        await super().prepare()
        async with self._control() as connection:
            await connection.execute(sql.SQL("ANALYZE {table}").format(table=self._database.table.name))

    async def tear_down(self) -> bool:
        """Drop the schema; not now if somebody holds a lock on it."""
        async with self._control() as connection:
            return await drop_schema(connection, self._schema)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"schema {self._schema.as_string(None)}",)

    async def provider(self) -> str:
        """Return the server's name and TLS: `PostgreSQL 17.10 (wheel), TLSv1.3`."""
        async with self._control() as connection:
            name = await server_name(connection)
            (tls,) = await connection.row(_TLS_VERSION)
        return f"{name}, {tls}" if tls else name

    async def _create_table(self, connection: BoundedConnection) -> None:
        names = {"schema": self._schema, "table": self._database.table.name, "type": self._type}
        create = _CREATE_SCHEMA + (CREATE_ROWS if self._database.table.of_rows else _CREATE)
        await connection.execute(sql.SQL(create).format(**names))
