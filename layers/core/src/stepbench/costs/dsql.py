"""
The bill of operations on Aurora DSQL, in distributed processing units (DPU), the unit that it bills.

A statement is a transaction of its own here, so each pays the least that a transaction pays. Compute is the time that
the statement keeps a query processor busy, which no plan can know: the largest of the documentation's examples for one
row stands for it, of which most was planning. What is tried again after a conflict is computed again, and not counted.

Source:
    Aurora DSQL User Guide, "How billing works in Aurora DSQL": formulas, and the examples of EXPLAIN ANALYZE VERBOSE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import DsqlTarget
from stepbench.contracts.workload import Kind
from stepbench.costs import prices
from stepbench.costs.prices import line, operated

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import Workload
    from stepbench.costs.prices import Amount, Offered

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
    if workload is None:  # a trial for triggers, which the store has not
        return ()
    regions = 2 if isinstance(trial.target, DsqlTarget) and trial.target.cluster == "multi" else 1
    count = operated(workload, offered.number) * operation_dpu(workload, regions=regions)
    return (line(prices.DSQL_DPU, count + preloading_dpu(workload, workload.records, regions=regions), MODELLED),)


def operation_dpu(workload: Workload, *, regions: int = 1) -> float:
    """Return the units of the mix's mean operation. `regions`: how many hold the data and bill what is written."""
    mix = workload.mix
    return sum(mix.weights[kind] * _DPU[kind](workload, regions) for kind in sorted(mix.kinds)) / mix.total


def preloading_dpu(workload: Workload, records: int, *, regions: int = 1) -> float:
    """Return the units of `records` rows in large transactions; an insert checks that its key is free, so it reads."""
    written = _row_bytes(workload) * WRITE_DPU_PER_BYTE * regions
    read = max(workload.record.key_bytes, LEAST_ROW_BYTES) * READ_DPU_PER_BYTE
    return records * (written + read + COMPUTE_DPU_PER_LOADED_ROW)


def _row_bytes(workload: Workload) -> int:
    row = workload.record.key_bytes + workload.record.value_bytes + ROW_OVERHEAD_BYTES
    return max(row, LEAST_ROW_BYTES)


def _read(workload: Workload, _regions: int, rows: int = 1) -> float:
    return COMPUTE_DPU + max(rows * _row_bytes(workload), LEAST_READ_BYTES) * READ_DPU_PER_BYTE


def _write(workload: Workload, regions: int) -> float:
    """A write reads first: the row's key where it is new, all of the row where it was there before."""
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
