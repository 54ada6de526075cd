"""Plans whose load comes from a host, and the processes that offer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
from tests.end_to_end.deployment import plan

if TYPE_CHECKING:
    import subprocess

HOST = "stepbench.load_host"


def plan_from_host(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- as `plan`
    """Return a plan of one trial on etcd, with the fields of `plan`."""
    document = plan(name, "etcd", **fields)
    document["trials"] = [{**trial, "load_from": "host"} for trial in document["trials"]]
    return document


def load_hosts(run: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the hosts that a run has started."""
    return [child for child in psutil.Process(run.pid).children() if HOST in child.cmdline()]


def writers_of(host: psutil.Process) -> list[psutil.Process]:
    """Return the writers of a host: its own children are what they are forked from."""
    return [child for child in host.children(recursive=True) if child.ppid() != host.pid]
