"""
When bytes came in, by the kernel's own word: what a process needs to wake up and fetch them is not in it.

It begins a moment after the first socket has asked; until then there is no stamp. Linux only.
"""

from __future__ import annotations

import socket
import struct

_SO_TIMESTAMPNS = 35
"""Python has no name for it; the number is the same on every architecture of Lambda and Fargate."""
_TIMESPEC = struct.Struct("@ll")
_STAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)


def ask_for_stamps(of: socket.socket) -> None:
    """Have what comes in stamped; what a listening socket accepts has that from it."""
    of.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def receive_stamped(connected: socket.socket, most_bytes: int) -> tuple[bytes, int | None]:
    """
    Receive, and return when the last of the bytes came in, ns since the epoch by CLOCK_REALTIME, if the kernel says.

    Source:
        Linux, Documentation/networking/timestamping.rst, section 1.1 (SO_TIMESTAMPNS; for TCP, of the last byte read).
    """
    data, ancillary, _, _ = connected.recvmsg(most_bytes, _STAMP_SPACE)
    for level, kind, stamp in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
            return data, int(seconds * 1_000_000_000 + nanoseconds)
    return data, None
