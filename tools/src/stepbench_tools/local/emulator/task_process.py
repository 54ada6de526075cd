"""
One task of the embedded run is a process beside this one, which ends it when it is asked to, or when the emulator ends.

Run as `python -P task_process.py STOP_TIMEOUT_S COMMAND…` by the interpreter that stands for Lambda's, so it imports
nothing of ours. Its standard input is the lifeline: nothing is ever written to it, and the kernel closes it with the
emulator, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from typing import Any

_PR_SET_PDEATHSIG = 1


def run(command: list[str], stop_timeout_s: float) -> int:
    """
    Run a command to its end.

    Args:
        command: program and arguments; what it becomes by `exec` counts as the same.
        stop_timeout_s: so long it may go on after SIGTERM, which is passed on to it.

    Returns:
        Its exit code as a container has it: 128 and the signal's number where a signal ended it.
    """
    libc = ctypes.CDLL(None)

    def end_with_its_keeper() -> None:  # the signal follows the thread that starts the process: this, the only one yet
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=end_with_its_keeper)  # noqa: PLW1509, S603 -- see there

    def stop(*_: Any) -> None:  # noqa: ANN401 -- as `signal` calls it
        child.terminate()
        timer = threading.Timer(stop_timeout_s, child.kill)
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_await_end, args=(child,), daemon=True, name="lifeline").start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _await_end(child: subprocess.Popen[bytes]) -> None:
    os.read(sys.stdin.fileno(), 1)
    child.kill()


if __name__ == "__main__":
    sys.exit(run(sys.argv[2:], float(sys.argv[1])))
