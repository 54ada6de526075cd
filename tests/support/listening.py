"""Where processes listen: a store of the suite is to be reachable on loopback only."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import psutil

from stepbench_tools.local.processes import family

if TYPE_CHECKING:
    from collections.abc import Iterable


def listening_addresses(pids: Iterable[int]) -> set[str]:
    """Return every address where the processes or their descendants accept TCP or have bound UDP, as `host:port`."""
    addresses: set[str] = set()
    for member in family(pids):
        with contextlib.suppress(psutil.NoSuchProcess):
            for link in member.net_connections("inet"):
                if link.laddr and (link.status == psutil.CONN_LISTEN or link.type == socket.SOCK_DGRAM):
                    addresses.add(f"{link.laddr.ip}:{link.laddr.port}")
    return addresses
