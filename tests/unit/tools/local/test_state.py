"""The state file: what `down` and the next `up` know of the last one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import ProcessId, identify
from stepbench_tools.local.state import (
    OCCUPIED,
    STATE,
    EnvironmentState,
    Server,
    occupied,
    read_state,
    running_server,
    write_state,
)

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = ProcessId(pid=2**22 + 1, started_at=1.0)
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


def test_an_environment_runs_if_it_is_complete_and_all_its_servers_do() -> None:
    """An interrupted `up` has deployed nothing; where a server has ended, all has to be started anew."""
    assert identify(NOBODY.pid) is None
    ended = Server(name="etcd", version="3.5.1", endpoint="", processes=(NOBODY,))
    server = running_server("etcd", "3.5.1", "", (os.getpid(), NOBODY.pid))
    assert (server.runs(), ended.runs()) == (True, False)
    assert EnvironmentState(servers=(server,), complete=True).runs()
    assert not EnvironmentState(servers=(server,)).runs()
    assert not EnvironmentState(servers=(server, ended), complete=True).runs()


def test_a_server_is_found_by_name() -> None:
    """One that was never started is none."""
    server = Server(name="etcd", version="3.5.1", endpoint="", processes=())
    state = EnvironmentState(servers=(server,))
    assert (state.server("etcd"), state.server("postgresql")) == (server, None)


@pytest.mark.parametrize(
    ("begun", "who"),
    [(True, rf"`.*` \(pid {os.getpid()}, since .* UTC\) is using .*STEPBENCH_HOME"), (False, "another stepbench")],
    ids=["a run", "no run"],  # the pid is another one in each process of the suite
)
def test_whoever_is_in_a_home_keeps_others_out_and_is_named(tmp_path: Path, *, begun: bool, who: str) -> None:
    """Two runs would be measured with each other's load; `up` and `down` are no runs, and soon over."""
    with occupied(tmp_path) as first:
        if begun:
            first.begin(warm=False)
        with pytest.raises(LocalEnvironmentError, match=who), occupied(tmp_path):
            pass


@pytest.mark.parametrize("warm", [True, False])
def test_a_killed_run_is_known_by_its_note_until_there_is_an_orderly_end(tmp_path: Path, *, warm: bool) -> None:
    """The kernel has taken the lock back, and nobody has written the end; otherwise a warm environment stays."""
    with occupied(tmp_path) as first:
        first.begin(warm=warm)
    assert (tmp_path / OCCUPIED).read_text().startswith(str(os.getpid()))
    with occupied(tmp_path) as second:
        assert (second.killed, second.was_warm) == (True, warm)
        second.end()
    with occupied(tmp_path) as third:
        assert (third.killed, third.was_warm) == (False, False)
