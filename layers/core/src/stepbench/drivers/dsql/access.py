"""
How to reach a cluster of Aurora DSQL: its address, a token for a password, verified TLS, and the role that logs in.

A token is a URL that IAM's signature makes good for one action on one host for a time. Signing needs no request, so
nothing of it is in any operation's time. It is asked for when a session begins, and never again while that lasts.

The functions' roles and schema are made as `admin`, once, and again with other roles of IAM: what is there
already stays. Each statement is a transaction of its own, because a transaction holds one DDL statement at most.

Writers have the rights that were published: USAGE on the schema, and four on the table of their trial. Who makes that
table owns it, and has CREATE on the schema besides.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import boto3
import psycopg
from botocore.exceptions import BotoCoreError, ClientError
from psycopg import sql

from stepbench.contracts.target import DsqlTarget, PostgresqlTarget
from stepbench.drivers.access import Endpoint, endpoint_error, parse_endpoint
from stepbench.drivers.sql.access import Access, Tls, find_authorities
from stepbench.drivers.sql.executor import CONFLICTS, pause_s
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

    Sign = Callable[[], str]
    """A new token; may raise botocore's errors."""


DATABASE_ROLE: Final = "stepbench"
WRITER_ROLE: Final = "stepbench_writer"
SCHEMA: Final = "stepbench"
"""What `BootstrapDsql` makes in a cluster: the schema of all tables, a role that makes them, and one of the load."""
ADMIN: Final = "admin"
TOKEN_LIFETIME_S = 600
"""It is below botocore's default of 15 minutes: a token that leaks is good for no longer than needed."""
TOKEN_USE_S = 300
"""A token is handed out for so long; so each is good for another five minutes at least when a session begins."""
_HOST = re.compile(r"[a-z0-9]+\.dsql(?:-[a-z0-9]+)?\.([a-z0-9-]+)\.on\.aws")
_ROLE, _WRITER, _SCHEMA = (sql.Identifier(name) for name in (DATABASE_ROLE, WRITER_ROLE, SCHEMA))
SETUP = (
    sql.SQL("CREATE ROLE {role} WITH LOGIN").format(role=_ROLE),
    sql.SQL("CREATE ROLE {role} WITH LOGIN").format(role=_WRITER),
    sql.SQL("CREATE SCHEMA IF NOT EXISTS {schema}").format(schema=_SCHEMA),
    sql.SQL("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}").format(schema=_SCHEMA, role=_ROLE),
    sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(schema=_SCHEMA, role=_WRITER),
)
_GRANT_TABLE = sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}")
_BOUND = "SELECT arn FROM sys.iam_pg_role_mappings WHERE pg_role_name = %s"
_CONFLICT_RETRIES = 6

Login = Literal["stepbench", "stepbench_writer", "admin"]


class Tokens:
    """Keeps a token that is fresh enough, made when needed."""

    def __init__(self, sign: Sign, clock: Clock) -> None:
        """`sign` is called on a thread: the first call loads botocore's model and the role's credentials."""
        self._sign = sign
        self._clock = clock
        self._token = ""
        self._until_ns = 0
        self._lock = asyncio.Lock()

    async def fresh(self) -> str:
        """
        Return a token that is good for `TOKEN_LIFETIME_S - TOKEN_USE_S` at least.

        Raises:
            TargetUnavailableError: there are no credentials to sign with.
        """
        async with self._lock:
            now_ns = self._clock.now_ns()
            if now_ns >= self._until_ns:
                self._token = await asyncio.to_thread(self._signed)
                self._until_ns = now_ns + TOKEN_USE_S * 1_000_000_000
            return self._token

    def _signed(self) -> str:
        try:
            return self._sign()
        except (BotoCoreError, ClientError) as error:
            message = f"no token for Aurora DSQL can be signed: {error}"
            raise TargetUnavailableError(message) from error


class DsqlCluster(NamedTuple):
    """
    One of a cluster's endpoints, and the region that it is in, for whose sake tokens are signed.

    active_after_s: how long it took from its creation, both of two peers; "" where nobody has looked.
    """

    endpoint: Endpoint
    region: str
    active_after_s: str = ""

    @classmethod
    def at(cls, address: str, region: str) -> DsqlCluster:
        """
        Return the cluster at an address. `region`: where the name does not tell.

        Raises:
            PlanError: there is no host in it.
        """
        endpoint = parse_endpoint(address, PostgresqlTarget.default_port)
        return cls(endpoint, region_of(endpoint.host) or region)

    @classmethod
    def of(cls, spec: TrialSpec, settings: Settings) -> DsqlCluster:
        """
        Return the plan's own endpoint, or the stack's of the kind and region that the plan asks for.

        A token for a host that a plan names is of use on that host only.

        Raises:
            PlanError: the target is no DSQL cluster, or the stack has none such.
        """
        target = spec.offered.target
        kind, region = "single", settings.aws_region
        if isinstance(target, DsqlTarget):
            kind, region = target.cluster, target.region or region
        if target.endpoint:
            return cls.at(target.endpoint, region)
        known = [
            (each, cls.at(host, region)._replace(active_after_s=after_s))
            for each, host, after_s in _known(settings.dsql_endpoints)
        ]
        for each, cluster in known:
            if (each, cluster.region) == (kind, region):
                return cluster
        have = ", ".join(f"{each} in {cluster.region}" for each, cluster in known) or "none"
        remedy = f"Give target.endpoint, or the stack's parameters Dsql… (it has: {have})."
        raise endpoint_error(None, f"this stack knows no {kind} cluster of Aurora DSQL in {region}", remedy)


