"""Real servers on loopback, and what all of them have: a name, a version, an endpoint, processes."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from stepbench.errors import LocalEnvironmentError


@dataclass(frozen=True)
class LocalStore:
    """
    The store is a local server that is up.

    Attributes:
        name: as in a target's `store` (`etcd`, `postgresql`).
        version: of the server, as it reports itself, with where it came from ("3.5.1 (wheel)").
        endpoint: what the stack's parameter takes (`host:port`, for PostgreSQL `host:port/database`).
        pids: every process to end, parents first; their children are found when they are ended.
    """

    name: str
    version: str
    endpoint: str
    pids: tuple[int, ...]


def wheel_folder(package: str, product: str) -> Path:
    """
    Return the folder of a wheel's package, which is not imported: that may warn, or bring a client library.

    Raises:
        LocalEnvironmentError: the wheel is not installed.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        message = f"{product} is not installed; pip install 'stepbench[local]'"
        raise LocalEnvironmentError(message)
    return Path(found.origin).resolve().parent
