"""
An SNTP server on loopback, so that sandboxes measure their clocks here as they do on AWS.

On one machine all clocks are one, so every offset is nothing but the error of the measurement: a check on it.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import TYPE_CHECKING

from stepbench.clock import SystemClock, measure_offset, sntp_answer
from stepbench_tools.local.processes import LOOPBACK, free_port, spawn, wait_for_start

if TYPE_CHECKING:
    from pathlib import Path


def start_clock_reference(logs: Path) -> tuple[int, str]:
    """
    Start the server.

    Returns:
        Its pid and its address, as the stack's parameter `ClockReference` takes it.

    Raises:
        LocalEnvironmentError: it does not answer.
    """
    port = free_port()
    reference = f"{LOOPBACK}:{port}"
    log = logs / "clock-reference.log"
    pid = spawn([sys.executable, "-m", __name__, str(port)], log=log)
    wait_for_start(
        f"the clock reference answers at {reference}",
        lambda: measure_offset(reference, SystemClock()) is not None,
        timeout_s=20,
        pid=pid,
        log=log,
    )
    return pid, reference


def serve(server: socket.socket) -> None:
    """Answer one client after the other until the process ends."""
    while True:
        packet, client = server.recvfrom(512)
        received_ns = time.time_ns()
        reply = sntp_answer(packet, received_ns, time.time_ns())
        if reply is not None:
            server.sendto(reply, client)


def main(arguments: list[str]) -> None:
    """Serve on the loopback port that is the only argument."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LOOPBACK, int(arguments[0])))
        serve(server)


if __name__ == "__main__":
    main(sys.argv[1:])
