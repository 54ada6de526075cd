"""
What operations cost on Aurora DSQL, in distributed processing units (DPU), the unit that it bills.

A statement is a transaction of its own here, so each pays the least that a transaction pays. Compute is the time that
the statement keeps a query processor busy, which no plan can know: the largest of the documentation's examples for one
row stands for it, of which most was planning. What is tried again after a conflict is computed again, and not counted.

Source:
    Aurora DSQL User Guide, "How billing works in Aurora DSQL": formulas, and the examples of EXPLAIN ANALYZE VERBOSE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.workload import Workload

WRITE_DPU_PER_BYTE, LEAST_WRITTEN_BYTES, LEAST_ROW_BYTES = 0.00004883, 1_024, 128
READ_DPU_PER_BYTE, LEAST_READ_BYTES = 0.00000183105, 2_048
COMPUTE_DPU = 0.01607
"""Of one statement: 16 ms."""
COMPUTE_DPU_PER_LOADED_ROW = 0.0008
"""Of a row among many in one INSERT: the documentation's 100 rows take 80 ms."""
ROW_OVERHEAD_BYTES = 40
"""A time stamp and the columns' headers, generously."""


def operation_dpu(workload: Workload, *, regions: int = 1) -> float:
    """Of the mean operation of the mix. `regions`: in which the data is, all of which bill what is written."""
    weights = zip(Kind, workload.mix.weights, strict=True)
    return sum(weight * _DPU[kind](workload, regions) for kind, weight in weights) / workload.mix.total


def preloading_dpu(workload: Workload, records: int, *, regions: int = 1) -> float:
    """Of `records` rows in transactions of many; an insert checks that the key is not there, so it reads, too."""
    written = _row_bytes(workload) * WRITE_DPU_PER_BYTE * regions
    read = max(workload.record.key_bytes, LEAST_ROW_BYTES) * READ_DPU_PER_BYTE
    return records * (written + read + COMPUTE_DPU_PER_LOADED_ROW)


def _row_bytes(workload: Workload) -> int:
    row = workload.record.key_bytes + workload.record.value_bytes + ROW_OVERHEAD_BYTES
    return max(row, LEAST_ROW_BYTES)


def _read(workload: Workload, _regions: int, rows: int = 1) -> float:
    return COMPUTE_DPU + max(rows * _row_bytes(workload), LEAST_READ_BYTES) * READ_DPU_PER_BYTE


def _write(workload: Workload, regions: int) -> float:
    """Whether the row was there before or not: its key, or all of it, is read first."""
    written = max(_row_bytes(workload), LEAST_WRITTEN_BYTES) * WRITE_DPU_PER_BYTE
    return _read(workload, regions) + written * regions


def _read_and_write(workload: Workload, regions: int) -> float:
    return _read(workload, regions) + _write(workload, regions)


def _scan(workload: Workload, regions: int) -> float:
    return _read(workload, regions, workload.scan_rows)


_DPU: dict[Kind, Callable[[Workload, int], float]] = {
    Kind.READ: _read,
    Kind.INSERT: _write,
    Kind.OVERWRITE: _write,
    Kind.UPDATE: _write,
    Kind.READ_MODIFY_WRITE: _read_and_write,
    Kind.SCAN: _scan,
}
