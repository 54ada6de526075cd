"""Which of several processes runs which test, and in which order."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

FAULTS = "tests/faults/"
ONE_PROCESS = ("tests/end_to_end/", "tests/integration/drivers/cassandra/")
"""Modules of these folders share an environment, which takes a minute of a core, and a server that takes 900 MB."""
FOLDERS = ("end_to_end", "integration", "statemachines", "browser", "unit")
"""In this order several processes begin them: first what waits longest, last what is small enough to end together."""


class Modules(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """
    With several processes, a module stays in one, so that its servers are started once.

    Modules that share an environment, or a node of Cassandra, stay together: they wait most of the time, and meanwhile
    the other processes have what computes. Cases of the fault tour are dealt out one by one; each process that meets
    one has an environment of its own for all of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        shared = next((folder for folder in ONE_PROCESS if module.startswith(folder)), module)
        return nodeid if module.startswith(FAULTS) else shared


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Modules:
    """Schedule by module, whatever `--dist` says."""
    return Modules(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """
    Collect without looking for garbage: a third of the time, in each process, and nothing of it is garbage.

    It stays to the end, so that later rounds, of tests that ask for one and of pytest when it ends, pass it over.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests into the order of `FOLDERS`, where several processes share them."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: FOLDERS.index(folder) if (folder := item.nodeid.split("/")[1]) in FOLDERS else -1)
