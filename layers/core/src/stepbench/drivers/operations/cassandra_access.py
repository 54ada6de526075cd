"""How Cassandra or ScyllaDB is reached: addresses in turn, TLS, login; and requests that must succeed."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.target import CassandraTarget
from stepbench.drivers.addresses import Addresses, endpoint_error, parse_endpoint
from stepbench.drivers.secrets import read_login
from stepbench.errors import TargetUnavailableError
from stepbench.wire import cql
from stepbench.wire.cql_answers import prepared_id, refusal, rows
from stepbench.wire.cql_connect import ANONYMOUS, CqlEndpoint, CqlRefusedError, connect_cql
from stepbench.wire.reaching import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.addresses import Endpoint
    from stepbench.settings import Settings
    from stepbench.wire.cql_answers import Row
    from stepbench.wire.cql_connect import CqlConnected
    from stepbench.wire.cql_connection import CqlConnection

DEFAULT_PORT = 9042


class CassandraLimits(NamedTuple):
    """
    How long things may take.

    connect_s: for TCP, TLS and login together. operate_s: then an operation is UNKNOWN. control_s: the same for a
    request of preparing and clearing up; servers themselves take up to 20 s to change a schema.
    """

    connect_s: float = 5.0
    operate_s: float = 12.0
    control_s: float = 30.0


DEFAULT_LIMITS = CassandraLimits()


class Turn(NamedTuple):
    """A node, and where it is."""

    node: Endpoint
    address: str


class CassandraAccess:
    """Opens connections to one cluster, to its named nodes in turn; looks credentials up once."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, limits: CassandraLimits = DEFAULT_LIMITS
    ) -> None:
        """
        Take the plan's own endpoint, or the stack's with the stack's secret.

        The secret belongs to the stack's server: another one, which a plan names, never gets to see it.

        Raises:
            PlanError: neither names a server.
        """
        target = spec.plan.target
        named = target.endpoint or settings.cassandra_endpoint
        if not named:
            remedy = "Give target.endpoint, or the stack's parameter CassandraEndpoint."
            raise endpoint_error(None, "no Cassandra is known to this stack", remedy)
        self._named = named
        self._nodes = [parse_endpoint(each.strip(), DEFAULT_PORT) for each in named.split(",")]
        self._turns = itertools.cycle(self._nodes)
        self._tls = isinstance(target, CassandraTarget) and target.tls
        self._secret_arn = "" if target.endpoint else settings.cassandra_secret_arn
        self._settings = settings
        self._clock = clock
        self._limits = limits
        self._login: tuple[str, str] | None = None
        self._context: ssl.SSLContext | None = None
        self._addresses = Addresses()

    async def look_up(self) -> None:
        """Have the addresses of all named nodes, as far as they have any now."""
        await self._addresses.learn((node.host, node.port) for node in self._nodes)

    async def turn(self) -> Turn:
        """
        The next node, looked up if it is not known.

        Raises:
            TargetUnavailableError: the name has no address.
            PlanError: the address is one that is never allowed.
        """
        node = next(self._turns)
        return Turn(node, await self._addresses.of(node.host, node.port))

    async def connect(
        self, answer_s: float | None = None, *, turn: Turn | None = None, passing: bool = False
    ) -> CqlConnected:
        """
        A new connection, ready for requests.

        Args:
            answer_s: for each request, in place of the limit for operations.
            turn: to which node, for a caller whose time must not hold the look-up; by default the next.
            passing: it will be closed after one operation.

        Raises:
            OSError: as `connect_cql`.
            TargetUnavailableError: as `turn`, or the credentials cannot be read.
            PlanError: as `turn`.
        """
        (node, address), limits = turn or await self.turn(), self._limits
        endpoint = CqlEndpoint(
            address,
            node.port,
            login=await self._credentials(),
            tls=self._tls_context(),
            server_name=node.host,
            connect_s=limits.connect_s,
            answer_s=limits.operate_s if answer_s is None else answer_s,
            reset_at_close=passing,
        )
        try:
            return await connect_cql(endpoint, self._clock)
        except OSError:
            self._addresses.forget(node.host, node.port)
            raise

    @asynccontextmanager
    async def control(self) -> AsyncIterator[CqlConnection]:
        """
        A connection for preparing and clearing up.

        Raises:
            TargetUnavailableError: it cannot be made; says why.
            PlanError: the address is one that is never allowed.
        """
        try:
            connection = (await self.connect(self._limits.control_s)).connection
        except OSError as error:
            raise self.unavailable(str(error) or type(error).__name__) from error
        try:
            yield connection
        finally:
            connection.close()

    async def run(self, connection: CqlConnection, request: cql.Request) -> cql.Frame:
        """
        The answer to a request that must succeed.

        Raises:
            TargetUnavailableError: it did not; `__cause__` is a CqlRefusedError where the server said no.
        """
        answered = await connection.call(request)
        if answered.error:
            raise self.unavailable(answered.error)
        if error := refusal(answered.frame):
            raise self.unavailable(": ".join(error)) from CqlRefusedError(error)
        return answered.frame

    async def rows(self, connection: CqlConnection, statement: str) -> list[Row]:
        """What a statement without values finds, with one replica's answer; otherwise as `run`."""
        return rows(await self.run(connection, cql.query(statement, cql.Consistency.ONE)))

    async def prepare(self, connection: CqlConnection, statements: Sequence[str]) -> Mapping[str, bytes]:
        """Ids of prepared statements, which are the node's; otherwise as `run`."""
        requests = [self.run(connection, cql.prepare(each)) for each in statements]
        frames = await asyncio.gather(*requests)
        return {each: prepared_id(frame) for each, frame in zip(statements, frames, strict=True)}

    def unavailable(self, reason: str) -> TargetUnavailableError:
        """The error that says so."""
        return TargetUnavailableError(f"Cassandra at {self._named}: {reason}")

    async def _credentials(self) -> tuple[str, str]:
        if self._login is None:
            arn, region = self._secret_arn, self._settings.aws_region
            self._login = await asyncio.to_thread(read_login, arn, region) if arn else ANONYMOUS
        return self._login

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._tls and self._context is None:
            self._context = tls_context(self._settings.tls_authority or None)
        return self._context
