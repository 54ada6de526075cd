"""A sandbox that runs tasks, and what it remembers between invocations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from stepbench.experiments.transfer.program.surroundings import make_sandbox_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.clock import Clock
    from stepbench.drivers.blobs import BlobStore

AHEAD_NS = 1_000_000_000
"""
A sandbox that waited so long for its first invocation was made ahead, as Lambda does at will: nothing has waited for
it, so its first invocation is no cold start.
"""


class Kept(NamedTuple):
    """What was made or fetched before the load: a DAG's input, or a file of one of its stages."""

    dag: str
    stage: str = ""
    file: str = ""


class Sandbox:
    """
    The memory of one sandbox: made when the handler's module is loaded, as its last statement.

    init_ns: from the import of the handler's module to here. ready_ns: here. opened: the store that its last task has
    left connected. is_spoiled: the computing of a task that was given up goes on in a thread, which nothing can end:
    what runs here from now on is slower, so the process is to end once the task's row is stored.
    """

    def __init__(self, environ: Mapping[str, str], imported_ns: int, ready_ns: int | None = None) -> None:
        self.id = make_sandbox_id()
        self.ready_ns = time.time_ns() if ready_ns is None else ready_ns
        self.init_ns = max(self.ready_ns - imported_ns, 0)
        memory = environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        self.memory_mib = int(memory) if memory.isdecimal() else None
        self.opened: BlobStore | None = None
        self.is_spoiled = False
        self._is_fresh = True
        self._files: dict[tuple[str, Kept], bytes] = {}

    def file(self, tag: str, kept: Kept, read: Callable[[Kept], bytes]) -> bytes:
        """Return a file of a trial, which is read once; those of other trials are forgotten."""
        if (tag, kept) not in self._files:
            self._files = {known: body for known, body in self._files.items() if known[0] == tag}
            self._files[tag, kept] = read(kept)
        return self._files[tag, kept]

    def begin(self, clock: Clock, began_ns: int, request_id: str, attempt: int = 0) -> Invocation:
        """Return an invocation that began at its handler's first statement; the first one may be a cold start."""
        cold, self._is_fresh = self._is_fresh and began_ns - self.ready_ns < AHEAD_NS, False
        return Invocation(self, clock, began_ns, request_id, attempt, cold, time.process_time_ns())


class Invocation(NamedTuple):
    """
    One invocation of a sandbox.

    began_ns: of the handler's first statement. cpu_ns: of the process, by then. attempt: which one it is at its task.
    """

    sandbox: Sandbox
    clock: Clock
    began_ns: int
    request_id: str
    attempt: int
    cold: bool
    cpu_ns: int
