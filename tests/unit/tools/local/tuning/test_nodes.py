"""Nodes that are measured in turns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from stepbench_tools.local.processes import wait_until
from stepbench_tools.local.tuning.nodes import TunedNode

LIMIT_S = 30


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process in a node's place."""
    with subprocess.Popen(["sleep", str(LIMIT_S)]) as process:
        yield process
        process.kill()


def test_the_node_whose_turn_it_is_not_is_stopped_and_goes_on_after_it(process: subprocess.Popen[bytes]) -> None:
    """Its compactions would be at the other's cost; and one that has died meanwhile is told by its own turn."""
    server: Any = SimpleNamespace(pid=process.pid, endpoint="127.0.0.1:9")
    node, seen = TunedNode(server), psutil.Process(process.pid)
    with node.paused():
        wait_until("it is stopped", lambda: seen.status() == psutil.STATUS_STOPPED, timeout_s=LIMIT_S)
    wait_until("it goes on", lambda: seen.status() != psutil.STATUS_STOPPED, timeout_s=LIMIT_S)
    with node.paused():
        process.kill()
        process.wait()
    with node.paused():
        assert not psutil.pid_exists(process.pid)
