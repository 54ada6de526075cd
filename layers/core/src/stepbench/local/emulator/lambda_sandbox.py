"""
One Lambda sandbox of the embedded run is AWS's runtime client with a lifeline to the emulator.

Run by the interpreter that stands for Lambda's, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from importlib import import_module


def hold_lifeline() -> None:
    """
    End this process when the emulator ends, however it ends: a writer must not outlive it.

    A connection to its Runtime API server that carries nothing costs nothing, and the kernel closes it with the
    emulator. (The parent-death signal would not do: it follows the parent's thread, and the emulator's threads end.)
    """
    host, _, port = os.environ["AWS_LAMBDA_RUNTIME_API"].rpartition(":")
    lifeline = socket.create_connection((host, int(port)))
    threading.Thread(target=_await_end, args=(lifeline,), daemon=True, name="lifeline").start()


def _await_end(lifeline: socket.socket) -> None:
    with lifeline, contextlib.suppress(OSError):  # a reset is an end, too
        lifeline.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serve invocations until the emulator says otherwise."""
    hold_lifeline()
    import_module("awslambdaric.__main__").main(["awslambdaric", os.environ["_HANDLER"]])


if __name__ == "__main__":
    main()
