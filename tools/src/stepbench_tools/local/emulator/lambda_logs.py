"""
The lines that Lambda writes of an invocation, in whichever emulator it runs.

The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
from pathlib import Path
from typing import IO, NamedTuple


class Report(NamedTuple):
    """
    What Lambda reports of an invocation.

    duration_ms: without initialisation. init_ms: of its sandbox; None if that had been there before. memory_mb: the
    function's. peak_mb: the most that its sandbox has held; None where its process has ended, logged as all of it.
    """

    duration_ms: float
    init_ms: float | None
    memory_mb: int
    peak_mb: int | None


def peak_memory_mb(pid: int | None) -> int | None:
    """Return the most memory that a sandbox has held, in MiB; None once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1_024 for line in status.splitlines() if line.startswith("VmHWM:")), None)


def invocation_log(request_id: str, version: str, printed: str, report: Report) -> str:
    """Return an invocation's lines as CloudWatch Logs gets them from Lambda, with what the function has printed."""
    fields = [
        f"REPORT RequestId: {request_id}",
        f"Duration: {report.duration_ms:.2f} ms",
        f"Billed Duration: {int(report.duration_ms) + 1} ms",
        f"Memory Size: {report.memory_mb} MB",
        f"Max Memory Used: {report.memory_mb if report.peak_mb is None else report.peak_mb} MB",
        *([f"Init Duration: {report.init_ms:.2f} ms"] if report.init_ms is not None else []),
    ]
    lines = [f"START RequestId: {request_id} Version: {version}"]
    lines += [*filter(None, printed.split("\n")), f"END RequestId: {request_id}", "\t".join([*fields, ""])]
    return "\n".join(lines)


class Output:
    """
    What a sandbox prints into a pipe, in lines; read by a thread that follows it, and by whoever wants it now.

    On a busy machine the thread comes later than the response, and the lines of a sandbox's last invocation would be
    lost with it.
    """

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._begun = b""

    def follow(self, pipe: IO[bytes], lines: queue.Queue[str]) -> None:
        """Read until the process ends, so that it never waits for a reader; close the pipe."""
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        while ready.poll() and self.read(pipe, lines):
            pass
        with self._reading:
            pipe.close()

    def read(self, pipe: IO[bytes], lines: queue.Queue[str]) -> bool:
        """Read what is in the pipe, and tell whether there may be more; the end of a line may come later."""
        with self._reading, contextlib.suppress(BlockingIOError):
            if pipe.closed:
                return False
            os.set_blocking(pipe.fileno(), False)
            while piece := os.read(pipe.fileno(), 65_536):
                *whole, self._begun = (self._begun + piece).split(b"\n")
                _keep_latest(lines, whole)
            if self._begun:
                _keep_latest(lines, [self._begun])
                self._begun = b""
            return False
        return True


def _keep_latest(lines: queue.Queue[str], whole: list[bytes]) -> None:
    """Add lines to a queue; one that is full loses its oldest."""
    for line in whole:
        with contextlib.suppress(queue.Empty):  # somebody has emptied it meanwhile
            if lines.full():
                lines.get_nowait()
        lines.put_nowait(line.rstrip(b"\r").decode(errors="replace"))
