"""What one execution used, as far as it is paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.dataflow.prices import ExecutionUse

if TYPE_CHECKING:
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks

NS_PER_S = 1e9


def execution_use(execution: Execution, tasks: ExecutionTasks) -> ExecutionUse:
    """Return what one execution used; requests of transfers that failed count, too."""
    rows = list(tasks.rows)
    blobs = [blob for row in rows for blob in row.blobs]
    return ExecutionUse(
        latency_s=(execution.t4_ns - execution.t0_ns) / NS_PER_S,
        task_s=sum(row.ended_ns - row.began_ns for row in rows) / NS_PER_S,
        end_s=execution.end.delete_ns / NS_PER_S if execution.end is not None else 0.0,
        attempts=len(tasks.attempts) + tasks.made_again,
        tasks=len(tasks.attempts),
        levels=len(execution.dag.levels),
        puts=sum(blob.requests for blob in blobs if blob.operation == "put"),
        gets=sum(blob.requests for blob in blobs if blob.operation == "get"),
        moved_bytes=sum(blob.blob_bytes for blob in blobs),
    )
