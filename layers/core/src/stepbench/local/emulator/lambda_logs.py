"""
The lines that Lambda writes of an invocation, in whichever emulator it runs.

The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Report(NamedTuple):
    """
    What Lambda reports of an invocation.

    duration_ms: without initialisation. init_ms: of its sandbox; None if that had been there before. memory_mb: the
    function's. peak_mb: the most that its sandbox has held; None where its process has ended, told as all of it.
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