def cluster_access(cluster: DsqlCluster, settings: Settings, clock: Clock, login: Login) -> Access:
    """Return a functions' access (action DbConnect), or the one of `ADMIN` (DbConnectAdmin)."""
    tokens = Tokens(signer(cluster, login), clock)
    tls = Tls(wanted=True, authority=settings.tls_authority or find_authorities(cluster.endpoint.host))
    return token_access(cluster.endpoint, tokens, tls, login)


def token_access(endpoint: Endpoint, tokens: Tokens, tls: Tls, login: Login) -> Access:
    """Return an access to one cluster, whose sessions each have a fresh token for a password."""

    async def read_login() -> tuple[str, str]:
        return login, await tokens.fresh()

    return Access("Aurora DSQL", endpoint, read_login, tls)


def region_of(host: str) -> str:
    """Return the region in a cluster's public name, `<id>.dsql.<region>.on.aws`; "" for any other."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def signer(cluster: DsqlCluster, login: Login, session: Any = None) -> Sign:  # noqa: ANN401 -- boto3's, or None
    """Return what signs tokens with the credentials of `session` (the default: those of the function's role)."""

    def sign() -> str:
        client = (session or boto3).client("dsql", region_name=cluster.region)
        for_admin, for_role = client.generate_db_connect_admin_auth_token, client.generate_db_connect_auth_token
        generate = for_admin if login == ADMIN else for_role
        token: str = generate(cluster.endpoint.host, Region=cluster.region, ExpiresIn=TOKEN_LIFETIME_S)
        return token

    return sign


def _known(endpoints: str) -> list[tuple[str, str, str]]:
    """Parse `single=<host>,multi=<host>@<seconds>`; entries without a host are clusters that a stack has not made."""
    pairs = (entry.strip().partition("=") for entry in endpoints.split(","))
    parts = ((kind, *place.partition("@")) for kind, _, place in pairs)
    return [(kind, host, after_s) for kind, host, _, after_s in parts if host]


async def set_up(connection: psycopg.AsyncConnection, clock: Clock) -> None:
    """Make roles and schema, and give one role the right to make tables in it; raises psycopg's errors."""
    for statement in SETUP:
        await execute_ddl(connection, statement, clock)


async def bind(connection: psycopg.AsyncConnection, role: Login, iam_roles: Collection[str], clock: Clock) -> None:
    """Let these roles of IAM log in as one of ours, and no others; raises psycopg's errors."""
    rows = await (await connection.execute(_BOUND, (role,))).fetchall()
    for statement in bindings(role, {str(arn) for (arn,) in rows}, iam_roles):
        await execute_ddl(connection, statement, clock)


def bindings(role: Login, have: Collection[str], wanted: Collection[str]) -> Iterable[sql.Composed]:
    """Yield the statements that lead from the bound roles to those wanted; pure."""
    name = sql.Identifier(role)
    for arn in sorted(set(wanted) - set(have)):
        yield sql.SQL("AWS IAM GRANT {role} TO {arn}").format(role=name, arn=sql.Literal(arn))
    for arn in sorted(set(have) - set(wanted)):
        yield sql.SQL("AWS IAM REVOKE {role} FROM {arn}").format(role=name, arn=sql.Literal(arn))


async def grant_table(connection: psycopg.AsyncConnection, table: sql.Composable, clock: Clock) -> None:
    """Give writers their four rights on a table; raises psycopg's errors."""
    await execute_ddl(connection, _GRANT_TABLE.format(table=table, role=_WRITER), clock)


async def execute_ddl(connection: psycopg.AsyncConnection, statement: sql.Composed, clock: Clock) -> None:
    """
    Execute DDL, again after conflicts: it is a transaction like any other. A role that is there already is fine.

    Raises:
        psycopg.Error: refused for another reason, or in conflict seven times.
    """
    for retries in range(_CONFLICT_RETRIES + 1):
        try:
            await connection.execute(statement)
        except psycopg.errors.DuplicateObject:
            return
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or retries == _CONFLICT_RETRIES:
                raise
            await clock.sleep_async(pause_s(retries, 0.5))
        else:
            return
