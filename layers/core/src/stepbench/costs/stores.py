"""
The bills of Aurora PostgreSQL, Aurora DSQL and ElastiCache Serverless, each in the units that it bills.

Aurora bills I/O requests: each page of 8 KB that is not in memory, and each 4 KB of log. Here no leaf of an index and
no row ever is in memory, and no two commits share their log; an index's pages above its leaves are in memory. What the
server does by itself (vacuum, checkpoints of an index that splits) is not counted.

DSQL bills distributed processing units (DPU). A statement is a transaction of its own here, so each pays the least that
a transaction pays. Compute is the time that the statement keeps a query processor busy, which no plan can know: the
largest of the documentation's examples for one row stands for it, of which most was planning. What is tried again after
a conflict is computed again, and not counted. A cluster that no statement is sent to, and that holds no row, bills
nothing, nor does its creation.

ElastiCache Serverless bills ECPUs: a kilobyte read or written, and commands that take more time than GET and SET cost
in proportion.

Source:
    AWS Database Blog, "Planning I/O in Amazon Aurora"; Aurora DSQL User Guide, "How billing works in Aurora DSQL":
    formulas, and the examples of EXPLAIN ANALYZE VERBOSE; Amazon ElastiCache pricing, "ElastiCache Serverless".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.target import DsqlTarget, RedisTarget
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
        size = trial.record.key_bytes + math.ceil(trial.record.mean_value_bytes)
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


WRITE_DPU_PER_BYTE, LEAST_WRITTEN_BYTES, LEAST_ROW_BYTES = 0.00004883, 1_024, 128
READ_DPU_PER_BYTE, LEAST_READ_BYTES = 0.00000183105, 2_048
COMPUTE_DPU = 0.01607
"""One statement's compute: 16 ms."""
COMPUTE_DPU_PER_LOADED_ROW = 0.0008
"""Compute of a row among many in one INSERT: the documentation's 100 rows take 80 ms."""
MODELLED = "by size; compute as in the documentation's example, of which most is planning"
ROW_OVERHEAD_BYTES = 40
"""A time stamp and the columns' headers, generously."""


def dsql_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """
    Return the bill of a trial that offers so many operations, what is preloaded included.

    Everything that the store does is billed in one unit; peers bill what is written once more.
    """
    workload = trial.workload
    if workload is None or workload.record.shape == "cluster":  # triggers, which it has not; clusters without rows
        return ()
    regions = 2 if isinstance(trial.target, DsqlTarget) and trial.target.cluster == "multi" else 1
    count = operated(workload, offered.number) * operation_dpu(workload, regions=regions)
    return (line(prices.DSQL_DPU, count + preloading_dpu(workload, workload.records, regions=regions), MODELLED),)


def operation_dpu(workload: Workload, *, regions: int = 1) -> float:
    """Return the units of the mix's mean operation. `regions`: how many hold the data and bill what is written."""
    mix = workload.mix
    return sum(mix.weights[kind] * _dpu(kind, workload, regions) for kind in sorted(mix.kinds)) / mix.total


def preloading_dpu(workload: Workload, records: int, *, regions: int = 1) -> float:
    """Return the units of `records` rows in large transactions; an insert checks that its key is free, so it reads."""
    written = _row_bytes(workload) * WRITE_DPU_PER_BYTE * regions
    read = max(workload.record.key_bytes, LEAST_ROW_BYTES) * READ_DPU_PER_BYTE
    return records * (written + read + COMPUTE_DPU_PER_LOADED_ROW)


def _row_bytes(workload: Workload) -> int:
    row = workload.record.key_bytes + workload.record.value_bytes + ROW_OVERHEAD_BYTES
    return max(row, LEAST_ROW_BYTES)


def _dpu(kind: Kind, workload: Workload, regions: int) -> float:
    """Return an operation's units. A write reads first: the row's key where it is new, or all of the row."""
    rows = workload.scan_rows if kind is Kind.SCAN else 1
    read = COMPUTE_DPU + max(rows * _row_bytes(workload), LEAST_READ_BYTES) * READ_DPU_PER_BYTE
    written = max(_row_bytes(workload), LEAST_WRITTEN_BYTES) * WRITE_DPU_PER_BYTE
    if kind is Kind.READ_MODIFY_WRITE:
        return read + (read + written * regions)
    return read + written * regions if kind in WRITES else read


ECPU_BYTES, ECPU_OF_PRODUCT = 1_024, 12
"""HSET and HGETALL of 12 fields are taken for 12 commands."""
CONNECTING_ECPU = 3
"""HELLO, a password, and one to spare: of each connection, with an answer of less than a kilobyte each."""
REMOVING_ECPU = 2
"""The units of each record's SCAN and UNLINK at the end."""


def elasticache_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """
    Return the bill of a trial that offers so many operations, what is preloaded included.

    A cluster behind TLS may be ElastiCache Serverless, which no plan shows; all others bill by the hour.
    """
    target, workload = trial.target, trial.workload
    if workload is None or not (isinstance(target, RedisTarget) and target.cluster and target.tls):
        return ()
    preloaded = workload.records * (_command_ecpus(workload) + REMOVING_ECPU)
    ecpus = operated(workload, offered.number) * _operation_ecpus(workload) + preloaded
    return (line(prices.ELASTICACHE_ECPU, ecpus, "by size and number of commands"),)


def _operation_ecpus(workload: Workload) -> float:
    """Return the units of an operation, on average and at most, with what removes the record later."""
    commands = share(workload, (*READS, *WRITES))
    connecting = 0 if workload.reuse else CONNECTING_ECPU
    return commands * _command_ecpus(workload) + connecting + REMOVING_ECPU


def _command_ecpus(workload: Workload) -> float:
    least = 1 if workload.record.shape == "blob" else ECPU_OF_PRODUCT
    return max(least, record_bytes(workload) / ECPU_BYTES)
