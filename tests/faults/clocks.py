"""
A clock that somebody sets forward while a process looks at it.

Not by Debian's libfaketime (0.9.10): with the monotonic clock left alone, each `time.sleep` fails with EINVAL there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.cases import COMMAND

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

STEP_NS = 4_000_000_000
"""More than any event of these loads waits."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- sandboxes see it: they have a /tmp of their own
SOURCE = Path(__file__).with_name("stepped_clock.c")


@contextmanager
def steppable(process: str, deployment: Deployment) -> Iterator[tuple[Deployment, Callable[[], None]]]:
    """
    Yield the deployment, whose process has a clock of its own, and what sets that forward by `STEP_NS`.

    Only CLOCK_REALTIME steps, as when somebody sets it. A function gets its old settings back at the end.
    """
    with tempfile.TemporaryDirectory(prefix="stepbench-clock-", dir=SHARED_MEMORY) as folder:
        library, offset = Path(folder, "stepped_clock.so"), Path(folder, "offset")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE], check=True, timeout=60
        )

        def step(by_ns: int = STEP_NS) -> None:
            with offset.open("r+b", buffering=0) as file:  # in place: processes have it mapped
                file.write(by_ns.to_bytes(8, sys.byteorder))

        offset.write_bytes(bytes(8))
        with _given(process, deployment, {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}) as stepped:
            yield stepped, step


@contextmanager
def _given(process: str, deployment: Deployment, variables: dict[str, str]) -> Iterator[Deployment]:
    """Give variables to the command that is to run, or to a function for as long as the context lasts."""
    if process == COMMAND:
        yield replace(deployment, variables={**deployment.variables, **variables})
        return
    client, name = deployment.stack.aws("lambda"), f"{deployment.state.stack}-{process}"
    before = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    client.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, **variables}})
    try:
        yield deployment
    finally:
        client.update_function_configuration(FunctionName=name, Environment={"Variables": before})
