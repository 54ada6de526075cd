"""What processes have left of their reads: rows in the bucket, and lines in the log, which are a second source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.transfer.rows import TransferRow, TransferRows
from stepbench.records.formats.transfer_log import parse_transfer_line
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import read_log_lines

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialRef
    from stepbench.records.storage.run_store import RunStore


def read_transfers(ref: TrialRef, runs: RunStore) -> tuple[TransferRow, ...]:
    """
    Return the rows of a trial, of all attempts, by process, attempt and place.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    keys = runs.keys(layout.transfers_prefix(ref))
    return tuple(row for key in keys for row in runs.get_model(key, TransferRows).rows)


def read_logged_transfers(ref: TrialRef, runs: RunStore) -> tuple[dict[str, TransferRow], tuple[str, ...]]:
    """
    Return the trial's lines by the reads' names, and a message for each line that is cut or garbled.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    lines, damaged = read_log_lines(ref, runs, parse_transfer_line)
    return {row.name: row for tag, row in lines if tag == ref.tag}, damaged


def logged_reads(ref: TrialRef, runs: RunStore) -> set[str]:
    """Return the names of the reads of which there is a line."""
    return set(read_logged_transfers(ref, runs)[0])


def first_attempts(rows: tuple[TransferRow, ...]) -> tuple[tuple[TransferRow, ...], int]:
    """
    Return the rows of each process's first attempt that left any, and how many rows other attempts left.

    An attempt may have stored its rows and died before it said so; it is run again then, and read the file twice.
    """
    first: dict[int, int] = {}
    for row in rows:
        first[row.number] = min(row.attempt, first.get(row.number, row.attempt))
    counted = tuple(row for row in rows if row.attempt == first[row.number])
    return counted, len(rows) - len(counted)
