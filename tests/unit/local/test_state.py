"""The state file: what `down` and the next `up` know of the last one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepbench.local.processes import ProcessId, identify
from stepbench.local.state import (
    STATE,
    EnvironmentState,
    RunningProcess,
    Server,
    read_state,
    running_server,
    write_state,
)

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = RunningProcess(pid=2**22 + 1, started_at=1.0)
"""Above Linux's highest pid."""


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """`down` may be another process, days later."""
    server = running_server("etcd", "3.5.1", "127.0.0.1:2379", (os.getpid(),))
    state = EnvironmentState(servers=(server,), skipped={"postgresql": "no compiler"}, stack="s", complete=True)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == [STATE]


def test_a_missing_or_broken_file_is_an_empty_state(tmp_path: Path) -> None:
    """A file cut off by a full disk must not keep `down` from working."""
    assert read_state(tmp_path) == EnvironmentState()
    (tmp_path / STATE).write_text('{"servers": [')
    assert read_state(tmp_path) == EnvironmentState()


def test_a_pid_that_was_used_again_is_not_our_process() -> None:
    """`down` after a reboot must not end somebody else's program."""
    me = identify(os.getpid())
    assert me is not None
    assert me.find() is not None
    assert ProcessId(me.pid, me.started_at - 3_600).find() is None


def test_nothing_runs_of_a_server_that_has_ended() -> None:
    """Then the environment has to be started anew."""
    ended = Server(name="etcd", version="3.5.1", endpoint="", processes=(NOBODY,))
    assert identify(NOBODY.pid) is None
    assert not ended.runs()
    assert not EnvironmentState(servers=(ended,), complete=True).runs()


def test_an_interrupted_up_does_not_count_as_running() -> None:
    """Its servers may run, but nothing was deployed."""
    server = running_server("etcd", "3.5.1", "", (os.getpid(),))
    assert EnvironmentState(servers=(server,), complete=True).runs()
    assert not EnvironmentState(servers=(server,)).runs()


def test_a_server_is_found_by_name() -> None:
    """And one that was never started is none."""
    server = running_server("etcd", "3.5.1", "", ())
    state = EnvironmentState(servers=(server,))
    assert state.server("etcd") == server
    assert state.server("postgresql") is None
