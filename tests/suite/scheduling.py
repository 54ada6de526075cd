"""Which of several processes runs which test, and in which order."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

ROOT = Path(__file__).parents[2]
FAULTS = "tests/faults/"
ONE_PROCESS = "tests/integration/drivers/cassandra/"
"""Its modules share a server that takes 900 MB, and some 20 s to start."""
WHOLE_SYSTEM = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/end_to_end").glob("test_*.py"))
ENVIRONMENTS = 2
SWAPPED = {"tests/end_to_end/test_load_host.py", "tests/end_to_end/test_main_job.py"}
"""Of modules dealt out in turns to environments, these change places: then all environments take about as long."""
FOLDERS = ("end_to_end", "integration", "statemachines", "browser", "unit")
"""In this order several processes begin them: first what waits longest, last what is small enough to end together."""


class Modules(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """
    With several processes, a module stays in one, so that its servers are started once.

    Modules of the whole system stay together in as many processes as there are to be environments, every second one in
    the same: they wait most of the time, and meanwhile the other processes have what computes. Cases of the fault tour
    are dealt out one by one; each process that meets one has an environment of its own for all of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module.startswith(ONE_PROCESS):
            return ONE_PROCESS
        if module in WHOLE_SYSTEM:
            return f"environment {(WHOLE_SYSTEM.index(module) + (module in SWAPPED)) % ENVIRONMENTS}"
        return nodeid if module.startswith(FAULTS) else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Modules:
    """Schedule by module, whatever `--dist` says."""
    return Modules(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: a third of the time, in each process, and nothing of it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests into the order of `FOLDERS`, where several processes share them."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: FOLDERS.index(folder) if (folder := item.nodeid.split("/")[1]) in FOLDERS else -1)
