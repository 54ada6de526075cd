"""
Runs the program of `transfer` once for each task of a file, a line each, as a Fargate task would be started for it.

    python -m stepbench_tools.calibration.reference_bucket.reader TASKS

Each run has a sandbox of its own. To start a process for each would take longer than most of the transfers.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from stepbench.experiments.transfer.program.__main__ import main as run_program


def main(tasks: Path) -> None:
    """
    Run them one after the other; the environment says where the bucket is.

    The program's lines are for a log group, which is not read here: what is left to print is what ended it.
    """
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        for task in tasks.read_text(encoding="utf-8").splitlines():
            run_program({**os.environ, "TRANSFER_TASK": task})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
