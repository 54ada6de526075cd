"""Valkey from its wheel: up, on loopback only, and gone without a trace."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.local import valkey
from stepbench.local.certificates import Certificates
from stepbench.local.processes import family, listening_addresses, spawn, terminate
from stepbench.local.valkey import start_redis_with_tls, start_valkey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.stores


def test_it_serves_on_loopback_only_and_keeps_nothing(tmp_path: Path) -> None:
    """A server on every interface would offer the machine's network an open database."""
    store = start_valkey(tmp_path / "valkey")
    addresses = listening_addresses(store.pids)
    with socket.create_connection(("127.0.0.1", int(store.endpoint.rpartition(":")[2])), timeout=10) as client:
        client.sendall(b"SET k v\r\n")
        assert client.recv(100) == b"+OK\r\n"
    terminate(store.pids)
    assert (store.name, store.version) == ("redis", "9.1.2 (Valkey, wheel)")
    assert addresses == {store.endpoint}
    assert family(store.pids) == []
    assert [each.name for each in (tmp_path / "valkey").iterdir()] == ["redis.log"]


def test_settings_are_the_servers(tmp_path: Path) -> None:
    """A server that wants a password is up, though it says no; the port stays ours."""
    store = start_valkey(tmp_path, {"requirepass": "secret", "port": "1"})
    with socket.create_connection(("127.0.0.1", int(store.endpoint.rpartition(":")[2])), timeout=10) as client:
        client.sendall(b"PING\r\n")
        answer = client.recv(100)
    terminate(store.pids)
    assert answer.startswith(b"-NOAUTH")


def test_without_the_wheel_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install stepbench` alone brings no stores."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LocalEnvironmentError, match=r"Valkey .*stepbench\[local\]"):
        start_valkey(tmp_path)


def test_on_another_machine_the_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is made for some machines only."""
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(LocalEnvironmentError, match=r"sparc64/valkey-server does not run on this machine"):
        start_valkey(tmp_path)


def test_without_a_redis_server_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's server speaks no TLS."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalEnvironmentError, match="apt-get install redis-server"):
        start_redis_with_tls(tmp_path, Certificates(tmp_path, tmp_path, tmp_path))


def test_a_server_that_does_not_start_shows_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-started server would hold its port and its directory."""
    started: list[int] = []

    def recording(argv: Sequence[str | Path], *, log: Path, cwd: Path) -> int:
        started.append(spawn(argv, log=log, cwd=cwd))
        return started[-1]

    monkeypatch.setattr(valkey, "spawn", recording)
    with pytest.raises(LocalEnvironmentError, match="Bad directive"):
        start_valkey(tmp_path, {"no-such-setting": "1"})
    assert started
    assert family(started) == []
