"""
How to reach a cluster of Aurora DSQL: its address, a token for a password, TLS with the server's certificate verified.

A token is a URL that IAM's signature makes good for one action on one host for a time. Signing needs no request, so
nothing of it is in any operation's time. It is asked for when a session begins, and never again while that lasts.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import boto3
import psycopg
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.target import DsqlTarget
from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint
from stepbench.drivers.postgresql.access import CONNECT_LIMIT_S, CONTROL_LIMIT_S, Access, BoundedConnection, Tls
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

    Sign = Callable[[], str]
    """A new token; may raise botocore's errors."""

DATABASE_ROLE: Final = "stepbench"
SCHEMA: Final = "stepbench"
"""What `BootstrapDsql` makes in a cluster: a role for the functions, and the schema that it may make tables in."""
ADMIN: Final = "admin"
DEFAULT_PORT = 5432
TOKEN_LIFETIME_S = 600
"""Below the 15 minutes of botocore's default: who gets hold of one has it for no longer than needed."""
TOKEN_USE_S = 300
"""A token is handed out for so long; so each is good for another five minutes at least when a session begins."""
_HOST = re.compile(r"[a-z0-9]+\.dsql(?:-[a-z0-9]+)?\.([a-z0-9-]+)\.on\.aws")

Login = Literal["stepbench", "admin"]


class Tokens:
    """A token that is fresh enough, made when needed."""

    def __init__(self, sign: Sign, clock: Clock) -> None:
        """`sign` is called on a thread: the first call loads botocore's model and the role's credentials."""
        self._sign = sign
        self._clock = clock
        self._token = ""
        self._until_ns = 0
        self._lock = asyncio.Lock()

    async def fresh(self) -> str:
        """
        A token that is good for `TOKEN_LIFETIME_S - TOKEN_USE_S` at least.

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


class DsqlAccess:
    """Opens sessions on one cluster, each with a fresh token."""

    def __init__(
        self, endpoint: Endpoint, tokens: Tokens, tls: Tls, login: Login, control_limit_s: float = CONTROL_LIMIT_S
    ) -> None:
        self._endpoint = endpoint
        self._tokens = tokens
        self._login = login
        self._control_limit_s = control_limit_s
        self._access = Access(endpoint, "", "", control_limit_s, tls)

    @classmethod
    def of(
        cls, cluster: DsqlCluster, settings: Settings, clock: Clock, login: Login, limit_s: float = CONTROL_LIMIT_S
    ) -> DsqlAccess:
        """The functions' access (`DATABASE_ROLE`, action DbConnect), or the one of `ADMIN` (DbConnectAdmin)."""
        tls = Tls(wanted=True, authority=settings.tls_authority)
        return cls(cluster.endpoint, Tokens(signer(cluster, login), clock), tls, login, limit_s)

    async def conninfo(self) -> bytes:
        """
        As libpq takes it, with a token for a password: not for any log.

        Raises:
            TargetUnavailableError: the host has no address, or there are no credentials to sign with.
        """
        return await self._access.conninfo(user=self._login, password=await self._tokens.fresh())

    async def connect(self) -> BoundedConnection:
        """
        A new session in autocommit mode.

        Raises:
            TargetUnavailableError: no address, no token, no answer, or the cluster refuses; `__cause__` is psycopg's
                error where there is one.
        """
        conninfo = (await self.conninfo()).decode()
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S + 1):
                connection = await BoundedConnection.connect(conninfo, autocommit=True)
        except (psycopg.Error, TimeoutError) as error:
            message = f"Aurora DSQL at {self._endpoint.host}: {error or 'no answer'}"
            raise TargetUnavailableError(message) from error
        connection.limit_s = self._control_limit_s
        return connection


class DsqlCluster(NamedTuple):
    """One of a cluster's endpoints, and the region that it is in, for whose sake tokens are signed."""

    endpoint: Endpoint
    region: str

    @classmethod
    def at(cls, address: str, region: str) -> DsqlCluster:
        """
        From an address. `region`: where the name does not tell.

        Raises:
            PlanError: there is no host in it.
        """
        endpoint = parse_endpoint(address, DEFAULT_PORT)
        return cls(endpoint, region_of(endpoint.host) or region)

    @classmethod
    def of(cls, spec: TrialSpec, settings: Settings) -> DsqlCluster:
        """
        The plan's own endpoint, or the stack's of the kind and region that the plan asks for.

        A token for a host that a plan names is of use on that host only.

        Raises:
            PlanError: the target is no DSQL cluster, or the stack has none such.
        """
        target = spec.plan.target
        kind, region = "single", settings.aws_region
        if isinstance(target, DsqlTarget):
            kind, region = target.cluster, target.region or region
        if target.endpoint:
            return cls.at(target.endpoint, region)
        known = [(each, cls.at(host, region)) for each, host in _known(settings.dsql_endpoints)]
        for each, cluster in known:
            if (each, cluster.region) == (kind, region):
                return cluster
        have = ", ".join(f"{each} in {cluster.region}" for each, cluster in known) or "none"
        remedy = f"Give target.endpoint, or the stack's parameters Dsql… (it has: {have})."
        raise endpoint_error(None, f"this stack knows no {kind} cluster of Aurora DSQL in {region}", remedy)


def region_of(host: str) -> str:
    """The region that a cluster's public name tells, `<id>.dsql.<region>.on.aws`; "" for any other."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def signer(cluster: DsqlCluster, login: Login, session: Any = None) -> Sign:  # noqa: ANN401 -- boto3's, or None
    """Signs tokens with the credentials of `session` (the default: those of the function's role)."""

    def sign() -> str:
        client = (session or boto3).client("dsql", region_name=cluster.region)
        of_admin, of_role = client.generate_db_connect_admin_auth_token, client.generate_db_connect_auth_token
        token: str = (of_admin if login == ADMIN else of_role)(
            cluster.endpoint.host, Region=cluster.region, ExpiresIn=TOKEN_LIFETIME_S
        )
        return token

    return sign


def _known(endpoints: str) -> list[tuple[str, str]]:
    """`single=<host>,multi=<host>` taken apart; entries without a host are clusters that a stack has not made."""
    pairs = (entry.strip().partition("=") for entry in endpoints.split(","))
    return [(kind, host) for kind, _, host in pairs if host]
