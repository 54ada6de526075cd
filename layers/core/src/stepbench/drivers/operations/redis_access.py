"""How Redis or Valkey is reached: address, TLS, login."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.contracts.target import RedisTarget
from stepbench.drivers.addresses import Addresses, endpoint_error, parse_endpoint
from stepbench.drivers.secrets import read_login
from stepbench.errors import TargetUnavailableError
from stepbench.wire.reaching import tls_context
from stepbench.wire.resp_cluster import Node
from stepbench.wire.resp_connect import Login, RespEndpoint, connect

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.addresses import Endpoint
    from stepbench.settings import Settings
    from stepbench.wire.resp_connect import Connected

DEFAULT_PORT = 6379


class RedisLimits(NamedTuple):
    """
    How long things may take.

    connect_s: for TCP, TLS and login together. operate_s: then an operation is UNKNOWN. control_s: the same for a
    command of preparing and clearing up.
    """

    connect_s: float = 5.0
    operate_s: float = 10.0
    control_s: float = 30.0


class Security(NamedTuple):
    """authority: PEM file that the certificates have to be signed by, "" for the system's. secret_arn: "" for none."""

    tls: bool = False
    authority: str = ""
    secret_arn: str = ""
    region: str = ""


class RedisAccess:
    """
    Opens connections to one server, or to the nodes of one cluster; looks credentials and addresses up once.

    Measured connections speak RESP2, which needs no HELLO: without a password there is nothing to wait for after TCP
    and TLS. Control connections speak RESP3, since HELLO tells what serves.

    seed: the node that was named; all others are learnt from it. addresses: those of nodes, which whoever times a
        connection looks up before.
    """

    def __init__(self, endpoint: Endpoint, security: Security, clock: Clock, limits: RedisLimits) -> None:
        self.seed = Node(endpoint.host, endpoint.port)
        self._database = _database(endpoint)
        self._security = security
        self._clock = clock
        self._limits = limits
        self._login: tuple[str, str] | None = None
        self._context: ssl.SSLContext | None = None
        self.addresses = Addresses()

    @classmethod
    def of(cls, spec: TrialSpec, settings: Settings, clock: Clock, limits: RedisLimits) -> RedisAccess:
        """
        The plan's own endpoint, or the stack's with the stack's secret.

        The secret belongs to the stack's server: another one, which a plan names, never gets to see it.

        Raises:
            PlanError: neither names a server.
        """
        target = spec.plan.target
        tls = isinstance(target, RedisTarget) and target.tls
        stacks = (settings.redis_tls_endpoint or settings.redis_endpoint) if tls else settings.redis_endpoint
        text = target.endpoint or stacks
        if not text:
            remedy = "Give target.endpoint, or the stack's parameter RedisEndpoint."
            raise endpoint_error(None, "no Redis is known to this stack", remedy)
        endpoint = parse_endpoint(text, DEFAULT_PORT)
        secret = "" if target.endpoint else settings.redis_secret_arn
        return cls(endpoint, Security(tls, settings.tls_authority, secret, settings.aws_region), clock, limits)

    async def connect(self, node: Node, *, protocol: Literal[2, 3] = 2, passing: bool = False) -> Connected:
        """
        A new connection, ready for commands; `passing`: it will be closed after one operation.

        A node that is not known yet is looked up first, which counts as a part of connecting.

        Raises:
            OSError: as `resp_connect.connect`.
            TargetUnavailableError: the name has no address, or the credentials cannot be read.
            PlanError: the address is one that is never allowed.
        """
        began_ns = self._clock.now_ns()
        address = await self.addresses.of(*node)
        found_ns = self._clock.now_ns() - began_ns
        login, context = await self._credentials(), self._tls()
        limits = self._limits
        endpoint = RespEndpoint(
            address,
            node.port,
            login=Login(*login, database=self._database, protocol=protocol),
            tls=context,
            server_name=self._server_name(node),
            connect_s=limits.connect_s,
            answer_s=limits.operate_s if protocol == 2 else limits.control_s,  # noqa: PLR2004 -- its name
            reset_at_close=passing,
        )
        try:
            connected = await connect(endpoint, self._clock)
        except OSError:
            self.addresses.forget(*node)  # after a failover a name means another address
            raise
        times = connected.times
        return connected._replace(times=times._replace(connect_ns=times.connect_ns + found_ns))

    @asynccontextmanager
    async def control(self, node: Node | None = None) -> AsyncIterator[Connected]:
        """
        A connection for preparing and clearing up, with the server's greeting.

        Raises:
            TargetUnavailableError: it cannot be made; says why.
            PlanError: the address is one that is never allowed.
        """
        node = node or self.seed
        try:
            connected = await self.connect(node, protocol=3)
        except OSError as error:
            message = f"Redis at {node.host}:{node.port}: {error or type(error).__name__}"
            raise TargetUnavailableError(message) from error
        try:
            yield connected
        finally:
            connected.connection.close()

    async def _credentials(self) -> tuple[str, str]:
        if self._login is None:
            arn = self._security.secret_arn
            self._login = await asyncio.to_thread(read_login, arn, self._security.region) if arn else ("", "")
        return self._login

    def _tls(self) -> ssl.SSLContext | None:
        if self._security.tls and self._context is None:
            self._context = tls_context(self._security.authority or None)
        return self._context

    def _server_name(self, node: Node) -> str:
        """Nodes that are told by address have certificates for the name that the cluster was given to us by."""
        return self.seed.host if _is_address(node.host) and not _is_address(self.seed.host) else node.host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _database(endpoint: Endpoint) -> int:
    if endpoint.path and not endpoint.path.isdecimal():
        raise endpoint_error(endpoint.path, "is no number of a database", "Write host:port.")
    return int(endpoint.path or 0)
