"""
The bill of a trial on Aurora PostgreSQL, in I/O requests.

Aurora bills each page of 8 KB that is not in memory, and each 4 KB of log. Here no leaf of an index and no row ever is
in memory, and no two commits share their log; an index's pages above its leaves are in memory. What the server does by
itself (vacuum, checkpoints of an index that splits) is not counted.

Source:
    AWS Database Blog, "Planning I/O in Amazon Aurora".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.costs import prices
from stepbench.costs.prices import READS, REWRITES, WRITES, line, operated, record_bytes, share

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import Workload
    from stepbench.costs.prices import Amount, Offered

PAGE_BYTES, LOG_BYTES = 8_192, 4_096
LOG_OVERHEAD_BYTES = 500
"""Headers, the index's entry, the commit."""
OUT_OF_LINE_BYTES, CHUNKS_PER_PAGE_BYTES = 2_000, 7_984
"""PostgreSQL keeps larger values in a second table, in chunks of 1,996 bytes, four a page, with an index of its own."""
INDEX_ENTRY_BYTES = 32
"""Beside the key."""


def aurora_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """Return the bill of a trial that offers so many writes or operations, what is preloaded included."""
    return (line(prices.AURORA_IO, _requests(trial, offered), "at most: as if no row were in memory"),)


def _requests(trial: TrialPlan, offered: Offered) -> float:
    workload = trial.workload
    if workload is None:
        size = trial.record.key_bytes + trial.record.value_bytes
        return (offered.number + offered.canaries) * _write_requests(size)
    preloaded = workload.records * _write_requests(record_bytes(workload))
    return operated(workload, offered.number) * _operation_requests(workload) + preloaded


def _operation_requests(workload: Workload) -> float:
    """Return the I/O requests of an operation, on average and at most."""
    size = record_bytes(workload)
    read, written = share(workload, READS), share(workload, WRITES)
    scanned = share(workload, (Kind.SCAN,)) * _scanned_pages(workload)
    return read * _read_requests(size) + written * _write_requests(size) + scanned


def _read_requests(size: int) -> int:
    """Return the requests of a row of so many bytes that is read: the index's leaf, and where the row is."""
    return 1 + _row_pages(size)


def _write_requests(size: int) -> int:
    """Return the requests of a row that is written: what is read to find its place, and the log."""
    return _read_requests(size) + math.ceil((size + LOG_OVERHEAD_BYTES) / LOG_BYTES)


def _row_pages(size: int) -> int:
    """A row takes one; a value out of line also its index's leaf and its chunks, which may begin within a page."""
    return 1 if size <= OUT_OF_LINE_BYTES else 3 + math.ceil(size / CHUNKS_PER_PAGE_BYTES)


def _scanned_pages(workload: Workload) -> int:
    """Leaves lie side by side; so do rows if all were written in the order of keys, else each has its own page."""
    size, rows = record_bytes(workload), workload.scan_rows
    leaves = 1 + math.ceil(rows * (workload.record.key_bytes + INDEX_ENTRY_BYTES) / PAGE_BYTES)
    as_written = workload.key_order == "ordered" and not share(workload, REWRITES)
    if as_written and size <= OUT_OF_LINE_BYTES:
        return leaves + 1 + math.ceil(rows * size / PAGE_BYTES)
    return leaves + rows * _row_pages(size)
