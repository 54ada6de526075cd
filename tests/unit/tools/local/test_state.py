"""The state file: what `down` and the next `up` know of the last one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.samples.services import small_plan
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import Plan
from stepbench.errors import LocalEnvironmentError
from stepbench.planning import expand
from stepbench_tools.local.processes import ProcessId, identify, spawn, wait_until
from stepbench_tools.local.state import (
    OCCUPIED,
    STATE,
    EnvironmentState,
    Server,
    ServerWatch,
    last_words,
    occupied,
    read_state,
    running_server,
    write_state,
)
from stepbench_tools.local.stores.postgresql import STOP_FAST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepbench.contracts.documents import EndedServer
    from stepbench.contracts.plan import AnyTrial

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


SPECS = expand(Plan.model_validate({"name": "p", "trials": [small_plan("s3").model_dump(exclude_none=True)] * 2}), "r")
NOW_NS = 1_767_312_000 * 10**9


def needed(_trial: AnyTrial) -> frozenset[str]:
    """Need etcd."""
    return frozenset({"etcd"})


def started(command: Sequence[str], log: Path) -> Server:
    """Start a server of that name, and return it as the state file has it."""
    return running_server("etcd", "3.5.1", "127.0.0.1:1", (spawn(command, log=log),))


def end_of(server: Server) -> EndedServer:
    """Watch it until it has ended; return the only account of that."""
    watch = ServerWatch((server,), FakeClock(now_ns=NOW_NS), needed)
    found: list[EndedServer] = []

    def noticed() -> bool:
        found.extend(watch.poll(SPECS[1:]))
        return bool(found)

    wait_until("the end is noticed", noticed, timeout_s=30)
    assert watch.poll(SPECS) == []
    [account] = found
    return account


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("echo last words; kill -9 $$", "was ended by SIGKILL"),
        ("echo last words; exit 3", "ended by itself with exit code 3"),
    ],
)
def test_a_server_of_ours_is_known_with_signal_or_exit_code(tmp_path: Path, script: str, how: str) -> None:
    """Out of memory and a bad setting have different remedies; the trials ahead that need it are named."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    server = started(["/bin/sh", "-c", f"read _ < {shlex.quote(str(gate))}; {script}"], log)
    gate.write_text("\n")  # now that it is known
    account = end_of(server)
    assert (account.server, account.how, account.log, account.trials) == ("etcd", how, ("last words",), (1,))
    assert datetime.fromisoformat(account.seen_at) == datetime.fromtimestamp(NOW_NS / 1e9, UTC)


def test_postgresqls_shell_passes_on_what_ended_the_server(tmp_path: Path) -> None:
    """It stands between us and the server, whose end is noticed a moment before its own."""
    pid = spawn(["/bin/sh", "-c", STOP_FAST, "name", "sleep", "600"], log=tmp_path / "log")
    children: list[psutil.Process] = []

    def has_started() -> bool:
        children[:] = [each for each in psutil.Process(pid).children() if each.name() == "sleep"]
        return bool(children)

    wait_until("the server runs", has_started, timeout_s=30, pid=pid)
    server = running_server("etcd", "18", "", (pid, children[0].pid))
    children[0].kill()
    assert end_of(server).how == "was ended by SIGKILL"


def test_two_servers_of_one_process_are_told_the_same_end(tmp_path: Path) -> None:
    """Redis with and without TLS is one; the kernel says once how it ended."""
    both = started(["sleep", "600"], tmp_path / "log")
    servers = (both, both.model_copy(update={"name": "redis"}))
    watch = ServerWatch(servers, FakeClock(now_ns=NOW_NS), needed)
    os.kill(both.processes[0].pid, signal.SIGKILL)
    found: list[EndedServer] = []

    def both_noticed() -> bool:
        found.extend(watch.poll(SPECS))
        return len(found) > 1

    wait_until("both ends are noticed", both_noticed, timeout_s=30)
    assert [account.how for account in found] == ["was ended by SIGKILL"] * 2


def test_of_anothers_child_only_the_end_is_known(tmp_path: Path) -> None:
    """After `stepbench up` nobody is told the signal."""
    shell = subprocess.run(
        ["/bin/sh", "-c", f"sleep 600 >> {tmp_path}/log & echo $!"], stdout=subprocess.PIPE, check=True, text=True
    )
    pid = int(shell.stdout)
    server = running_server("etcd", "3.5.1", "", (pid,))
    assert server.log == f"{tmp_path}/log"
    watch = ServerWatch((server,), FakeClock(now_ns=NOW_NS), needed)
    assert watch.poll(SPECS) == []
    os.kill(pid, signal.SIGKILL)
    assert end_of(server).how == "is gone"


def test_last_words_are_few_and_short(tmp_path: Path) -> None:
    """They go into a report; a log may have gigabytes, or be gone."""
    log = tmp_path / "log"
    log.write_text("".join(f"{number} {'x' * 999}\n" for number in range(99)))
    words = last_words(str(log))
    assert [line[:3] for line in words[-2:]] == ["97 ", "98 "]
    assert (len(words), max(map(len, words))) == (8, 240)
    assert last_words(str(tmp_path / "gone")) == ()
