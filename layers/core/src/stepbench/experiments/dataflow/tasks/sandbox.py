"""
A sandbox that runs tasks, or ends executions, and what it keeps between invocations.

Its memory, and its place: trials and their store, its way to table and bucket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepbench.clock import SystemClock
from stepbench.contracts.plan import TrialSpec
from stepbench.drivers.registry import build_blobs
from stepbench.load.process import measuring_runner
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import DagRows
from stepbench.records.storage.receiver_paths import open_bucket, open_table
from stepbench.settings import load_settings
from stepbench.wire.http1.blocking import RetryLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialRef
    from stepbench.drivers.blobs import BlobStore
    from stepbench.drivers.protocol import BuildBlobs
    from stepbench.records.storage.receiver_paths import ReceiverBucket, ReceiverTable
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable
    from stepbench.settings import Settings

    Table = ReceiverTable | TrialTable
    Bucket = ReceiverBucket | RunStore

T = TypeVar("T")
RETRY = RetryLimits(attempts=4, connect_s=3, answer_s=60, whole_s=120)
"""They suffice for a DAG's input of tens of megabytes."""
_SPECS = 8
"""How many trials are remembered: a sandbox may serve several at once, of teams whose stores differ."""
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
        self.id = os.urandom(8).hex()
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


class TaskPlace:
    """
    Made in the init phase, or when first asked for; connects when there is something to read.

    The store stays open between invocations, as functions keep their clients; the loop, too, on which it lives.
    """

    def __init__(
        self, environ: Mapping[str, str], table: Table, bucket: Bucket, build: BuildBlobs = build_blobs
    ) -> None:
        self.environ = environ
        self.rows = DagRows(table)
        self._bucket = bucket
        self._build = build
        self._specs: dict[str, TrialSpec] = {}
        self._store: tuple[str, BlobStore] | None = None
        self._is_open = False

    @cached_property
    def settings(self) -> Settings:
        """Return the stack's."""
        return load_settings(self.environ)

    @cached_property
    def _runner(self) -> asyncio.Runner:
        return measuring_runner()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the sandbox's loop."""
        return self._runner.run(coroutine)

    def trial(self, ref: TrialRef) -> TrialSpec:
        """Return a trial's specification, read once. Raises RecordsUnavailableError."""
        if ref.tag not in self._specs:
            body = self._bucket.get_bytes(layout.trial_key(ref, "trial.json"))
            while len(self._specs) >= _SPECS:
                del self._specs[next(iter(self._specs))]
            self._specs[ref.tag] = TrialSpec.model_validate_json(body)
        return self._specs[ref.tag]

    async def store(self, spec: TrialSpec) -> BlobStore:
        """Return the access to a trial's store, which may be open; that of another trial is closed. On `run`'s loop."""
        if self._store is None or self._store[0] != spec.tag:
            await self.close_store()
            self._store = spec.tag, self._build(spec, self.settings, SystemClock())
        return self._store[1]

    async def open_store(self, spec: TrialSpec) -> BlobStore:
        """Return the access to a trial's store, open. Raises TargetUnavailableError."""
        store = await self.store(spec)
        if not self._is_open:
            await store.open()
            self._is_open = True
        return store

    async def close_store(self) -> None:
        """Close the access, in whatever state it was left; the next one is made anew."""
        kept, self._store, self._is_open = self._store, None, False
        if kept is not None:
            with contextlib.suppress(Exception):  # it is not used again, and nobody is to pay for it
                await kept[1].close()

    def read_kept(self, ref: TrialRef, kept: Kept) -> bytes:
        """Read a DAG's input, or a file of one of its stages. Raises RecordsUnavailableError."""
        dag, stage, file = kept
        return self._bucket.get_bytes(
            layout.dag_file_key(ref, dag, stage, file) if file else layout.dag_input_key(ref, dag)
        )


def open_task_place(environ: Mapping[str, str]) -> TaskPlace:
    """Open the place of a sandbox with the environment of a Lambda function."""
    return TaskPlace(environ, open_table(environ, RETRY), open_bucket(environ, RETRY))
