"""
Redis and Valkey: a server, or a cluster whose nodes are looked up; blobs are strings, products are hashes.

Each client has a connection of its own, in a cluster one a node, with one command in flight. `warm_up` makes as many as
the plan has clients for each writer; what breaks is made anew before the next operation, outside its time. One server's
commands are prepared ahead and take no task each (`CommandRequest`). In a cluster, MOVED and ASK are followed at once,
as its specification demands, and counted as retries.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.target import RedisTarget
from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.access import ServerLimits, unavailable
from stepbench.drivers.preload import preload_records
from stepbench.drivers.redis.access import DEFAULT_LIMITS, RedisAccess, RedisNodes, describe, server_name
from stepbench.drivers.redis.commands import CommandRequest, NodeConnector, NodeLinks, commands_of, encode_one, judge
from stepbench.drivers.redis.keys import RedisKeys
from stepbench.errors import StepbenchError, TargetUnavailableError
from stepbench.model.errors import connect_error
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import ConnectionParts, Outcome, Result
from stepbench.workload.checks import RecordCheck

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.redis.commands import Command
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.wire.resp.connection import RespAnswer

_REDIRECTIONS = 5
_PRELOADED_BYTES, _PRELOADED_RECORDS, _PRELOADING_LANES = 4_000_000, 1_000, 4
_READ, _SEVERAL_STEPS = Kind.READ, frozenset({Kind.READ_MODIFY_WRITE, Kind.SCAN})
_READING = frozenset({Kind.READ, Kind.READ_MODIFY_WRITE})


class RedisOperations:
    """One trial's operations on its keys, `<tag>/…`."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        target = spec.offered.target
        workload = spec.offered.workload or Workload()
        self._spec = spec
        self._clock = clock
        self._access = RedisAccess(spec, settings, clock, limits)
        self._seed = self._access.seed
        self._is_cluster = isinstance(target, RedisTarget) and target.cluster
        self._nodes = RedisNodes(self._access, is_cluster=self._is_cluster)
        self._reuse = workload.reuse
        self._product = workload.record.shape == "product"
        self._check = RecordCheck(workload, spec.tag)
        self._record_bytes = workload.record.key_bytes + workload.record.value_bytes
        self._sends_at_once = self._reuse and not self._is_cluster
        self._writers = spec.offered.writers
        self._links = NodeLinks(NodeConnector(self._access), clock)

    async def open(self) -> None:
        """Look the nodes up, over a connection that is closed again."""
        await self.close()
        await self._nodes.learn()
        await self._access.addresses.learn(self._nodes.all)

    async def warm_up(self) -> None:
        """Connect a writer's clients; without reuse, each operation does that itself."""
        if not self._reuse:
            return
        clients = range(self._spec.offered.clients_of_writer or 1)  # open-loop load shares one
        try:
            await self._links.open((client, node) for client in clients for node in self._nodes.all)
        except TargetUnavailableError as error:
            raise unavailable(describe(self._access.seed), error) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._nodes.close()
        self._links.close()
        self._links = NodeLinks(NodeConnector(self._access), self._clock)

    def prepare_request(self, request: Request) -> PendingRequest:
        """See `Driver`."""
        if not self._sends_at_once or request.kind in _SEVERAL_STEPS:
            return CoroutineRequest(partial(self._perform, request), self._clock)
        link = self._links[request.client // self._writers, self._seed]
        check = self._check if request.kind is _READ else None
        return CommandRequest(link, encode_one(request, product=self._product), check, request.key)

    async def _perform(self, request: Request) -> Result:
        """
        Perform one command, or a read and then a write.

        What never left us (no connection) is FAILED, what had no answer UNKNOWN. A scan is FAILED, too: keys have no
        order here, and plans that scan are refused.
        """
        if self._reuse:
            return await self._perform_over(self._links, request)
        try:
            await self._access.addresses.find(*self._nodes.find(request.key.encode()))
        except StepbenchError as error:
            return self._failed(connect_error(error))
        connector = NodeConnector(self._access, single_use=True)
        own = NodeLinks(connector, self._clock)
        t1_ns = self._clock.now_ns()
        try:
            result = await self._perform_over(own, request)
        finally:
            own.close()
        operate_ns = result.t2_ns - t1_ns - sum(connector.times)
        return result._replace(t1_ns=t1_ns, connecting=ConnectionParts(*connector.times, operate_ns))

    async def prepare(self) -> None:
        """Write the records that are there before the load; go on where an attempt before has stopped."""
        batch = max(1, min(_PRELOADED_RECORDS, _PRELOADED_BYTES // self._record_bytes))
        async with self._keys() as keys:
            await preload_records(
                self._spec, keys.write, self._clock, batch=batch, lanes=_PRELOADING_LANES, exists=keys.exists
            )

    async def ready(self) -> bool:
        """See `Driver`: a server that answers is ready, since there is nothing to make."""
        await self._nodes.learn()
        return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial on every node, for some 20 s a call."""
        async with self._keys() as keys:
            return await keys.clear()

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"keys {self._spec.tag}*",)

    async def provider(self) -> str:
        """See `Driver`: "Valkey 9.1.2"."""
        return await server_name(self._access)

    def _keys(self) -> RedisKeys:
        return RedisKeys(self._spec.tag, self._access, self._nodes, self._clock)

    async def _perform_over(self, links: NodeLinks, request: Request) -> Result:
        commands, client = commands_of(request, product=self._product), request.client // self._writers
        if not commands:
            return self._failed("unsupported")
        if self._is_cluster:
            answered, retries = await self._call_owner(commands[0], links, client)
        else:  # the measured path is short on purpose: at 100 clients our CPU is what limits
            answered, retries = await links.call(client, self._seed, commands[0]), 0
        outcome, error = judge(answered, self._check if request.kind in _READING else None, request.key)
        if len(commands) == 1 or error:
            return Result(answered.t1_ns, answered.t2_ns, outcome, "", error, retries)
        written, more = await self._call_owner(commands[1], links, client)
        outcome, error = judge(written)
        return Result(answered.t1_ns, written.t2_ns, outcome, "", error, retries + more)

    async def _call_owner(self, command: Command, links: NodeLinks, client: int) -> tuple[RespAnswer, int]:
        """Follow redirections; return the last answer with the t1 of the first attempt, and how many there were."""
        node, retries = self._nodes.find(command[1]), 0
        answered = await links.call(client, node, command)
        t1_ns = answered.t1_ns
        while (redirect := self._nodes.redirect(answered, node)) is not None and retries < _REDIRECTIONS:
            retries, node = retries + 1, redirect.node
            answered = await links.call(client, node, *([(b"ASKING",)] if redirect.ask else []), command)
        return (answered._replace(t1_ns=t1_ns) if retries else answered), retries

    def _failed(self, error: str) -> Result:
        now_ns = self._clock.now_ns()
        return Result(now_ns, now_ns, Outcome.FAILED, error=error)
