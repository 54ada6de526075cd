"""
One process: its reads, one after the other, each a row whatever becomes of it; stored once, at the end.

Each read has a thread of its own, so that the one that waits for it can give it up: a read that the kernel holds (of a
file system that has gone away) cannot be ended, and is left alone.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from stepbench.contracts.transfer.rows import TransferRow, TransferRows
from stepbench.errors import RecordsLostError, RecordsUnavailableError
from stepbench.experiments.transfer.program.progress import (
    CANCELLED,
    NO_TIME,
    WRONG_DIGEST,
    Progress,
    is_damage,
    read_error,
)
from stepbench.experiments.transfer.program.sources import BucketAccess, BucketRead, FolderRead
from stepbench.experiments.transfer.program.surroundings import (
    TaskPlace,
    Watcher,
    make_sandbox_id,
    own_address,
    peak_memory_bytes,
)
from stepbench.model.errors import TIMEOUT
from stepbench.records.formats.second_sources import transfer_line
from stepbench.records.storage import layout
from stepbench.records.storage.receiver_paths import (
    bucket_place,
    credentials_of,
    open_bucket,
    open_table,
    region_of,
)
from stepbench.records.storage.t4_store import print_line
from stepbench.wire.http1.blocking import RetryLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.transfer.rows import FileRead, RunTransferInput, TransferOutcome

ROWS_RETRY = RetryLimits(attempts=5, connect_s=3, answer_s=10, whole_s=60)
BEAT_RETRY = RetryLimits(attempts=1, connect_s=1, answer_s=1, whole_s=2)
STORING_S = 30.0
"""A process that has to end at a given time keeps so much of it for its rows."""
_GRACE_S = 1.0
"""A read that was interrupted has so long to end."""


class Read(Protocol):
    """One read of one file, whatever its source."""

    def run(self) -> None:
        """Read it whole; raises what prevented it."""
        ...

    def interrupt(self) -> None:
        """Have `run` end as soon as that is possible."""
        ...


@dataclass
class Sandbox:
    """
    The memory of one sandbox: made when the module is loaded.

    place: of a Fargate task. id: no other has it. served: how many processes it has served.
    """

    environ: Mapping[str, str]
    place: TaskPlace = field(default_factory=TaskPlace)
    id: str = field(default_factory=make_sandbox_id)
    served: int = 0


@dataclass
class Invocation:
    """
    A sandbox that is to run a process.

    task: Lambda's request id, or the task's ARN. ends_s: when it is over, `time.monotonic`; None: nobody ends it.
    messages: what other threads and signal handlers send to the thread that waits: reasons to stop, and reads that have
    ended.
    """

    sandbox: Sandbox
    task: str
    ends_s: float | None = None
    messages: queue.SimpleQueue[Read | str] = field(default_factory=queue.SimpleQueue)

    def stop(self, reason: str) -> None:
        """Have the process end its read, and store what it has."""
        self.messages.put(reason)


class Process:
    """One attempt at one item."""

    def __init__(self, task: RunTransferInput, invocation: Invocation) -> None:
        self._task = task
        self._item = task.item
        self._invocation = invocation
        self._sandbox = invocation.sandbox
        self._messages = invocation.messages
        self._stopped = ""
        self.rows: list[TransferRow] = []

    @property
    def id(self) -> str:
        """Return the attempt's id, as a writer's is spelled."""
        return layout.attempt_id(self._item.phase, self._item.writer, self._item.slice, self._task.attempt)

    def run(self) -> TransferRows:
        """
        Read all files, print each row's line, store the rows.

        Raises:
            RecordsLostError: the rows could not be stored.
        """
        watcher = self._watcher()
        watcher.start()
        try:
            for place, file in enumerate(self._item.reads):
                row = self._row(place, file, *self._outcome(file))
                self.rows.append(row)
                print_line(transfer_line(self._item.ref.tag, row))
        finally:  # also of a process that fails between two reads
            self._sandbox.served += 1
            rows = TransferRows(rows=tuple(self.rows))
            try:
                self._store(rows)
                self._flag_damaged()
            finally:
                watcher.end()  # who clears up waits until the rows are stored
        return rows

    def progress(self) -> dict[str, int]:
        """Return counters for a sign of life."""
        outcomes = [row.outcome for row in self.rows]
        counts = {name: outcomes.count(name) for name in ("ok", "failed", "unknown")}
        return {"sent": len(outcomes), **counts, "planned": len(self._item.reads)}

    def _watcher(self) -> Watcher:
        table = open_table(self._sandbox.environ, BEAT_RETRY)
        cancel: Callable[[], None] = lambda: self._invocation.stop(CANCELLED)  # noqa: E731
        return Watcher(table, self._item.ref.tag, f"writer#{self.id}", self.progress, cancel)

    def _store(self, rows: TransferRows) -> None:
        key = layout.transfer_key(self._item.ref, self._item.writer, self._task.attempt)
        try:
            bucket = open_bucket(self._sandbox.environ, ROWS_RETRY)
            bucket.put_bytes(key, rows.model_dump_json().encode(), "application/json")
        except RecordsUnavailableError as error:
            raise RecordsLostError(str(error)) from error

    def _flag_damaged(self) -> None:
        """Have `SeedFiles` make anew what was read wrong. A table that does not answer costs no row."""
        damaged = {(row.source, row.path): row.error for row in self.rows if is_damage(row.error)}
        with suppress(RecordsUnavailableError):
            for (source, path), error in damaged.items():
                endpoint = self._item.endpoint if source == "s3" else ""
                table = open_table(self._sandbox.environ, BEAT_RETRY)
                table.set_flag(layout.FILES, layout.damaged_flag(source, endpoint, path), error)

    def _outcome(self, file: FileRead) -> tuple[Progress, TransferOutcome, str]:
        """Read a file; return how far that has come, and what became of it."""
        progress = Progress()
        try:
            read = self._build(file, progress)
        except (OSError, ValueError, KeyError) as error:  # no such authorities, no such URL
            return progress, "failed", read_error(error, connected=True)
        errors: list[Exception] = []

        def run() -> None:
            try:
                read.run()
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is the read's result
                errors.append(error)
            self._messages.put(read)

        reader = threading.Thread(target=run, name="reader", daemon=True)
        given_up = self._hear() or self._await(reader, read)
        if given_up:  # its thread may go on
            return progress.given_up(), "failed" if given_up == TIMEOUT else "unknown", given_up
        if errors:
            connected = file.source == "efs" or progress.connect_ns is not None
            return progress, "failed", read_error(errors[0], connected=connected)
        return (progress, "ok", "") if progress.digest == file.digest else (progress, "failed", WRONG_DIGEST)

    def _hear(self) -> str:
        """Return why the process has to stop; "" if it has not."""
        while not self._messages.empty():
            message = self._messages.get()
            if isinstance(message, str):
                self._stopped = message
        return self._stopped

    def _await(self, reader: threading.Thread, read: Read) -> str:
        """Return "" when the read has ended by itself, or else why it was given up."""
        until_s, reason_at_end = self._until_s()
        reader.start()
        reason = ""
        while not reason:
            try:
                message = self._messages.get(timeout=max(until_s - time.monotonic(), 0.001))
            except queue.Empty:
                reason = reason_at_end
                continue
            if message is read:
                return ""
            if isinstance(message, str):
                reason = self._stopped = message
        if reason == NO_TIME:
            self._stopped = reason
        read.interrupt()
        reader.join(_GRACE_S)
        return reason

    def _until_s(self) -> tuple[float, str]:
        """Return when the next read has to be over, and what it is given up for then."""
        limit_s, ends_s = time.monotonic() + self._item.limit_s, self._invocation.ends_s
        if ends_s is not None and ends_s - STORING_S < limit_s:
            return ends_s - STORING_S, NO_TIME
        return limit_s, TIMEOUT

    def _build(self, file: FileRead, progress: Progress) -> Read:
        item, environ = self._item, self._sandbox.environ
        if file.source == "efs":
            return FolderRead(environ.get("FILES_FOLDER", ""), file, item.block_bytes, progress)
        place = bucket_place(item.bucket, environ, item.endpoint)
        access = BucketAccess(place, region_of(environ), credentials_of(environ), environ.get("AWS_CA_BUNDLE"))
        return BucketRead(access, file, item.connections, item.block_bytes, progress)

    def _row(self, place: int, file: FileRead, progress: Progress, outcome: TransferOutcome, error: str) -> TransferRow:
        item, sandbox = self._item, self._sandbox
        return TransferRow(
            run_id=item.ref.run_id,
            trial=item.ref.trial,
            number=item.writer,
            attempt=self._task.attempt,
            place=place,
            due_at_ns=item.due_ns,
            began_at_ns=progress.began_at_ns,
            platform=item.platform,
            source=file.source,
            path=file.path,
            file_bytes=file.file_bytes,
            received_bytes=progress.received_bytes,
            connect_ns=progress.connect_ns,
            first_byte_ns=progress.first_byte_ns,
            transfer_ns=progress.transfer_ns,
            mib_ns=progress.mib_ns,
            digest_ok=progress.digest == file.digest if progress.is_done else None,
            digest_ns=progress.digest_ns,
            cpu_ns=progress.cpu_ns,
            sandbox=sandbox.id,
            served=sandbox.served,
            cold=sandbox.served == 0,
            cached_share=progress.cached_share,
            task=self._invocation.task,
            zone=sandbox.place.zone,
            network_interface=progress.own_address or own_address(),
            memory_bytes=peak_memory_bytes(),
            outcome=outcome,
            error=error,
        )
