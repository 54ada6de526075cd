"""Cassandra's own command line, with a stand-in for Java that never serves."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepbench.local.processes import identify, terminate, wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.stores
LIMIT_S = 30


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_stop_while_it_starts_it_leaves_no_java(tmp_path: Path, number: signal.Signals) -> None:
    """It takes 20 s to start: a script that is ended meanwhile must not leave 900 MB behind."""
    noted = tmp_path / "pid"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho $$ > {shlex.quote(str(noted))}\nexec sleep 600\n")
    java.chmod(0o755)
    environ = {**os.environ, "PATH": f"{java.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "stepbench.local.cassandra", str(tmp_path / "data")]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        started = None
        try:
            wait_until("Java has been started", lambda: _pid_in(noted) > 0, timeout_s=LIMIT_S, pid=asked.pid)
            started = identify(_pid_in(noted))
            asked.send_signal(number)
            output, said = asked.communicate(timeout=LIMIT_S)
            assert started is not None
            assert started.find() is None
            assert (asked.returncode, output, said) == (1, "", "asked to stop before Cassandra was up\n")
        finally:
            asked.kill()
            if started is not None and started.find() is not None:
                terminate([started.pid])


def _pid_in(file: Path) -> int:
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else 0
