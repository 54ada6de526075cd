"""How Cassandra or ScyllaDB is reached: addresses in turn, TLS, login; control requests; and a trial's keyspace."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget
from stepbench.drivers.access import (
    AddressBook,
    ServerLimits,
    ServerLogin,
    choose_endpoint,
    control_connection,
    parse_endpoint,
    unavailable,
)
from stepbench.model.pending import uncancellable
from stepbench.wire import cql
from stepbench.wire.connect import ServerAddress
from stepbench.wire.cql import Consistency
from stepbench.wire.cql.answers import prepared_id, refusal, rows, supported
from stepbench.wire.cql.connection import ANONYMOUS, CqlRefusedError, connect_cql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.target import StoreTarget
    from stepbench.drivers.access import Endpoint
    from stepbench.errors import TargetUnavailableError
    from stepbench.settings import Settings
    from stepbench.wire.cql.answers import Row
    from stepbench.wire.cql.connection import CqlConnected, CqlConnection


DEFAULT_LIMITS = ServerLimits(operate_s=12.0)
"""For a request of preparing, too, servers themselves take up to 20 s: to change a schema."""


LocatedNode = tuple["Endpoint", str]
"""A node, and its numeric address."""


def stack_address(target: StoreTarget, settings: Settings) -> str:
    """Return where the stack's Cassandra is: of hosts side by side, the named or the first one; empty for none."""
    hosts, host = settings.cassandra_hosts, target.host if isinstance(target, CassandraTarget) else None
    return hosts.get(host, "") if host else next(iter(hosts.values()), settings.cassandra_endpoint)


class CassandraAccess:
    """Opens connections to one cluster, to its named nodes in turn; looks credentials up once."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        """
        Take the plan's own endpoint, or the stack's with the stack's secret.

        Raises:
            PlanError: neither names a server.
        """
        target = spec.offered.target
        named = choose_endpoint(spec, stack_address(target, settings), "Cassandra")
        tls = isinstance(target, CassandraTarget) and target.tls
        self._name = f"Cassandra at {named}"
        self._nodes = [parse_endpoint(each.strip(), CassandraTarget.default_port) for each in named.split(",")]
        self._next_nodes = itertools.cycle(self._nodes)
        self._login = ServerLogin(spec, settings, settings.cassandra_secret_arn, ANONYMOUS, tls=tls)
        self._clock = clock
        self._limits = limits
        self._addresses = AddressBook()

    async def look_up_nodes(self) -> None:
        """Look up the addresses of all named nodes, as far as they have any now."""
        await self._addresses.learn((node.host, node.port) for node in self._nodes)

    async def locate_next_node(self) -> LocatedNode:
        """
        Return the next node, looked up if it is not known.

        Raises:
            TargetUnavailableError: the name has no address.
            PlanError: the address is one that is never allowed.
        """
        node = next(self._next_nodes)
        return node, await self._addresses.find(node.host, node.port)

    async def connect(
        self, answer_s: float | None = None, *, node: LocatedNode | None = None, single_use: bool = False
    ) -> CqlConnected:
        """
        Make a connection that is ready for requests.

        Args:
            answer_s: for each request, in place of the limit for operations.
            node: to which one, for a caller whose time must not hold the look-up; by default the next.
            single_use: it will be closed after one operation.

        Raises:
            OSError: as `connect_cql`.
            TargetUnavailableError: as `locate_next_node`, or the credentials cannot be read.
            PlanError: as `locate_next_node`.
        """
        (named, address), limits = node or await self.locate_next_node(), self._limits
        server = ServerAddress(address, named.port, self._login.tls_context(), named.host, single_use)
        login = await self._login.read()
        answer_s = limits.operate_s if answer_s is None else answer_s
        try:
            return await connect_cql(server, self._clock, login, connect_s=limits.connect_s, answer_s=answer_s)
        except OSError:
            self._addresses.forget(named.host, named.port)
            raise

    @asynccontextmanager
    async def control(self) -> AsyncIterator[CqlConnection]:
        """Yield a connection to the next node; raises as `control_connection`."""
        async with control_connection(self._name, self.connect(self._limits.control_s)) as connected:
            yield connected.connection

    async def run(self, connection: CqlConnection, request: cql.CqlRequest) -> cql.CqlFrame:
        """
        Return the answer to a request that must succeed.

        Raises:
            TargetUnavailableError: it did not; `__cause__` is a CqlRefusedError where the server said no.
        """
        answered = await connection.call(request)
        if answered.error:
            raise self.unavailable(answered.error)
        if error := refusal(answered.frame):
            refused = CqlRefusedError(error)
            raise self.unavailable(refused) from refused
        return answered.frame

    async def select(self, connection: CqlConnection, statement: str) -> list[Row]:
        """Return what a statement without values finds, by one replica's answer; otherwise as `run`."""
        return rows(await self.run(connection, cql.query(statement, cql.Consistency.ONE)))

    async def prepare(self, connection: CqlConnection, statements: Sequence[str]) -> Mapping[str, bytes]:
        """Prepare statements, and return the ids by which the node knows them; otherwise as `run`."""
        requests = [self.run(connection, cql.prepare(each)) for each in statements]
        frames = await asyncio.gather(*requests)
        return {each: prepared_id(frame) for each, frame in zip(statements, frames, strict=True)}

    def unavailable(self, reason: str | Exception) -> TargetUnavailableError:
        """Return the error of a control method."""
        return unavailable(self._name, reason)


