"""One attempt at one slice in a process of its own, as in a sandbox; forked from one that has imported all this."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from stepbench.contracts.tasks import RunWriterInput
from stepbench.services import stage_handler
from stepbench.stages.run_writer import run_writer


def run_item(task: dict[str, Any], environ: Mapping[str, str], host: Connection) -> None:
    """
    Run the stage, and send the host its output, or `errorType` and `errorMessage`, as Lambda names them.

    The process ends with its host: nobody else would notify the state machine, which starts the item anew.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's, which lets items end
    os.environ.clear()
    os.environ.update(environ)
    threading.Thread(target=_end_with, args=(host,), daemon=True).start()
    host.send(_answer(task))


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"output": stage_handler(run_writer, RunWriterInput)(task, None)}
    except Exception as error:  # noqa: BLE001 -- the state machine gets any error, as from Lambda
        return {"errorType": type(error).__name__, "errorMessage": str(error)}


def _end_with(host: Connection) -> None:
    try:
        host.recv()  # it sends nothing
    except EOFError:
        os.kill(os.getpid(), signal.SIGKILL)
