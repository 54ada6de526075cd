from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.fake_clock import FakeClock

from stepbench.drivers.redis.keys import CLEAR_LIMIT_S, FIND_LIMIT_S, RedisKeys
from stepbench.errors import TargetUnavailableError
from stepbench.wire.resp import Node
from stepbench.wire.resp.connection import RespAnswer

NODE = Node("store.test", 6379)


class EndlessScan:
    """A server, its access, and the connection to it: each SCAN takes a second, and names a next one."""

    all = (NODE,)
    is_open = True

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    async def connect_for_control(self, _node: Node) -> Any:  # noqa: ANN401 -- as much of it as is used
        """Connect."""
        return SimpleNamespace(connection=self)

    async def call(self, *_command: bytes) -> RespAnswer:
        """Answer."""
        await self.clock.sleep_async(1)
        return RespAnswer(0, 0, [b"7", []])

    def pipeline(self, _commands: object) -> list[RespAnswer]:
        """Answer what was not asked."""
        return []

    def close(self) -> None:
        """Do nothing."""


def test_a_scan_without_end_ends_all_the_same() -> None:
    """Each of its answers is in time, and each has a next one."""
    clock = FakeClock()
    server: Any = EndlessScan(clock)
    keys = RedisKeys("tag", server, server, clock)
    began_ns = clock.now_ns()
    assert not clock.run(keys.clear())
    assert clock.now_ns() - began_ns <= (CLEAR_LIMIT_S + 1) * 1e9
    with pytest.raises(TargetUnavailableError, match=r"store\.test:6379: its keys were not listed"):
        clock.run(keys.find())
    assert clock.now_ns() - began_ns <= (CLEAR_LIMIT_S + FIND_LIMIT_S + 2) * 1e9
