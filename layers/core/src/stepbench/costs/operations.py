"""
What an operation takes of what stores bill by: DynamoDB's units, Aurora's I/O requests, ElastiCache Serverless's ECPUs.

Shares of the mix are taken as they stand in the plan; that a plan's estimate holds comes from the number of operations,
which in closed loop is far above what a store will take.

Aurora bills each page of 8 KB that is not in memory, and each 4 KB of log. Here no leaf of an index and no row ever is
in memory, and no two commits share their log; an index's pages above its leaves are in memory. What the server does by
itself (vacuum, checkpoints of an index that splits) is not counted.

Source:
    Amazon DynamoDB Developer Guide, "DynamoDB read and write operations"; AWS Database Blog, "Planning I/O in Amazon
    Aurora"; Amazon ElastiCache pricing, "ElastiCache Serverless": an ECPU is a kilobyte read or written, and commands
    that take more time than GET and SET cost in proportion.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from stepbench.contracts.workload import Workload

BLOB_NAMES_BYTES, PRODUCT_NAMES_BYTES = 20, 150
"""DynamoDB bills names of attributes too."""
READ_BYTES, WRITE_BYTES = 4_096, 1_024
PAGE_BYTES, LOG_BYTES = 8_192, 4_096
LOG_OVERHEAD_BYTES = 500
"""Headers, the index's entry, the commit."""
OUT_OF_LINE_BYTES, CHUNKS_PER_PAGE_BYTES = 2_000, 7_984
"""PostgreSQL keeps larger values in a second table, in chunks of 1,996 bytes, four a page, with an index of its own."""
INDEX_ENTRY_BYTES = 32
"""Beside the key."""
ECPU_BYTES, ECPU_OF_PRODUCT = 1_024, 12
"""HSET and HGETALL of 12 fields are taken for 12 commands."""
CONNECTING_ECPU = 3
"""HELLO, a password, and one to spare: of each connection, with an answer of less than a kilobyte each."""
REMOVING_ECPU = 2
"""Of each record at the end, SCAN and UNLINK."""
EVENTUALLY_CONSISTENT = 0.5
_READS = (Kind.READ, Kind.READ_MODIFY_WRITE)
_REWRITES = (Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
_WRITES = (Kind.INSERT, *_REWRITES)


def record_bytes(workload: Workload) -> int:
    """A record as it is stored, names of attributes included."""
    names = BLOB_NAMES_BYTES if workload.record.shape == "blob" else PRODUCT_NAMES_BYTES
    return workload.record.key_bytes + workload.record.value_bytes + names


def read_units(workload: Workload) -> float:
    """DynamoDB's read units of an operation, on average; reads are eventually consistent."""
    return _share(workload, _READS) * math.ceil(record_bytes(workload) / READ_BYTES) * EVENTUALLY_CONSISTENT


def write_units(workload: Workload) -> float:
    """DynamoDB's write units of an operation, on average: an update is billed as the whole item."""
    return _share(workload, _WRITES) * units_of_record(workload)


def units_of_record(workload: Workload) -> int:
    """DynamoDB's write units of one record's insertion."""
    return math.ceil(record_bytes(workload) / WRITE_BYTES)


def io_requests(workload: Workload) -> float:
    """Aurora's I/O requests of an operation, on average and at most."""
    size = record_bytes(workload)
    read, written = _share(workload, _READS), _share(workload, _WRITES)
    scanned = _share(workload, (Kind.SCAN,)) * _scanned_pages(workload)
    return read * read_requests(size) + written * write_requests(size) + scanned


def read_requests(size: int) -> int:
    """Aurora's I/O requests of a row of so many bytes that is read: the index's leaf, and where the row is."""
    return 1 + _row_pages(size)


def write_requests(size: int) -> int:
    """Aurora's I/O requests of a row that is written: what is read to find its place, and the log."""
    return read_requests(size) + math.ceil((size + LOG_OVERHEAD_BYTES) / LOG_BYTES)


def ecpus(workload: Workload) -> float:
    """ElastiCache Serverless's units of an operation, on average and at most, with what removes the record later."""
    commands = _share(workload, (*_READS, *_WRITES))
    connecting = 0 if workload.reuse else CONNECTING_ECPU
    return commands * _ecpus_of_command(workload) + connecting + REMOVING_ECPU


def ecpus_of_record(workload: Workload) -> float:
    """The same of a record that is preloaded."""
    return _ecpus_of_command(workload) + REMOVING_ECPU


def _ecpus_of_command(workload: Workload) -> float:
    least = 1 if workload.record.shape == "blob" else ECPU_OF_PRODUCT
    return max(least, record_bytes(workload) / ECPU_BYTES)


def _row_pages(size: int) -> int:
    """One; of a value out of line also its index's leaf and its chunks, which may begin in the middle of a page."""
    return 1 if size <= OUT_OF_LINE_BYTES else 3 + math.ceil(size / CHUNKS_PER_PAGE_BYTES)


def _scanned_pages(workload: Workload) -> int:
    """Leaves side by side; rows, too, where all were written in the order of keys; else each on a page of its own."""
    size, rows = record_bytes(workload), workload.scan_rows
    leaves = 1 + math.ceil(rows * (workload.record.key_bytes + INDEX_ENTRY_BYTES) / PAGE_BYTES)
    as_written = workload.key_order == "ordered" and not _share(workload, _REWRITES)
    if as_written and size <= OUT_OF_LINE_BYTES:
        return leaves + 1 + math.ceil(rows * size / PAGE_BYTES)
    return leaves + rows * _row_pages(size)


def _share(workload: Workload, kinds: tuple[Kind, ...]) -> float:
    """Operations of these kinds; one that is named twice counts twice."""
    return sum(workload.mix.weights[kind] for kind in kinds) / workload.mix.total
