"""
Redis and Valkey: a server, or a cluster whose nodes are looked up; blobs are strings, products are hashes.

Each client has a connection of its own, in a cluster one a node, with one command in flight. `warm_up` makes as many as
the plan has clients for each writer; what breaks is made anew before the next operation, outside its time. One server's
commands are made ahead and take no task each (`make`). In a cluster, MOVED and ASK are followed at once, as its
specification demands, and counted as retries.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.target import RedisTarget
from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.operations.preloading import preload
from stepbench.drivers.operations.redis_access import RedisAccess, RedisLimits
from stepbench.drivers.operations.redis_commands import commands_of, encode_one, judge
from stepbench.drivers.operations.redis_connections import Connections, connect_all, error_code
from stepbench.drivers.operations.redis_keys import RedisKeys
from stepbench.drivers.operations.redis_nodes import RedisNodes
from stepbench.drivers.operations.redis_prompt import PromptClient, PromptCommand
from stepbench.drivers.protocol import Connecting, Operated, Outcome
from stepbench.drivers.tasked import Tasked
from stepbench.errors import StepbenchError, TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.operations.redis_commands import Command
    from stepbench.drivers.protocol import Made, Operation
    from stepbench.settings import Settings
    from stepbench.wire.resp_cluster import Node
    from stepbench.wire.resp_connection import Answered

_DEFAULT_LIMITS = RedisLimits()
_REDIRECTIONS = 5
_PRELOADED_BYTES, _PRELOADED_RECORDS, _PRELOADING_LANES = 4_000_000, 1_000, 4
_READ, _SEVERAL_STEPS = Kind.READ, frozenset({Kind.READ_MODIFY_WRITE, Kind.SCAN})
_READING = frozenset({Kind.READ, Kind.READ_MODIFY_WRITE})


class RedisOperations:
    """One trial's keys, `<tag>/…`."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: RedisLimits = _DEFAULT_LIMITS
    ) -> None:
        target = spec.plan.target
        workload = spec.plan.workload or Workload()
        self._spec = spec
        self._clock = clock
        self._access = RedisAccess.of(spec, settings, clock, limits)
        self._is_cluster = isinstance(target, RedisTarget) and target.cluster
        self._nodes = RedisNodes(self._access, is_cluster=self._is_cluster)
        self._reuse = workload.reuse
        self._product = workload.record.shape == "product"
        self._record_bytes = workload.record.key_bytes + workload.record.value_bytes
        self._is_prompt = self._reuse and not self._is_cluster
        self._clients: dict[int, Connections] = {}
        self._prompt: dict[int, PromptClient] = {}
        self._spare: list[Connections] = []

    async def open(self) -> None:
        """Look the nodes up, over a connection that is closed again."""
        await self.close()
        await self._nodes.learn()
        await self._access.addresses.learn(self._nodes.all)

    async def warm_up(self) -> None:
        """Connect a writer's clients; without reuse, each operation does that itself."""
        if not self._reuse:
            return
        clients = self._spec.plan.clients_of_writer or 1  # open-loop load shares one
        self._spare = [Connections(self._access, self._clock) for _ in range(clients)]
        try:
            await connect_all(self._spare, self._nodes.all)
        except OSError as error:
            message = f"Redis: {error or type(error).__name__}"
            raise TargetUnavailableError(message) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._nodes.close()
        for connections in (*self._clients.values(), *self._spare):
            connections.close()
        self._clients, self._prompt, self._spare = {}, {}, []

    def make(self, operation: Operation) -> Made[Operated]:
        """See `PromptOperable`."""
        if not self._is_prompt or operation.kind in _SEVERAL_STEPS:
            return Tasked(partial(self.operate, operation), self._clock)
        client = self._prompt.get(operation.client) or self._admit_prompt(operation.client)
        return PromptCommand(client, encode_one(operation, product=self._product), operation.kind is _READ)

    async def operate(self, operation: Operation) -> Operated:
        """
        One command, or a read and then a write.

        What never left us (no connection) is FAILED, what had no answer UNKNOWN. A scan is FAILED, too: keys have no
        order here, and plans that scan are refused.
        """
        if self._reuse:
            return await self._perform(operation, self._clients.get(operation.client) or self._admit(operation.client))
        try:
            await self._access.addresses.of(*self._nodes.of(operation.key.encode()))
        except StepbenchError as error:
            now_ns = self._clock.now_ns()
            return Operated(now_ns, now_ns, Outcome.FAILED, error=error_code(error))
        own = Connections(self._access, self._clock, passing=True)
        t1_ns = self._clock.now_ns()
        try:
            done = await self._perform(operation, own)
        finally:
            own.close()
        operate_ns = done.t2_ns - t1_ns - sum(own.times)
        return done._replace(t1_ns=t1_ns, connecting=Connecting(*own.times, operate_ns))

    async def prepare(self) -> None:
        """Write the records that are there before the load; goes on where an attempt before has stopped."""
        batch = max(1, min(_PRELOADED_RECORDS, _PRELOADED_BYTES // self._record_bytes))
        async with self._keys() as keys:
            await preload(self._spec, keys.write, self._clock, batch=batch, lanes=_PRELOADING_LANES, exists=keys.exists)

    async def ready(self) -> bool:
        """A server that answers is ready, whatever the load: there is nothing to make."""
        await self._nodes.learn()
        return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial on every node, for some 20 s a call."""
        async with self._keys() as keys:
            return await keys.clear()

    async def provider(self) -> str:
        """`Valkey 9.1.2`."""
        async with self._access.control() as connected:
            greeting = connected.greeting
            return f"{greeting.get('server', 'redis').capitalize()} {greeting.get('version', '')}".strip()

    @asynccontextmanager
    async def _keys(self) -> AsyncIterator[RedisKeys]:
        await self._nodes.learn()
        keys = RedisKeys(self._spec.tag, self._access, self._nodes, self._clock)
        try:
            yield keys
        finally:
            keys.close()

    def _admit(self, client: int) -> Connections:
        """The client's connections from now on: some of those that were made before the load."""
        connections = self._spare.pop() if self._spare else Connections(self._access, self._clock)
        self._clients[client] = connections
        return connections

    def _admit_prompt(self, client: int) -> PromptClient:
        connections = self._clients.get(client) or self._admit(client)
        made = self._prompt[client] = PromptClient(connections, self._access.seed, self._clock)
        return made

    async def _perform(self, operation: Operation, connections: Connections) -> Operated:
        commands = commands_of(operation, product=self._product)
        if not commands:
            now_ns = self._clock.now_ns()
            return Operated(now_ns, now_ns, Outcome.FAILED, error="unsupported")
        if self._is_cluster:
            answered, retries = await self._seek(commands[0], connections)
        else:  # the measured path is short on purpose: at 100 clients our CPU is what limits
            answered, retries = await _ask(self._access.seed, commands[0], connections), 0
        outcome, error = judge(answered, reading=operation.kind in _READING)
        if len(commands) == 1 or error:
            return Operated(answered.t1_ns, answered.t2_ns, outcome, "", error, retries)
        written, more = await self._seek(commands[1], connections)
        outcome, error = judge(written, reading=False)
        return Operated(answered.t1_ns, written.t2_ns, outcome, "", error, retries + more)

    async def _seek(self, command: Command, connections: Connections) -> tuple[Answered, int]:
        """The answer in the end, with the t1 of the first attempt, and how often it was asked elsewhere."""
        node, retries = self._nodes.of(command[1]), 0
        answered = await _ask(node, command, connections)
        t1_ns = answered.t1_ns
        while (redirect := self._nodes.redirect(answered, node)) is not None and retries < _REDIRECTIONS:
            retries, node = retries + 1, redirect.node
            answered = await connections.ask(node, *([(b"ASKING",)] if redirect.ask else []), command)
        return (answered._replace(t1_ns=t1_ns) if retries else answered), retries


def _ask(node: Node, command: Command, connections: Connections) -> Awaitable[Answered]:
    connection = connections.find(node)
    return connection.call(*command) if connection else connections.ask(node, command)
