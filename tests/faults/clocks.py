"""A clock that somebody sets forward while a process looks at it, by libfaketime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.cases import COMMAND

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

STEP_S = 4
"""More than any event of these loads waits."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- a folder that sandboxes see: they have a /tmp of their own
LIBRARIES = "*/faketime/libfaketimeMT.so.1"


@contextmanager
def steppable(process: str, deployment: Deployment) -> Iterator[tuple[Deployment, Callable[[], None]]]:
    """
    Yield the deployment, whose process has a clock of its own, and what sets that forward by `STEP_S`.

    Only CLOCK_REALTIME steps, as when somebody sets it; the function gets its old settings back at the end.
    """
    (library,) = Path("/usr/lib").glob(LIBRARIES)  # Debian's `faketime`, which `make test-faults` installs
    with tempfile.TemporaryDirectory(prefix="stepbench-clock-", dir=SHARED_MEMORY) as folder:
        Path(folder).chmod(0o755)
        offset = Path(folder, "offset")
        offset.write_text("+0")
        variables = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        with _given(process, deployment, variables) as stepped:
            yield stepped, lambda: _write(offset, f"+{STEP_S}")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


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
