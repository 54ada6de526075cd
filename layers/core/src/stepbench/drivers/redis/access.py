"""How Redis or Valkey is reached: address, TLS, login; one server, or a cluster's primaries with their slots."""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from stepbench.contracts.target import RedisTarget
from stepbench.drivers.access import (
    AddressBook,
    ServerLimits,
    ServerLogin,
    choose_endpoint,
    control_connection,
    endpoint_error,
    parse_endpoint,
    unavailable,
)
from stepbench.errors import PlanError, Problem, StepbenchError
from stepbench.model.errors import lost_connection
from stepbench.wire.connect import ServerAddress
from stepbench.wire.resp import ErrorReply, Node, Redirect, SlotMap, parse_redirect
from stepbench.wire.resp.connection import Login, LoginRefusedError, connect_resp

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.access import Endpoint
    from stepbench.settings import Settings
    from stepbench.wire.resp.connection import RespAnswer, RespConnected, RespConnection

_HELLO_UNKNOWN = frozenset({"ERR", "NOPROTO", "NOAUTH"})
"""What a server says that does not know HELLO; one that knows it refuses a password as WRONGPASS."""


DEFAULT_LIMITS = ServerLimits()


class RedisAccess:
    """
    Opens connections to one server, or to the nodes of one cluster; looks credentials and addresses up once.

    Measured connections speak RESP2, which needs no HELLO: without a password there is nothing to wait for after TCP
    and TLS. Control connections speak RESP3, since HELLO names the server; where a server or a proxy does not know it
    (a Redis before 6), INFO does.

    seed: the node that was named; all others are learnt from it. addresses: those of nodes, which are looked up before
        a connection is timed.
    """

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        """
        Take the plan's own endpoint, or the stack's with the stack's secret.

        Raises:
            PlanError: neither names a server.
        """
        target = spec.offered.target
        tls = isinstance(target, RedisTarget) and target.tls
        stacks = (settings.redis_tls_endpoint or settings.redis_endpoint) if tls else settings.redis_endpoint
        endpoint = parse_endpoint(choose_endpoint(spec, stacks, "Redis"), RedisTarget.default_port)
        self.seed = Node(endpoint.host, endpoint.port)
        self.addresses = AddressBook()
        self._database = _parse_database(endpoint)
        self._login = ServerLogin(spec, settings, settings.redis_secret_arn, ("", ""), tls=tls)
        self._clock = clock
        self._limits = limits

    async def connect(self, node: Node, *, protocol: Literal[2, 3] = 2, single_use: bool = False) -> RespConnected:
        """
        Make a connection that is ready for commands; with `single_use` it will be closed after one operation.

        A node that is not known yet is looked up first, which counts as a part of connecting.

        Raises:
            OSError: as `wire.resp.connection.connect_resp`.
            TargetUnavailableError: the name has no address, or the credentials cannot be read.
            PlanError: the address is one that is never allowed.
        """
        started_ns = self._clock.now_ns()
        address = await self.addresses.find(*node)
        found_ns = self._clock.now_ns() - started_ns
        limits = self._limits
        server = ServerAddress(address, node.port, self._login.tls_context(), self._server_name(node), single_use)
        login = Login(*await self._login.read(), database=self._database, protocol=protocol)
        answer_s = limits.operate_s if protocol == 2 else limits.control_s  # noqa: PLR2004 -- its name
        try:
            connected = await connect_resp(server, self._clock, login, connect_s=limits.connect_s, answer_s=answer_s)
        except OSError:
            self.addresses.forget(*node)  # after a failover a name means another address
            raise
        times = connected.times
        return connected._replace(times=times._replace(connect_ns=times.connect_ns + found_ns))

    def control(self) -> AbstractAsyncContextManager[RespConnected]:
        """Return a connection to the seed, with its greeting; raises as `control_connection`."""
        return control_connection(describe(self.seed), self.connect_for_control(self.seed))

    async def connect_for_control(self, node: Node) -> RespConnected:
        """Make a connection for preparing and clearing up, with its greeting. Raises as `connect`."""
        try:
            return await self.connect(node, protocol=3)
        except LoginRefusedError as refused:
            if refused.reply.code not in _HELLO_UNKNOWN:
                raise
        connected = await self.connect(node)
        try:
            greeting = await _ask_info(connected.connection)
        except BaseException:
            connected.connection.close()
            raise
        return connected._replace(greeting=greeting)

    def _server_name(self, node: Node) -> str:
        """Return whose certificate is expected: a node named by its address has one for the name given to us."""
        return self.seed.host if _is_address(node.host) and not _is_address(self.seed.host) else node.host


