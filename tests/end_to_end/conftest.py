"""One deployed stack for all end-to-end tests, kept warm by `stepbench up`, gone with `stepbench down`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.end_to_end.deployment import UP_LIMIT_S, Deployment

from stepbench.local.emulator.server import DECISIONS


@pytest.fixture(scope="session")
def deployment() -> Iterator[Deployment]:
    """`stepbench up`, and at the end `stepbench down`, after which none of its processes is left."""
    with tempfile.TemporaryDirectory(prefix="stepbench-e2e-") as folder:
        home, out = Path(folder, "home"), Path(folder, "out")
        out.mkdir()
        deployment = Deployment(home, out, {DECISIONS: str(out / "decisions.jsonl")})
        up = deployment.command("up", limit_s=UP_LIMIT_S)
        assert up.code == 0, up.stderr
        yield deployment
        processes = [process for server in deployment.state.servers for process in server.processes]
        children = [child for each in processes for child in psutil.Process(each.pid).children(recursive=True)]
        down = deployment.command("down")
        assert down.code == 0, down.stderr
        assert [child.pid for child in children if child.is_running()] == []
        assert [each.pid for each in processes if each.find()] == []
