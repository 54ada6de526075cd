"""Real processes: started apart from us, awaited with a limit, ended with all their children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.support.listening import listening_addresses

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import (
    await_end,
    family,
    free_port,
    spawn,
    terminate,
    wait_until,
    without_users_settings,
)
from stepbench_tools.local.stack import REGION, local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 60
SERVES = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1]); time.sleep(600)"
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"])
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Return a list of pids, which are ended after the test."""
    pids: list[int] = []
    yield pids
    terminate(pids, grace_s=0)


def test_a_server_has_a_session_of_its_own_and_a_log(tmp_path: Path, started: list[int]) -> None:
    """Ctrl-C in our terminal must not reach it before we do."""
    log = tmp_path / "logs" / "server.log"
    started.append(spawn([sys.executable, "-c", "print('hello'); import time; time.sleep(60)"], log=log, cwd=tmp_path))
    assert os.getsid(started[0]) == started[0]
    started.append(spawn([sys.executable, "-uc", "print('hello')"], log=log))
    wait_until("a line is logged", lambda: "hello" in log.read_text(), timeout_s=LIMIT_S)


def test_a_program_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    """A FileNotFoundError would come with a traceback."""
    with pytest.raises(LocalEnvironmentError, match="cannot start /no/such/program"):
        spawn(["/no/such/program"], log=tmp_path / "log")


def test_a_server_that_ends_early_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    """The error comes at once, not after the time limit, and with the server's own words."""
    log = tmp_path / "log"
    pid = spawn([sys.executable, "-c", "raise SystemExit('port is taken')"], log=log)
    with pytest.raises(LocalEnvironmentError, match=r"(?s)ended before that.*port is taken"):
        wait_until("it serves", lambda: False, timeout_s=LIMIT_S, pid=pid, log=log)


def test_waiting_has_an_end(tmp_path: Path, started: list[int]) -> None:
    """A server that hangs must not hang us."""
    started.append(spawn(SLEEPER, log=tmp_path / "log"))
    with pytest.raises(LocalEnvironmentError, match=r"it serves: not within 0\.2 s"):
        wait_until("it serves", lambda: False, timeout_s=0.2, pid=started[0])


def test_a_wait_that_runs_out_tells_its_last_error() -> None:
    """PostgreSQL was skipped with no more than "not within 60 s", while each look said which variable was wrong."""

    def refused() -> bool:
        message = "no service is called so"
        raise LocalEnvironmentError(message)

    with pytest.raises(LocalEnvironmentError, match=r"it serves: not within 0\.1 s \(no service is called so\)"):
        wait_until("it serves", refused, timeout_s=0.1)


def test_variables_of_the_user_s_own_servers_are_hidden_from_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PGSSLMODE=require` skipped PostgreSQL, and a profile that is not there ended a run after all had started."""
    theirs = {"PGSSLMODE": "require", "AWS_PROFILE": "nobody", "ETCDCTL_USER": "root", "CASSANDRA_HOME": "/nowhere"}
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH_TO_SOMETHING", "kept")
    with without_users_settings():
        seen = subprocess.run(["env"], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
        assert theirs.keys() & {line.partition("=")[0] for line in seen.splitlines()} == set()
        assert "PATH_TO_SOMETHING=kept" in seen
    assert {name: os.environ[name] for name in theirs} == theirs


def test_the_emulator_is_reached_whatever_profile_the_user_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its commands outside of a run, such as `report`, ask it as well."""
    broken = tmp_path / "config"
    broken.write_text("[default\nnonsense")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(broken))
    client = local_client("s3", "http://127.0.0.1:1")
    assert (client.meta.endpoint_url, client.meta.region_name) == ("http://127.0.0.1:1", REGION)


def test_listening_sockets_of_the_family_are_found(tmp_path: Path, started: list[int]) -> None:
    """The check that nothing is bound to another interface has to see every interface."""
    log = tmp_path / "log"
    started.append(spawn([sys.executable, "-uc", SERVES], log=log))
    wait_until("it listens", lambda: log.read_text().endswith("\n"), timeout_s=LIMIT_S)
    assert listening_addresses(started) == {f"127.0.0.1:{int(log.read_text())}"}


def test_what_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    """`down` verifies; a child that was forgotten would go on writing."""
    log = tmp_path / "log"
    pid = spawn([sys.executable, "-c", STUBBORN], log=log)
    wait_until("both run", lambda: "ready" in log.read_text() and len(family([pid])) == 2, timeout_s=LIMIT_S)
    members = family([pid])
    terminate([pid], grace_s=0.2)
    assert await_end(members, 0) == []


def test_ending_what_has_ended_is_fine() -> None:
    """A pid above Linux's highest is nobody's."""
    terminate([2**22 + 1])
    assert family([2**22 + 1]) == []


def test_what_has_ended_is_not_waited_for_though_nobody_asks_for_it(tmp_path: Path, started: list[int]) -> None:
    """A container's first process may never ask for its children: they stay in the list of processes as zombies."""
    server = spawn(["sh", "-c", "true & exec sleep 600"], log=tmp_path / "server.log")
    started.append(server)
    wait_until(
        "its child has ended", lambda: [each.status() for each in children(server)] == ["zombie"], timeout_s=LIMIT_S
    )
    assert await_end(children(server), 0) == []


def children(pid: int) -> list[psutil.Process]:
    """Return a process's children."""
    return psutil.Process(pid).children()


def test_a_stranger_on_the_port_is_not_taken_for_the_server(tmp_path: Path) -> None:
    """Somebody else's server may answer, which was there before ours could bind."""
    pid = spawn([sys.executable, "-c", "raise SystemExit('port is taken')"], log=tmp_path / "log")
    psutil.Process(pid).wait(LIMIT_S)
    with pytest.raises(LocalEnvironmentError, match="the process ended before that"):
        wait_until("it serves", lambda: True, timeout_s=LIMIT_S, pid=pid, log=tmp_path / "log")


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of etcd asks for three before it binds the first; one of nine was given twice, once in a thousand."""
    first, second, third, *spare = (free_port() for _ in range(13))
    drawn = iter([first, second, first, third, *spare])
    monkeypatch.setattr("stepbench_tools.local.processes._given_ports", set())
    monkeypatch.setattr("stepbench_tools.local.processes.secrets", SimpleNamespace(choice=lambda _ports: next(drawn)))
    assert len({free_port() for _ in range(3)}) == 3


GIVES_ONE = """
import sys
from stepbench_tools.local.processes import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""


def test_no_port_is_given_by_two_processes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Cassandra node bound its fourth port ten seconds later, and another worker's server had it by then."""
    with subprocess.Popen([sys.executable, "-c", GIVES_ONE], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        monkeypatch.setattr("stepbench_tools.local.processes._PORTS", range(theirs, theirs + 1))
        with pytest.raises(LocalEnvironmentError, match="no free port"):
            free_port()
        other.stdin.close()
        assert other.wait(LIMIT_S) == 0


def test_a_free_port_is_none_that_the_kernel_gives_out() -> None:
    """Until the server binds it, it must not become the local end of anybody's connection."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = {free_port() for _ in range(50)}
    assert max(ports) < max(ephemeral, 32_768)
    assert len(ports) > 40
