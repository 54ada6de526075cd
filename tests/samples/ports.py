"""Ports on loopback where nobody answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

UNSERVED_PORT = 1
"""Only root may serve there, and nobody does: connections are refused."""


@contextmanager
def silent_port(port: int = 0) -> Iterator[int]:
    """
    Yield a port (0: one that the kernel chooses) at which connections are refused.

    It is bound, and nobody listens: a port that is only free at the moment may be another process's in the next.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
        yield int(held.getsockname()[1])
