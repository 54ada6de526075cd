"""
`python -m stepbench.load_host.item`: one attempt at one slice, in a process of its own, as in a sandbox.

Standard input: `RunWriterInput` as one line of JSON, and nothing more for as long as the host lives: at its end this
process ends, too. Standard output: the stage's output, or `errorType` and `errorMessage`, as Lambda names them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from stepbench.contracts.tasks import RunWriterInput
from stepbench.stages.run_writer import run_writer
from stepbench.stages.services import stage_handler


def main() -> None:
    """Run the stage, and say what came of it."""
    task = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_host, daemon=True).start()
    sys.stdout.write(f"{json.dumps(_answer(task))}\n")


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"output": stage_handler(run_writer, RunWriterInput)(task, None)}
    except Exception as error:  # noqa: BLE001 -- whatever it is, the state machine is told, as by Lambda
        return {"errorType": type(error).__name__, "errorMessage": str(error)}


def _end_with_host() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