async def server_name(access: RedisAccess) -> str:
    """Return what serves, with version: "Valkey 9.1.2". Raises as `RedisAccess.control`."""
    async with access.control() as connected:
        greeting = connected.greeting
        return f"{greeting.get('server', 'redis').capitalize()} {greeting.get('version', '')}".strip()


def describe(node: Node) -> str:
    """Return how messages name a node."""
    return f"Redis at {node.host}:{node.port}"


async def _ask_info(connection: RespConnection) -> dict[str, str]:
    """Return what HELLO would have answered; nothing of a proxy that knows no INFO either. Raises OSError."""
    answered = await connection.call(b"INFO", b"server")
    if isinstance(answered.reply, ErrorReply) and answered.reply.code == "ERR":
        answered = await connection.call(b"GET", b"stepbench")
    if answered.error:
        raise lost_connection(answered.error)
    if isinstance(answered.reply, ErrorReply):
        raise LoginRefusedError(answered.reply)
    lines = answered.reply.decode("utf-8", "replace").splitlines() if isinstance(answered.reply, bytes) else []
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    server = info.get("server_name", "redis")
    found = {"server": server, "version": info.get(f"{server}_version"), "mode": info.get("redis_mode")}
    return {name: value for name, value in found.items() if value}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _parse_database(endpoint: Endpoint) -> int:
    if endpoint.path and not endpoint.path.isdecimal():
        raise endpoint_error(endpoint.path, "is no number of a database", "Write host:port.")
    return int(endpoint.path or 0)


class RedisNodes:
    """Knows which node has a key: only the one that was named until `learn`, and then a cluster's."""

    def __init__(self, access: RedisAccess, *, is_cluster: bool) -> None:
        self._access = access
        self._is_cluster = is_cluster
        self._slots: SlotMap | None = None
        self._relearning: asyncio.Task[None] | None = None

    @property
    def all(self) -> list[Node]:
        """Return all nodes that have keys."""
        return sorted(self._slots.nodes) if self._slots else [self._access.seed]

    def find(self, key: bytes) -> Node:
        """Return the node to ask for a key; where none has its slot, the one that was named says so."""
        if self._slots is None:
            return self._access.seed
        return self._slots.find_node(key) or self._access.seed

    async def learn(self) -> None:
        """
        Ask what the server is, and a cluster for its slots.

        Raises:
            TargetUnavailableError: it does not answer, or not so.
            PlanError: it is a cluster and the plan says that it is none, or the other way round.
        """
        seed = self._access.seed
        async with self._access.control() as connected:
            mode = connected.greeting.get("mode", "standalone")
            if (mode == "cluster") != self._is_cluster:
                raise self._contradiction(mode)
            if not self._is_cluster:
                return
            answered = await connected.connection.call(b"CLUSTER", b"SLOTS")
        try:
            self._slots = SlotMap(answered.reply, seed)
        except ValueError as error:
            raise unavailable(describe(seed), answered.error or error) from error

    def redirect(self, answered: RespAnswer, asked: Node) -> Redirect | None:
        """
        Return where a cluster's answer sends us, None if nowhere; later commands go there at once.

        A node without an answer may have lost its slots to another: they are looked up again, meanwhile. One
        that refused our login is there, and may be full.
        """
        if self._slots is None:
            return None
        if answered.error and (answered.sent or answered.error.startswith("connect:")):
            self._start_relearning()
        if not isinstance(answered.reply, ErrorReply):
            return None
        found = parse_redirect(answered.reply, asked)
        if found is not None:
            self._slots.follow(found)
        return found

    async def close(self) -> None:
        """Stop looking slots up."""
        task, self._relearning = self._relearning, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _start_relearning(self) -> None:
        if self._relearning is None or self._relearning.done():
            self._relearning = asyncio.get_running_loop().create_task(self._relearn())

    async def _relearn(self) -> None:
        with suppress(StepbenchError):  # the operations themselves report that nobody answers
            await self.learn()

    def _contradiction(self, mode: str) -> PlanError:
        path, value = "target.cluster", str(self._is_cluster).lower()
        message = f"contradicts the server, which is in {mode} mode"
        remedy = "Set it to false." if self._is_cluster else "Set it to true."
        return PlanError([Problem(path=path, value=value, message=message, remedy=remedy)])
