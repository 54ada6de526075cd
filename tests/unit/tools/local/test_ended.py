"""Servers that end: noticed once, with how, and what they said last."""

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
from stepbench.planning import expand
from stepbench_tools.local.ended import ServerWatch, last_words
from stepbench_tools.local.processes import spawn, wait_until
from stepbench_tools.local.state import Server, running_server
from stepbench_tools.local.stores.postgresql import STOP_FAST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepbench.contracts.documents import EndedServer
    from stepbench.contracts.plan import AnyTrial

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
