"""The nodes of a Redis: one server, or a cluster's primaries with the slots that they serve."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from stepbench.contracts.problem import Problem
from stepbench.errors import PlanError, StepbenchError, TargetUnavailableError
from stepbench.wire.resp_cluster import Redirect, SlotMap, parse_redirect
from stepbench.wire.resp_values import ErrorReply

if TYPE_CHECKING:
    from stepbench.drivers.operations.redis_access import RedisAccess
    from stepbench.wire.resp_cluster import Node
    from stepbench.wire.resp_connection import Answered


class RedisNodes:
    """Which node has a key; knows only the one that was named until `learn`."""

    def __init__(self, access: RedisAccess, *, is_cluster: bool) -> None:
        self._access = access
        self._is_cluster = is_cluster
        self._slots: SlotMap | None = None
        self._relearning: asyncio.Task[None] | None = None

    @property
    def all(self) -> list[Node]:
        """Every node that has keys."""
        return sorted(self._slots.nodes) if self._slots else [self._access.seed]

    def of(self, key: bytes) -> Node:
        """The node to ask for a key; where none has its slot, the one that was named says so."""
        if self._slots is None:
            return self._access.seed
        return self._slots.node_of(key) or self._access.seed

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
                raise self._mistaken(mode)
            if not self._is_cluster:
                return
            answered = await connected.connection.call(b"CLUSTER", b"SLOTS")
        try:
            self._slots = SlotMap(answered.reply, seed)
        except ValueError as error:
            message = f"Redis at {seed.host}:{seed.port}: {answered.error or error}"
            raise TargetUnavailableError(message) from error

    def redirect(self, answered: Answered, asked: Node) -> Redirect | None:
        """
        Where a cluster's answer sends us, noted for later commands; None if nowhere.

        A node without an answer may have lost its slots to another: they are looked up again, meanwhile.
        """
        if self._slots is None:
            return None
        if answered.error:
            self._suspect()
        if not isinstance(answered.reply, ErrorReply):
            return None
        found = parse_redirect(answered.reply, asked)
        if found is not None:
            self._slots.follow(found)
        return found

    async def close(self) -> None:
        """Stop looking up."""
        task, self._relearning = self._relearning, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _suspect(self) -> None:
        if self._relearning is None or self._relearning.done():
            self._relearning = asyncio.get_running_loop().create_task(self._relearn())

    async def _relearn(self) -> None:
        with suppress(StepbenchError):  # the operations themselves tell that nobody answers
            await self.learn()

    def _mistaken(self, mode: str) -> PlanError:
        path, value = "target.cluster", str(self._is_cluster).lower()
        message = f"contradicts the server, which is in {mode} mode"
        remedy = "Set it to false." if self._is_cluster else "Set it to true."
        return PlanError([Problem(path=path, value=value, message=message, remedy=remedy)])
