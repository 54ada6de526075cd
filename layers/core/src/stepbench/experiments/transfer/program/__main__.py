"""
`python -m stepbench.experiments.transfer.program`: what a Fargate task runs, whose item is JSON in TRANSFER_TASK.

It ends with 0 when the rows are stored, whatever became of the reads; on SIGTERM it stores what it has.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from stepbench.contracts.transfer.rows import RunTransferInput
from stepbench.experiments.transfer.program.process import Invocation, Process, Sandbox
from stepbench.experiments.transfer.program.progress import STOPPED
from stepbench.experiments.transfer.program.surroundings import find_task, with_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping


def main(environ: Mapping[str, str]) -> None:
    """
    Run the process that the environment describes.

    Raises:
        RecordsUnavailableError: there are no credentials, or the rows could not be stored.
    """
    task = RunTransferInput.model_validate_json(environ["TRANSFER_TASK"])
    place = find_task(environ)
    invocation = Invocation(Sandbox(with_credentials(environ), place), place.task)
    signal.signal(signal.SIGTERM, lambda *_: invocation.stop(STOPPED))
    Process(task, invocation).run()


if __name__ == "__main__":
    main(os.environ)
