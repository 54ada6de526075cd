"""
How to reach a server that speaks PostgreSQL's protocol: address, login, encryption, and sessions for control.

The authorities that sign certificates of AWS's servers are in short files of a layer. libpq reads its file of
authorities for every connection. Of a system's 140 that takes 34 ms of a processor, of one region's 8 of RDS and RDS
Proxy 1.4 ms: too much of what a connection costs to be the client's own doing. RDS's authorities are in no system's
file anyway.

Sources: Amazon Aurora User Guide, "Using SSL/TLS to encrypt a connection to a DB cluster"; Aurora DSQL User Guide,
"Configuring SSL/TLS certificates for Aurora DSQL connections".
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from stepbench.drivers.access import resolve
from stepbench.drivers.sql.connection import unavailable
from stepbench.errors import PlanError, Problem, TargetUnavailableError
from stepbench.model.errors import CONNECTION_CLOSED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from psycopg.abc import Params, QueryNoTemplate
    from psycopg.rows import TupleRow

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.access import Endpoint

    ReadLogin = Callable[[], Awaitable[tuple[str, str]]]
    """Returns user and password, "" where the server trusts the user; may raise TargetUnavailableError."""


LAYER = "stepbench_authorities"
"""The package that `layers/authorities` builds: `<region>.pem` of RDS, `amazon.pem` for everything else of AWS's."""
_RDS = re.compile(
    r"\.(?P<region>[a-z0-9-]+)\.rds\.amazonaws\.com$|\.rds\.(?P<in_china>cn-[a-z0-9-]+)\.amazonaws\.com\.cn$"
)
_DSQL = re.compile(r"\.dsql(-[a-z0-9]+)?\.[a-z0-9-]+\.on\.aws$")


def rds_region(host: str) -> str:
    """Return the region of a server of Amazon RDS; "" where the host is none."""
    named = _RDS.search(host)
    return (named["region"] or named["in_china"]) if named else ""


def find_authorities(host: str) -> str:
    """Return the PEM file of those who sign a server's certificate; "" for the system's, or where there is none."""
    name = rds_region(host) or ("amazon" if _DSQL.search(host) else "")
    layer = find_spec(LAYER) if name else None
    file = Path(layer.origin).with_name(f"{name}.pem") if layer and layer.origin else None
    return str(file) if file and file.is_file() else ""


CONNECT_LIMIT_S = 5
CONTROL_LIMIT_S = 30.0
"""The limit of a statement that prepares or clears up; the server's own limit for the longest of them is 25 s."""
WRITE_LIMIT_S = 12.0


class Tls(NamedTuple):
    """Whether to encrypt, and whose signature the server's certificate needs: a PEM file, "" for the system's."""

    wanted: bool
    authority: str = ""

    def parameters(self) -> dict[str, str]:
        """
        Return libpq's parameters: certificate and name verified, or no encryption at all.

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
        """See `psycopg.AsyncConnection`."""
        watchdog = asyncio.get_running_loop().call_later(self.limit_s, self._hang_up)
        try:
            return await super().execute(query, params, prepare=prepare, binary=binary)
        finally:
            watchdog.cancel()

    async def row(self, query: QueryNoTemplate, params: Params | None = None) -> tuple[Any, ...]:
        """Execute a query; return its first row, () where there is none."""
        return await (await self.execute(query, params)).fetchone() or ()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)


class PermanentErrors(NamedTuple):
    """The server's errors that no retry mends, and what the plan's author has to do about them."""

    errors: tuple[type[psycopg.Error], ...]
    remedy: str


class Access:
    """
    Opens connections to one database; looks its address up once.

    name: the server and its address, for messages.

    Args:
        server: its name in messages, such as "PostgreSQL".
        endpoint: its address.
        read_login: asked for each connection.
        tls: without it, encrypted where the server offers it, but never on loopback, and nothing is verified.
        control_limit_s: for one statement of a connection for control.
    """

    def __init__(
        self,
        server: str,
        endpoint: Endpoint,
        read_login: ReadLogin,
        tls: Tls | None = None,
        control_limit_s: float = CONTROL_LIMIT_S,
    ) -> None:
        self.control_limit_s = control_limit_s
        self.name = f"{server} at {endpoint.host}:{endpoint.port}"
        self._server = server
        self._endpoint = endpoint
        self._read_login = read_login
        self._tls = tls
        self._address = ""

    async def conninfo(self, **parameters: str) -> bytes:
        """
        Return libpq's parameters as text, `parameters` added. The password is in it: it is not for any log.

        Raises:
            TargetUnavailableError: the host has no address, or there are no credentials.
            PlanError: its address is never allowed.
        """
        self._address = self._address or await resolve(self._endpoint)
        user, password = await self._read_login()
        unverified = {"sslmode": "disable" if ipaddress.ip_address(self._address).is_loopback else "prefer"}
        known: dict[str, Any] = {
            "host": self._endpoint.host,
            "hostaddr": self._address,
            "port": self._endpoint.port,
            "dbname": self._endpoint.path or "postgres",
            "user": user,
            "password": password or None,
            **(unverified if self._tls is None else self._tls.parameters()),
            "gssencmode": "disable",
            "client_encoding": "utf8",
            "application_name": "stepbench",
            "connect_timeout": CONNECT_LIMIT_S,
        }
        return make_conninfo(**{**known, **parameters}).encode()

    async def connect(self) -> BoundedConnection:
        """
        Return a new connection for control, in autocommit mode.

        Raises:
            TargetUnavailableError: no address, no credentials, no answer, or the server refuses; `__cause__` is
                psycopg's error where there is one.
        """
        conninfo = (await self.conninfo()).decode()
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S + 1):
                connection = await BoundedConnection.connect(conninfo, autocommit=True)
        except (psycopg.Error, TimeoutError) as error:
            message = f"{self.name}: {error or 'no answer'}"
            raise unavailable(message, str(error)) from error
        connection.limit_s = self.control_limit_s
        return connection

    @contextlib.asynccontextmanager
    async def control(self, spec: TrialSpec, permanent: PermanentErrors) -> AsyncIterator[BoundedConnection]:
        """
        Open a connection for the block's statements.

        Raises:
            PlanError: the server answers one of them with an error that is permanent.
            TargetUnavailableError: as `connect`, or the server answers with another error.
        """
        connection = await self.connect()
        try:
            yield connection
        except permanent.errors as error:
            raise target_error(spec, str(error), permanent.remedy) from error
        except psycopg.Error as error:
            message = f"{self._server}: {error.sqlstate or CONNECTION_CLOSED}: {error}"
            raise TargetUnavailableError(message) from error
        finally:
            await connection.close()


def target_error(spec: TrialSpec, message: str, remedy: str) -> PlanError:
    """Return the refusal of a trial's target. The trial is named: its number is that of execution, not of the plan."""
    path, value = f"trial {spec.name}: target", repr(spec.offered.target.store)
    return PlanError([Problem(path=path, value=value, message=message, remedy=remedy)])
