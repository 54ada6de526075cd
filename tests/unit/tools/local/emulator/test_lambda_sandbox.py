"""The sandbox's lifeline, and the clock reference's answers: two loops over sockets."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import SystemClock, measure_offset
from stepbench_tools.local.emulator import lambda_sandbox
from stepbench_tools.local.stores import references

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def runtime_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Listen as an emulator does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", f"127.0.0.1:{server.getsockname()[1]}")
        yield server


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_sandbox_ends_when_its_emulator_does(
    runtime_api: socket.socket, monkeypatch: pytest.MonkeyPatch, *, abrupt: bool
) -> None:
    """A connection may be closed or reset; until then the sandbox lives."""
    killed: SimpleQueue[tuple[int, int]] = SimpleQueue()
    monkeypatch.setattr("stepbench_tools.local.emulator.lambda_sandbox.os.kill", lambda *call: killed.put(call))
    lambda_sandbox.hold_lifeline()
    connection, _ = runtime_api.accept()
    assert killed.empty()
    if abrupt:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()
    assert killed.get(timeout=60) == (os.getpid(), signal.SIGKILL)


def test_the_runtime_client_gets_the_handler(
    runtime_api: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """AWS starts it so; what stands for a mounted file system may be written to, if it is there."""
    monkeypatch.setenv(lambda_sandbox.FILES, str(tmp_path))
    started: list[list[str]] = []
    client = ModuleType("awslambdaric.__main__")
    client.main = started.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "awslambdaric", ModuleType("awslambdaric"))
    monkeypatch.setitem(sys.modules, "awslambdaric.__main__", client)
    confined: list[object] = []
    monkeypatch.setattr(lambda_sandbox, "hold_lifeline", lambda: None)
    monkeypatch.setattr(lambda_sandbox, "confine", lambda *folders: confined.append(folders))
    monkeypatch.setattr(
        "stepbench_tools.local.emulator.lambda_sandbox.resource.setrlimit", lambda *call: confined.append(call)
    )
    monkeypatch.setenv("_HANDLER", "run_writer.handler")
    monkeypatch.setenv("TMPDIR", "/writable")
    lambda_sandbox.main()
    assert started == [["awslambdaric", "run_writer.handler"]]
    assert confined == [("/writable", str(tmp_path), ""), (resource.RLIMIT_NOFILE, (1024, 1024))]
    assert runtime_api.fileno() >= 0


TRIES_TO_WRITE = """
import ctypes, os, sys
from stepbench_tools.local.emulator import lambda_sandbox as sandbox
folder, how = sys.argv[1:]
ways = {"mounts": sandbox._remount, "landlock": sandbox._restrict}
if not ways[how](ctypes.CDLL(None, use_errno=True), folder + "/writable"):
    sys.exit("not here")
def attempt(do):
    try:
        do()
    except OSError as error:
        return type(error).__name__
    return "done"
def write(name):
    with open(folder + name, "w") as file:
        file.write("x")
print(attempt(lambda: write("/kept")), attempt(lambda: write("/new")), attempt(lambda: os.mkdir(folder + "/d")),
      attempt(lambda: os.remove(folder + "/kept")), attempt(lambda: os.truncate(folder + "/kept", 0)),
      attempt(lambda: open(os.devnull, "w").write("x")), attempt(lambda: write("/writable/a")),
      attempt(lambda: os.rename(folder + "/writable/a", folder + "/writable/b")),
      attempt(lambda: open(folder + "/kept").read()))
"""


@pytest.mark.parametrize(("how", "error"), [("mounts", "OSError"), ("landlock", "PermissionError")])
def test_either_way_leaves_one_folder_writable(tmp_path: Path, how: str, error: str) -> None:
    """A machine may have one and not the other; reading stays as it was."""
    (tmp_path / "writable").mkdir()
    (tmp_path / "kept").write_text("kept")
    command = [sys.executable, "-c", TRIES_TO_WRITE, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "not here" in done.stderr:
        pytest.skip(f"this machine does not let this user confine a process by {how}")
    assert done.stdout.split() == [error] * 5 + ["done"] * 4, done.stderr
    assert (tmp_path / "kept").read_text() == "kept"


WRITES_FILES = """
import ctypes, pathlib, sys
from stepbench_tools.local.emulator import lambda_sandbox as sandbox
folder, how = sys.argv[1:]
ways = {"mounts": sandbox._remount, "landlock": sandbox._restrict}
if not ways[how](ctypes.CDLL(None, use_errno=True), folder + "/writable", folder + "/files"):
    sys.exit("not here")
pathlib.Path(folder, "files", "1.bin").write_text("made")
try:
    pathlib.Path(folder, "beside").write_text("made")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("how", "error"), [("mounts", "OSError"), ("landlock", "PermissionError")])
def test_a_folder_of_files_is_shared_and_writable(tmp_path: Path, how: str, error: str) -> None:
    """Whoever seeds it is another process than those that read from it; what is beside it stays as it is."""
    (tmp_path / "writable").mkdir()
    (tmp_path / "files").mkdir()
    command = [sys.executable, "-c", WRITES_FILES, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "not here" in done.stderr:
        pytest.skip(f"this machine does not let this user confine a process by {how}")
    assert done.stdout.split() == [error], done.stderr
    assert (tmp_path / "files" / "1.bin").read_text() == "made"


class Ending(socket.socket):
    """A server's socket that a packet ends."""

    def recvfrom(self, *sizes: int) -> tuple[bytes, Any]:
        """Receive, or raise OSError."""
        packet, client = super().recvfrom(*sizes)
        if packet == b"end":
            raise OSError
        return packet, client


def test_the_clock_reference_answers_clients_and_ignores_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stray packet must not end it."""
    monkeypatch.setattr("stepbench.clock.TIMEOUT_S", 30)
    with (
        Ending(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise,
    ):
        server.bind(("127.0.0.1", 0))
        address = server.getsockname()
        serving = threading.Thread(target=_serve, args=(server,), daemon=True)
        serving.start()
        noise.sendto(b"hello", address)
        found = measure_offset(f"127.0.0.1:{address[1]}", SystemClock())
        noise.sendto(b"end", address)
        serving.join()
    assert found is not None
    assert abs(found.offset_ns) < found.bound_ns + 1_000_000  # one clock, which may be set while it is read


def _serve(server: socket.socket) -> None:
    try:
        references.serve(server)
    except OSError:
        return  # the test has ended it
