"""
The comparators, built from source on this machine: our own few, and tools from the Go module proxy at fixed versions.

The sink among them is also started, on its core, plain and with TLS, and ended with the block.

Go's minimal version selection makes a module's build list a function of its version, and the checksum database vouches
for the content, so that a throw-away module is as reproducible as one with a lock file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import machine
from benchmarks.command import ROOT, MissingComparatorError

from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator


SOURCES = Path(__file__).resolve().parent / "comparators"
ETCD_MODULE, ETCD_VERSION = "go.etcd.io/etcd/v3", "v3.5.21"
S5CMD_MODULE, S5CMD_VERSION = "github.com/peak/s5cmd/v2", "v2.3.0"
VERSITY_MODULE, VERSITY_VERSION = "github.com/versity/versitygw", "v1.8.0"
_BUILD_LIMIT_S = 900


def putitem(tools: Path) -> Path:
    """Build PutItems in Go, by the SDK or by itself."""
    return _own_go("putitem", tools, "./putitem")


def lateness(tools: Path) -> Path:
    """Build the open loop in C."""
    compiler = _need("cc", "install a C compiler (apt-get install gcc libc6-dev)")
    made, source = _place(tools, "lateness"), SOURCES / "lateness.c"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        _run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(made), str(source)], SOURCES)
    return made


def etcd_benchmark(tools: Path) -> Path:
    """
    Build etcd's own `benchmark`.

    Its module refuses `go install`, since it replaces others by its own directories; as a dependency these are the
    modules of the same version.
    """
    return _from_proxy(f"etcd-benchmark-{ETCD_VERSION}", ETCD_MODULE, ETCD_VERSION, "tools/benchmark", tools)


def etcd_watch(tools: Path) -> Path:
    """Build put to watch by etcd's client for Go; a module of its own, since it has that client's many dependencies."""
    return _own_go("etcdwatch", tools, ".", SOURCES / "etcdwatch")


def s5cmd(tools: Path) -> Path:
    """Build s5cmd, a command line for S3."""
    return _from_proxy(f"s5cmd-{S5CMD_VERSION}", S5CMD_MODULE, S5CMD_VERSION, "", tools)


def versity_gateway(tools: Path) -> Path:
    """Build the gateway that serves a local folder by S3's protocol."""
    return _from_proxy(f"versitygw-{VERSITY_VERSION}", VERSITY_MODULE, VERSITY_VERSION, "cmd/versitygw", tools)


def peers_python() -> Path:
    """Return a Python that has the libraries of `requirements/bench.txt`, and nothing of ours."""
    python = ROOT / ".stepbench" / "venvs" / "bench" / "bin" / "python"
    if not python.exists():
        message = "peers' libraries are not installed: make .stepbench/venvs/bench/.ready"
        raise MissingComparatorError(message)
    return python


def _own_go(name: str, tools: Path, package: str, directory: Path = SOURCES) -> Path:
    made = _place(tools, name)
    _run([_go(), "build", "-o", str(made), package], directory)  # Go knows what has changed
    return made


def _from_proxy(name: str, module: str, version: str, package: str, tools: Path) -> Path:
    made = _place(tools, name)
    if made.exists():
        return made
    go = _go()
    with tempfile.TemporaryDirectory() as directory:
        _run([go, "mod", "init", "any"], Path(directory))
        _run([go, "get", f"{module}@{version}"], Path(directory))
        _run([go, "build", "-mod=mod", "-o", str(made), f"{module}/{package}".rstrip("/")], Path(directory))
    return made


def _go() -> str:
    return _need("go", "install Go 1.25 or later")


def _need(name: str, remedy: str) -> str:
    path = shutil.which(name)
    if path is None:
        message = f"{name} is not on the PATH: {remedy}"
        raise MissingComparatorError(message)
    return path


def _place(tools: Path, name: str) -> Path:
    tools.mkdir(parents=True, exist_ok=True)
    return tools.resolve() / name  # compilers run elsewhere


def _run(command: list[str], directory: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=directory, check=False, capture_output=True, text=True, timeout=_BUILD_LIMIT_S, env=environment
    )
    if done.returncode:
        message = f"{' '.join(command)} failed: {done.stderr[-1_000:].strip()}"
        raise MissingComparatorError(message)


_END_LIMIT_S = 10


class Sink(NamedTuple):
    """The sink listens at two HOST:PORT. authority: the PEM file that the one with TLS is to be trusted by."""

    plain: str
    tls: str
    authority: Path


@contextmanager
def sink(tools: Path) -> Iterator[Sink]:
    """Run a sink for the block; raise MissingComparatorError where it cannot be built."""
    program = _own_go("sink", tools, "./sink")
    with tempfile.TemporaryDirectory() as directory:
        made = make_certificates(Path(directory))
        command = machine.on_core([program, "-certificate", made.certificate, "-key", made.key])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                said = process.stdout.readline() if process.stdout else ""
                if not said:
                    message = f"{program} ended with status {process.wait(_END_LIMIT_S)} before it listened"
                    raise RuntimeError(message)
                yield Sink(**json.loads(said), authority=made.authority)
            finally:
                process.kill()  # it holds nothing that would have to be written
