"""Column files on their way out: to the bucket, then a pointer in the table, again until both have it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from stepbench.digits import counted
from stepbench.errors import RecordsLostError, RecordsRefusedError, RecordsUnavailableError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import ColumnHeader, PendingRows, encode
from stepbench.records.storage import layout
from stepbench.records.storage.trial_table import FilePointer
from stepbench.stats.histogram import count_times

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

FINAL_TRIES = 5
FINAL_PAUSE_S = 5.0
"""With boto3's own retries in between, an outage of a minute passes."""
MOST_IN_TABLE_BYTES = 380_000
"""An item has 400 KB at most."""


class _File:
    """A file on its way; of its rows only what is encoded is left, once that is done: a fifth, or less."""

    def __init__(self, header: ColumnHeader, rows: PendingRows) -> None:
        self.header = header
        self.size = rows.size
        self.in_bucket = False
        self.service_times: Counter[int] = Counter()
        """Of acknowledged rows, known once the file is encoded."""
        self._content: PendingRows | tuple[FilePointer, bytes] = rows

    def encoded(self, attempt_id: str, matching_share: float) -> tuple[FilePointer, bytes]:
        """Return the pointer and the file; the first call puts them together."""
        if isinstance(self._content, PendingRows):
            rows, header = self._content.rows(), self.header
            key = layout.column_file_key(header.ref, attempt_id, header.flush)
            expected = rows.expected(matching_share)
            pointer = FilePointer(attempt_id, header.flush, key, rows.sequence.size, expected, rows.last_t2_ns)
            self._content = pointer, encode(header, rows)
            self.service_times = count_times((rows.t2_ns - rows.t1_ns)[rows.outcome == Outcome.OK])
        return self._content


class Flusher:
    """
    The column files of one attempt at a trial with this `matching_share`.

    A file that does not go out stays here and is tried again with the next one, and by `finish`; through an outage of
    ten minutes at 3,000 records a second some 15 MB wait.
    """

    def __init__(
        self,
        runs: RunStore,
        table: TrialTable,
        header: ColumnHeader,
        *,
        matching_share: float = 1,
        in_table: bool = False,
    ) -> None:
        """`in_table`: a file that fits into an item is kept in the table, and in the bucket where it is not taken."""
        self._in_table = in_table
        self._runs = runs
        self._table = table
        self._header = header
        self._matching_share = matching_share
        self._id = layout.attempt_id(header.phase, header.writer, header.slice, header.attempt)
        self._flushes = 0
        self._waiting: list[_File] = []
        self.service_times: Counter[int] = Counter()
        """Of all files that were sent, as a histogram; replaced, never changed, since heartbeats read it meanwhile."""
        self._one_at_a_time = threading.Lock()

    def add(
        self,
        rows: PendingRows,
        errors: tuple[str, ...],
        *,
        drift_ns: int | None = None,
        cpu_share: float | None = None,
        last: bool = False,
    ) -> None:
        """Take rows over, at once; no file for no rows, unless it is the last."""
        if rows.size or last:
            end = {"drift_ns": drift_ns, "cpu_share": cpu_share, "last": last}
            header = self._header.model_copy(update={"flush": self._flushes, "errors": errors, **end})
            self._waiting.append(_File(header, rows))
            self._flushes += 1

    def send(self) -> bool:
        """Put together, encode and send what waits; False if some of it waits on. For a thread on the side."""
        with self._one_at_a_time:
            return self._send() is None

    def finish(self, clock: Clock) -> None:
        """
        Send what still waits. A file in the bucket is found without its pointer: then nothing is lost.

        Raises:
            RecordsLostError: it could not be sent in `FINAL_TRIES` tries, or is refused; says how many are lost.
        """
        with self._one_at_a_time:
            error = None
            for number in range(FINAL_TRIES):
                if number:
                    clock.sleep(FINAL_PAUSE_S)
                error = self._send()
                if error is None:
                    return
                if isinstance(error, RecordsRefusedError):
                    break
            lost = [file.size for file in self._waiting if not file.in_bucket]
            if not lost:
                return
            rows = sum(lost)
            message = f"{counted(rows, 'record')} of writer {self._id} could not be stored: {error}"
            raise RecordsLostError(message) from error

    def _kept_in_table(self, file: _File) -> bool:
        """Return whether the table has taken the file itself, which is then on its way no more."""
        pointer, body = file.encoded(self._id, self._matching_share)
        if not self._in_table or len(body) > MOST_IN_TABLE_BYTES:
            return False
        try:
            self._table.add_file(self._header.ref.tag, pointer, body)
        except RecordsUnavailableError:
            return False
        self._waiting.remove(file)
        return True

    def _send(self) -> RecordsUnavailableError | None:
        waiting = list(self._waiting)  # what is added meanwhile waits for the next time
        for file in waiting:
            file.encoded(self._id, self._matching_share)
        try:
            for file in waiting:  # all of them: no file has to wait for another's pointer
                if not file.in_bucket and not self._kept_in_table(file):
                    pointer, body = file.encoded(self._id, self._matching_share)
                    self._runs.put_bytes(pointer.key, body)
                    file.in_bucket = True
            for file in [each for each in waiting if each in self._waiting]:
                pointer, _ = file.encoded(self._id, self._matching_share)
                self._table.add_file(self._header.ref.tag, pointer)
                self._waiting.remove(file)
                self.service_times = self.service_times + file.service_times
        except RecordsUnavailableError as error:
            return error
        return None