async def server_name(access: CassandraAccess) -> str:
    """Return what serves, with version: "Apache Cassandra 5.0.5". Raises TargetUnavailableError."""
    async with access.control() as connection:
        options = supported(await access.run(connection, cql.options()))
        is_scylla = any(name.startswith("SCYLLA") for name in options)
        version = "version FROM system.versions" if is_scylla else "release_version FROM system.local"
        (row,) = await access.select(connection, f"SELECT {version}")
    return f"{'ScyllaDB' if is_scylla else 'Apache Cassandra'} {(row[0] or b'').decode()}"


CONSISTENCIES = {"one": Consistency.ONE, "local_quorum": Consistency.LOCAL_QUORUM}


def keyspace_of(tag: str) -> str:
    """Return the name of the trial's own keyspace; it may have letters, digits and underscores only."""
    return f"stepbench_{tag.replace('-', '_')}"


def create_keyspace(tag: str, target: CassandraTarget) -> str:
    """
    Return what makes the keyspace, unless it is there.

    The strategy puts copies into every data centre that there is. (`SimpleStrategy`, which knows of none, is refused by
    ScyllaDB's tablets.)
    """
    strategy = f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {target.replication}}}"
    return f"CREATE KEYSPACE IF NOT EXISTS {keyspace_of(tag)} WITH replication = {strategy}"


class TrialKeyspace:
    """The keyspace in the store. All methods raise TargetUnavailableError."""

    def __init__(self, access: CassandraAccess, tag: str, consistency: Consistency) -> None:
        self.name = keyspace_of(tag)
        self._access = access
        self._consistency = consistency

    async def make(self, connection: CqlConnection, statements: Iterable[str]) -> None:
        """Change the schema, one statement after the other; what was begun is ended, even when it is cancelled."""
        for statement in statements:
            await uncancellable(self._access.run(connection, cql.query(statement, self._consistency)))

    async def is_agreed(self) -> bool:
        """Return whether all nodes that are up have the same schema: without it some would not know the tables."""
        async with self._access.control() as connection:
            own = await self._access.select(connection, "SELECT schema_version FROM system.local")
            others = await self._access.select(connection, "SELECT schema_version FROM system.peers")
        return len({row[0] for row in (*own, *others) if row[0] is not None}) == 1

    async def exists(self, connection: CqlConnection) -> bool:
        """Return whether it is there."""
        found = await self._access.select(connection, "SELECT keyspace_name FROM system_schema.keyspaces")
        return (self.name.encode(),) in found

    async def drop(self) -> bool:
        """Remove it with all that it holds; return whether it is gone."""
        async with self._access.control() as connection:
            await self._access.run(connection, cql.query(f"DROP KEYSPACE IF EXISTS {self.name}", self._consistency))
            return not await self.exists(connection)
