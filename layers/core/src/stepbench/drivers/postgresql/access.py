"""How to reach the server: address, credentials, encryption."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import boto3
import psycopg
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
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
_SECRETS = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 3})


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
        self, endpoint: Endpoint, secret_arn: str, region: str, control_limit_s: float = CONTROL_LIMIT_S
    ) -> None:
        self._control_limit_s = control_limit_s
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
        endpoint = own or settings.postgresql_endpoint
        if not endpoint:
            remedy = "Give target.endpoint, or the stack's parameter PostgresqlEndpoint."
            raise endpoint_error(None, "no PostgreSQL server is known to this stack", remedy)
        secret = "" if own else settings.postgresql_secret_arn
        return cls(parse_endpoint(endpoint, DEFAULT_PORT), secret, settings.aws_region, control_limit_s)

    async def connect(self) -> BoundedConnection:
        """
        A new connection in autocommit mode.

        Raises:
            TargetUnavailableError: no address, no credentials, no answer, or the server refuses; `__cause__` is
                psycopg's error where there is one.
        """
        if self._parameters is None:
            self._parameters = await self._look_up()
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S + 1):
                connection = await BoundedConnection.connect(**self._parameters, autocommit=True)
        except (psycopg.Error, TimeoutError) as error:
            message = f"PostgreSQL at {self._endpoint.host}:{self._endpoint.port}: {error or 'no answer'}"
            raise TargetUnavailableError(message) from error
        connection.limit_s = self._control_limit_s
        return connection

    async def _look_up(self) -> dict[str, Any]:
        address = await resolve(self._endpoint)
        user, password = await asyncio.to_thread(self._credentials)
        return {
            "host": self._endpoint.host,
            "hostaddr": address,
            "port": self._endpoint.port,
            "dbname": self._endpoint.path or "postgres",
            "user": user,
            "password": password,
            "sslmode": "disable" if ipaddress.ip_address(address).is_loopback else "prefer",
            "gssencmode": "disable",
            "client_encoding": "utf8",
            "application_name": "stepbench",
            "connect_timeout": CONNECT_LIMIT_S,
        }

    def _credentials(self) -> tuple[str, str | None]:
        """User and password as RDS keeps them in Secrets Manager; without a secret, a `postgres` who is trusted."""
        if not self._secret_arn:
            return "postgres", None
        try:
            secrets = boto3.client("secretsmanager", region_name=self._region, config=_SECRETS)
            secret = json.loads(secrets.get_secret_value(SecretId=self._secret_arn)["SecretString"])
            return str(secret["username"]), str(secret["password"])
        except (BotoCoreError, ClientError) as error:
            message = f"the secret {self._secret_arn} cannot be read: {error}"
            raise TargetUnavailableError(message) from error
        except (KeyError, TypeError, ValueError) as error:
            message = f"the secret {self._secret_arn} holds no username and password as RDS writes them"
            raise TargetUnavailableError(message) from error
