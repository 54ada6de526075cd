"""A trial's PostgreSQL server: which it is, who logs in there, its name, and how a schema is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.target import PostgresqlTarget
from stepbench.drivers.access import ServerLogin, choose_endpoint
from stepbench.drivers.postgresql.endpoint import stack_endpoint
from stepbench.drivers.sql.access import CONTROL_LIMIT_S, Access, Tls, target_error
from stepbench.drivers.sql.authorities import find_authorities, rds_region
from stepbench.wire.addresses import parse_endpoint

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
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
