"""The nodes of a Redis: one server, or a cluster's primaries with the slots that they serve."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from stepbench.drivers.access import unavailable
from stepbench.drivers.redis.access import describe
from stepbench.errors import PlanError, Problem, StepbenchError
from stepbench.wire.resp.cluster import Redirect, SlotMap, parse_redirect
from stepbench.wire.resp.values import ErrorReply

if TYPE_CHECKING:
    from stepbench.drivers.redis.access import RedisAccess
    from stepbench.wire.resp.cluster import Node
    from stepbench.wire.resp.connection import RespAnswer


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
