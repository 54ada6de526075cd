"""From a host's name to a TCP connection: a name is no way round the ban on metadata services."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any

from stepbench.contracts.endpoint import forbidden_address

Found = Sequence[tuple[Any, ...]]
"""As `socket.getaddrinfo` gives it."""


async def find_addresses(host: str, port: int) -> Found:
    """
    A host's addresses; a name is looked up, on a thread.

    Raises:
        OSError: it has none.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def connect_tcp(host: str, port: int, found: Found | None = None) -> socket.socket:
    """
    A non-blocking socket that is connected to one of the host's addresses, tried in order; the caller bounds it.

    Args:
        host: whose.
        port: of TCP.
        found: what `find_addresses` has told, for a caller whose time must not hold that.

    Raises:
        OSError: none of them answers, or may be asked.
    """
    loop = asyncio.get_running_loop()
    problem: OSError | None = None
    for family, _, _, _, address in found or await find_addresses(host, port):
        if reason := forbidden_address(str(address[0])):  # a harmless name may resolve to the metadata service
            problem = ConnectionRefusedError(f"{host} {reason}")
            continue
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            connected.setblocking(False)  # noqa: FBT003 -- the standard library's
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connected, address)
        except OSError as error:
            connected.close()
            problem = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    try:
        raise problem or OSError(f"{host} has no address")
    finally:
        problem = None  # it holds this frame, and the collector that would find the two is off under load


def reset_at_close(connected: socket.socket) -> None:
    """
    Have the connection end by RST, which leaves nothing behind.

    One that we end by FIN stays in TIME_WAIT for a minute, and 28,000 of them are all that may be opened to one port.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
