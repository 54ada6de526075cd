"""Column files on their way out: to the bucket, then a pointer in the table, again until both have it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.columns import ColumnHeader, encode
from stepbench.records.taken import Taken
from stepbench.records.trial_table import FilePointer

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.records.run_store import RunStore
    from stepbench.records.trial_table import TrialTable

FINAL_TRIES = 5
FINAL_PAUSE_S = 1.0


class _File:
    """A file on its way; of its rows only what is encoded is left, once that is done: a fifth, or less."""

    def __init__(self, header: ColumnHeader, taken: Taken) -> None:
        self.header = header
        self.size = taken.size
        self._content: Taken | tuple[FilePointer, bytes] = taken

    def made(self, attempt_id: str, matching_share: float) -> tuple[FilePointer, bytes]:
        """The pointer and the file; put together by the first call."""
        if isinstance(self._content, Taken):
            rows, header = self._content.rows(), self.header
            key = layout.column_file_key(header.ref, attempt_id, header.flush)
            expected = rows.expected(matching_share)
            pointer = FilePointer(attempt_id, header.flush, key, rows.sequence.size, expected, rows.last_t2_ns)
            self._content = pointer, encode(header, rows)
        return self._content


class Flusher:
    """
    The column files of one attempt at a trial with this `matching_share`.

    A file that does not go out stays here and is tried again with the next one, and by `finish`; through an outage of
    ten minutes at 3,000 records a second some 15 MB wait.
    """

    def __init__(self, runs: RunStore, table: TrialTable, header: ColumnHeader, *, matching_share: float = 1) -> None:
        self._runs = runs
        self._table = table
        self._header = header
        self._matching_share = matching_share
        self._id = layout.attempt_id(header.phase, header.writer, header.slice, header.attempt)
        self._flushes = 0
        self._waiting: list[_File] = []
        self._one_at_a_time = threading.Lock()

    def add(
        self,
        taken: Taken,
        errors: tuple[str, ...],
        *,
        drift_ns: int | None = None,
        cpu_share: float | None = None,
        last: bool = False,
    ) -> None:
        """Take rows over, at once; no file for no rows, unless it is the last."""
        if taken.size or last:
            told = {"drift_ns": drift_ns, "cpu_share": cpu_share, "last": last}
            update = {"flush": self._flushes, "errors": errors, **told}
            self._waiting.append(_File(self._header.model_copy(update=update), taken))
            self._flushes += 1

    def send(self) -> bool:
        """Put together, encode and send what waits; False if some of it waits on. For a thread on the side."""
        with self._one_at_a_time:
            return self._send() is None

    def finish(self, clock: Clock) -> None:
        """
        Send what still waits.

        Raises:
            RecordsUnavailableError: it could not be sent in `FINAL_TRIES` tries; says how many records are lost.
        """
        with self._one_at_a_time:
            error = None
            for _ in range(FINAL_TRIES):
                error = self._send()
                if error is None:
                    return
                clock.sleep(FINAL_PAUSE_S)
            rows = sum(file.size for file in self._waiting)
            message = f"{rows} records of writer {self._id} could not be stored: {error}"
            raise RecordsUnavailableError(message) from error

    def _send(self) -> RecordsUnavailableError | None:
        for file in list(self._waiting):
            file.made(self._id, self._matching_share)
        try:
            while self._waiting:
                pointer, body = self._waiting[0].made(self._id, self._matching_share)
                self._runs.put_bytes(pointer.key, body)
                self._table.add_file(self._header.ref.tag, pointer)
                self._waiting.pop(0)
        except RecordsUnavailableError as error:
            return error
        return None
