"""Data of the charts of DAGs: one execution's tasks over time, and what the store was given over time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.report import DataflowBin, Gantt, GanttRow, GanttSpan
from stepbench.experiments.dataflow.analysis.executions import level_times, passing_ns
from stepbench.experiments.dataflow.analysis.stages import MIB, NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.report import GanttKind
    from stepbench.contracts.dataflow.rows import BlobRow, TaskRow
    from stepbench.contracts.measures import WindowResult
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks

MOST_ROWS = 300
MOST_BINS = 600
_BIN_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
NS_PER_S = 1_000_000_000
_VISIBLE_NS = 100_000


def gantt(execution: Execution, tasks: ExecutionTasks, window: WindowResult) -> Gantt:
    """Return the tasks of one execution of which every task has a row."""
    level_of = tasks.dag.level_of
    critical = {(level.critical.stage, level.critical.index, level.critical.attempt) for level in level_times(tasks)}
    rows = sorted(tasks.rows, key=lambda row: (level_of[row.stage], row.began_ns, row.stage, row.index))
    chosen = _chosen(rows, critical)
    return Gantt(
        dag=tasks.dag.name,
        window=window.name,
        phase=window.phase,
        event=execution.event,
        start_ms=_since(execution, execution.t1_ns),
        end_ms=_since(execution, execution.t4_ns),
        rows=tuple(
            GanttRow(
                stage=row.stage,
                index=row.index,
                attempt=row.attempt,
                level=level_of[row.stage],
                from_ms=_since(execution, row.began_ns),
                to_ms=_since(execution, row.ended_ns),
                ok=row.outcome == "ok",
                cold=row.cold,
                critical=(row.stage, row.index, row.attempt) in critical,
                error=row.error,
                spans=tuple(_spans(execution, row)),
            )
            for row in chosen
        ),
        left_out=len(rows) - len(chosen),
    )


def _chosen(rows: list[TaskRow], critical: set[tuple[str, int, int]]) -> list[TaskRow]:
    """Return all rows or, of very many, of each stage those that ended first and last; the critical ones always."""
    if len(rows) <= MOST_ROWS:
        return rows
    of_stage: dict[str, list[TaskRow]] = {}
    for row in sorted(rows, key=lambda row: row.ended_ns):
        of_stage.setdefault(row.stage, []).append(row)
    each = max(1, MOST_ROWS // len(of_stage) // 2)
    kept = {id(row) for own in of_stage.values() for row in (*own[:each], *own[-each:])}
    return [row for row in rows if id(row) in kept or (row.stage, row.index, row.attempt) in critical]


def _spans(execution: Execution, row: TaskRow) -> Iterator[GanttSpan]:
    """Yield a task's parts where they lay: it reads all and decodes it, then computes, then encodes all and writes."""
    gets, puts = ([blob for blob in row.blobs if blob.operation == way] for way in ("get", "put"))
    opened_ns = row.began_ns + row.open_ns
    got_ns = input_ns = opened_ns + row.input_ns
    if gets:
        got_ns = max(blob.ended_ns for blob in gets) + sum(blob.code_ns for blob in gets)
    from_ns = min((blob.began_ns for blob in gets), default=got_ns)
    stretches: list[tuple[GanttKind, int, int, list[BlobRow]]] = [
        ("open", row.began_ns, opened_ns, []),
        ("input", opened_ns, input_ns, []),
        ("open", from_ns - _waited_ns(gets), from_ns, []),
        ("get", from_ns, got_ns, gets),
        ("compute", got_ns, got_ns + row.compute_ns, []),
    ]
    if puts:
        from_ns = min(blob.began_ns for blob in puts) - sum(blob.code_ns for blob in puts)
        stretches.append(("open", from_ns - _waited_ns(puts), from_ns, []))
        stretches.append(("put", from_ns, max(blob.ended_ns for blob in puts), puts))
    for kind, from_ns, to_ns, blobs in stretches:
        if to_ns > from_ns:
            passed, passing = sum(blob.blob_bytes for blob in blobs if blob.outcome == "ok"), passing_ns(blobs)
            yield GanttSpan(
                kind=kind,
                from_ms=_since(execution, from_ns),
                to_ms=_since(execution, to_ns),
                blob_bytes=passed,
                objects=len(blobs),
                mib_per_s=passed / MIB / (passing / NS_PER_S) if passed and passing else None,
            )


def _waited_ns(blobs: list[BlobRow]) -> int:
    """Return how long some transfers waited for the first one's connection; 0 where that is too short to be seen."""
    if not blobs:
        return 0
    waited_ns = min(blob.began_ns for blob in blobs) - min(blob.asked_ns for blob in blobs)
    return waited_ns if waited_ns >= _VISIBLE_NS else 0


def _since(execution: Execution, at_ns: int) -> float:
    return (at_ns - execution.t0_ns) / NS_PER_MS


class Bins:
    """Counts what ended in each second; `zero_ns`: the trial's first t0."""

    def __init__(self, zero_ns: int) -> None:
        self._zero_ns = zero_ns
        self._counts: dict[tuple[int, int], Counter[str]] = {}

    def add(self, execution: Execution, tasks: ExecutionTasks) -> None:
        """Count one execution, and its transfers that went well."""
        if execution.t4_ns:
            self._at(execution, execution.t4_ns)["completed"] += 1
        for row in tasks.rows:
            for blob in row.blobs:
                if blob.outcome == "ok":
                    found = self._at(execution, blob.ended_ns)
                    found[f"{blob.operation}s"] += 1
                    found[f"{blob.operation}_bytes"] += blob.blob_bytes

    def _at(self, execution: Execution, at_ns: int) -> Counter[str]:
        return self._counts.setdefault(((at_ns - self._zero_ns) // NS_PER_S, execution.phase), Counter())

    def result(self, phases: tuple[str, ...]) -> tuple[float, tuple[DataflowBin, ...]]:
        """Return how long a bin is, in seconds, and the bins that are not empty, with the phases' names."""
        seconds = [second for second, _ in self._counts]
        length_s = max(seconds, default=0) - min(seconds, default=0) + 1
        bin_s = next((each for each in _BIN_S if length_s <= MOST_BINS * each), _BIN_S[-1])
        merged: dict[tuple[int, int], Counter[str]] = {}
        for (second, phase), counts in self._counts.items():
            merged.setdefault((second // bin_s * bin_s, phase), Counter()).update(counts)
        return float(bin_s), tuple(
            DataflowBin(
                second=second,
                phase=phases[phase],
                completed=counts["completed"],
                puts=counts["puts"],
                gets=counts["gets"],
                put_mib=counts["put_bytes"] / MIB,
                get_mib=counts["get_bytes"] / MIB,
            )
            for (second, phase), counts in sorted(merged.items())
        )
