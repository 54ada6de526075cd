"""How to reach the server: address, credentials, encryption."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from stepbench.contracts.target import PostgresqlTarget
from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
from stepbench.drivers.secrets import read_login
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow

    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

DEFAULT_PORT = 5432
CONNECT_LIMIT_S = 5
CONTROL_LIMIT_S = 30.0
"""For one statement of preparing and clearing up; the server's own limit for the longest of them is 25 s."""


class Tls(NamedTuple):
    """Whether to encrypt, and whose signature the server's certificate needs: a PEM file, "" for the system's."""

    wanted: bool
    authority: str = ""

    def parameters(self) -> dict[str, str]:
        """
        As libpq takes them: certificate and name verified, or no encryption at all.

        The file is named where the system's is meant, too: a libpq from a wheel looks for it elsewhere.
        """
        if not self.wanted:
            return {"sslmode": "disable"}
        authority = self.authority or ssl.get_default_verify_paths().cafile or "system"
        return {"sslmode": "verify-full", "sslrootcert": authority}


class BoundedConnection(psycopg.AsyncConnection):
    """
    A session in which every statement ends, if need be with psycopg.OperationalError after `limit_s`.

    psycopg itself waits for ever, and so does TCP for a host that has vanished. Cancelling the task instead would have
    psycopg ask the server to cancel the statement, and wait for that.
    """

    limit_s = CONTROL_LIMIT_S

    async def execute(  # type: ignore[override] # the parent's other overload is for template strings
        self, query: QueryNoTemplate, params: Params | None = None, *, prepare: bool | None = None, binary: bool = False
    ) -> psycopg.AsyncCursor[TupleRow]:
        """As its parent's."""
        watchdog = asyncio.get_running_loop().call_later(self.limit_s, self._hang_up)
        try:
            return await super().execute(query, params, prepare=prepare, binary=binary)
        finally:
            watchdog.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)


class Access:
    """Opens connections to one database; looks credentials and address up once."""

    def __init__(
        self,
        endpoint: Endpoint,
        secret_arn: str,
        region: str,
        control_limit_s: float = CONTROL_LIMIT_S,
        tls: Tls | None = None,
    ) -> None:
        """`tls`: without it, encrypted where the server offers it, but never on loopback, and nothing is verified."""
        self._control_limit_s = control_limit_s
        self._tls = tls
        self._endpoint = endpoint
        self._secret_arn = secret_arn
        self._region = region
        self._parameters: dict[str, Any] | None = None

    @classmethod
    def of(cls, spec: TrialSpec, settings: Settings, control_limit_s: float = CONTROL_LIMIT_S) -> Access:
        """
        The plan's own endpoint, or the stack's with the stack's secret.

        The secret belongs to the stack's server: another one, which a plan names, never gets to see it.

        Raises:
            PlanError: neither names a server.
        """
        own = spec.plan.target.endpoint
        return cls(
            _endpoint(own or settings.postgresql_endpoint),
            "" if own else settings.postgresql_secret_arn,
            settings.aws_region,
            control_limit_s,
        )

    @classmethod
    def of_operations(cls, spec: TrialSpec, settings: Settings, control_limit_s: float = CONTROL_LIMIT_S) -> Access:
        """
        As `of`, encrypted or not as the plan says.

        Where the stack knows a server for TLS, that one serves operations without TLS, too: so the two differ in TLS
        only, and not in the server.
        """
        target, own = spec.plan.target, spec.plan.target.endpoint
        wanted = isinstance(target, PostgresqlTarget) and target.tls
        return cls(
            _endpoint(own or settings.postgresql_tls_endpoint or settings.postgresql_endpoint),
            "" if own else settings.postgresql_secret_arn,
            settings.aws_region,
            control_limit_s,
            Tls(wanted, settings.tls_authority),
        )

    async def connect(self) -> BoundedConnection:
        """
        A new connection in autocommit mode.

        Raises:
            TargetUnavailableError: no address, no credentials, no answer, or the server refuses; `__cause__` is
                psycopg's error where there is one.
        """
        parameters = await self._looked_up()
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S + 1):
                connection = await BoundedConnection.connect(**parameters, autocommit=True)
        except (psycopg.Error, TimeoutError) as error:
            message = f"PostgreSQL at {self._endpoint.host}:{self._endpoint.port}: {error or 'no answer'}"
            raise TargetUnavailableError(message) from error
        connection.limit_s = self._control_limit_s
        return connection

    async def conninfo(self, **more: str) -> bytes:
        """
        As libpq takes it, `more` added. The first time address and credentials are looked up, and raise as `connect`.

        The password is in it: for `PGconn.connect_start`, not for any log.
        """
        return make_conninfo(**{**await self._looked_up(), **more}).encode()

    async def _looked_up(self) -> dict[str, Any]:
        if self._parameters is None:
            self._parameters = await self._look_up()
        return self._parameters

    async def _look_up(self) -> dict[str, Any]:
        address = await resolve(self._endpoint)
        user, password = await asyncio.to_thread(self._credentials)
        unverified = {"sslmode": "disable" if ipaddress.ip_address(address).is_loopback else "prefer"}
        return {
            "host": self._endpoint.host,
            "hostaddr": address,
            "port": self._endpoint.port,
            "dbname": self._endpoint.path or "postgres",
            "user": user,
            "password": password,
            **(unverified if self._tls is None else self._tls.parameters()),
            "gssencmode": "disable",
            "client_encoding": "utf8",
            "application_name": "stepbench",
            "connect_timeout": CONNECT_LIMIT_S,
        }

    def _credentials(self) -> tuple[str, str | None]:
        """User and password as RDS keeps them in Secrets Manager; without a secret, a `postgres` who is trusted."""
        if not self._secret_arn:
            return "postgres", None
        return read_login(self._secret_arn, self._region)


def _endpoint(text: str) -> Endpoint:
    if not text:
        remedy = "Give target.endpoint, or the stack's parameter PostgresqlEndpoint."
        raise endpoint_error(None, "no PostgreSQL server is known to this stack", remedy)
    return parse_endpoint(text, DEFAULT_PORT)
