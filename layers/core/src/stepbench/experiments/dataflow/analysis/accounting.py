"""What became of executions, tasks and objects: counted execution by execution, and asserted to add up."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.result import ExecutionAccounting, ObjectAccounting
from stepbench.errors import AccountingError
from stepbench.experiments.dataflow.tasks.codec import GARBAGE, TRUNCATED, WRONG_DIGEST, WRONG_LENGTH, WRONG_OBJECT
from stepbench.model.errors import most_frequent
from stepbench.workload.topology import all_objects, read_by

if TYPE_CHECKING:
    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.rows import BlobRow
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks

NOT_FOUND = "not_found"
DAMAGED = frozenset({TRUNCATED, WRONG_LENGTH, WRONG_DIGEST, WRONG_OBJECT, GARBAGE})
"""A transfer's error where the bytes came and were not those that were written."""
UNEXPLAINED = "no reason is on record"
MOST_KINDS = 20
_NOT_COUNTED = frozenset({"errors", "left"})
"""What is left is known only once the trial is torn down."""


class ExecutionCount:
    """Counts executions and attempts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def add(self, execution: Execution, tasks: ExecutionTasks) -> None:
        """Count one execution."""
        ending = "completed" if execution.completed else "failed" if execution.failed else "unfinished"
        rows = list(tasks.rows)
        failed = [row for row in rows if row.outcome == "failed"]
        tried = len(tasks.attempts)
        self._counts.update({"started": 1, ending: 1, "tasks": tried, "attempts": tried + tasks.repeated})
        self._counts.update({"failed_attempts": len(failed), "cold_starts": sum(row.cold for row in rows)})
        self._errors.update(row.error or UNEXPLAINED for row in failed)
        if execution.failed and execution.end is not None:
            end = execution.end
            # What the last failed attempt before the end says, of a task that was not done, is more than the machine's.
            before = [row for row in rows if row.error and row.ended_ns <= end.ended_ns]
            undone = [row for row in before if (row.stage, row.index) not in tasks.counted]
            own = max(undone, key=lambda row: row.ended_ns).error if undone else ""
            self._causes[own or end.cause or end.error or UNEXPLAINED] += 1

    def result(self) -> ExecutionAccounting:
        """Return the counts."""
        names = ("started", "completed", "failed", "unfinished", "tasks", "attempts", "failed_attempts", "cold_starts")
        counts = {name: self._counts[name] for name in names}
        return ExecutionAccounting(
            **counts,
            causes=most_frequent(self._causes, MOST_KINDS),
            errors=most_frequent(self._errors, MOST_KINDS),
        )


class ObjectCount:
    """Counts objects and transfers."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._expected: dict[str, tuple[dict[str, int], frozenset[tuple[str, str]]]] = {}

    def add(self, execution: Execution, tasks: ExecutionTasks) -> None:
        """Count one execution."""
        if execution.dag.name not in self._expected:
            self._expected[execution.dag.name] = _expected(execution.dag)
        expected, expected_reads = self._expected[execution.dag.name]
        end, written, late, read = execution.end, Counter[str](), set[str](), Counter[tuple[str, str]]()
        removing_ns = end.ended_ns if end else math.inf
        removed_ns = removing_ns + (end.delete_ns if end else 0)
        for row in tasks.rows:
            for blob in row.blobs:
                if blob.outcome != "ok":
                    self._fail(blob, is_removed=blob.ended_ns > removing_ns)
                elif blob.operation == "put":
                    written[blob.object] += 1
                    if blob.ended_ns > removed_ns:
                        late.add(blob.object)
                else:
                    read[blob.object, row.name] += 1
        reads = read.keys() & expected_reads
        readers = Counter(name for name, _ in reads)
        own = written.keys() & expected.keys()
        in_full = sum(readers[name] >= expected[name] for name in own)
        self._counts.update(
            expected=len(expected), written=len(own), unwritten=len(expected) - len(own),
            read=in_full, unread=len(own) - in_full,
            reads_expected=len(expected_reads), reads=len(reads), reads_missing=len(expected_reads) - len(reads),
            again=written.total() - len(written) + read.total() - len(read),
            not_deleted=len(late & own if end else own),
        )  # fmt: skip
        if end:
            self._counts.update(deleted=end.deleted, unconfirmed=end.left)

    def _fail(self, blob: BlobRow, *, is_removed: bool) -> None:
        """Count a failed transfer; a task that goes on after its execution's end finds nothing, since we removed it."""
        self._counts["failed"] += 1
        if is_removed and blob.operation == "get" and blob.error.startswith(NOT_FOUND):
            self._errors[f"get: {NOT_FOUND}, after its execution's end"] += 1
            return
        self._counts["not_found"] += blob.operation == "get" and blob.error.startswith(NOT_FOUND)
        self._counts["damaged"] += blob.operation == "get" and blob.error.partition(":")[0] in DAMAGED
        self._errors[f"{blob.operation}: {blob.error or blob.outcome}"] += 1

    def result(self) -> ObjectAccounting:
        """
        Return the counts.

        Raises:
            AccountingError: they do not add up.
        """
        counts = {name: self._counts[name] for name in ObjectAccounting.model_fields if name not in _NOT_COUNTED}
        sums = {
            "expected": counts["written"] + counts["unwritten"],
            "written": counts["read"] + counts["unread"],
            "reads_expected": counts["reads"] + counts["reads_missing"],
        }
        if wrong := [name for name, total in sums.items() if counts[name] != total]:
            message = f"objects do not add up: {', '.join(wrong)} of {counts}"
            raise AccountingError(message)
        return ObjectAccounting(**counts, errors=most_frequent(self._errors, MOST_KINDS))


def _expected(dag: Dag) -> tuple[dict[str, int], frozenset[tuple[str, str]]]:
    """Return how often each object of a DAG is to be read, and which task reads which."""
    pairs = frozenset(
        (each.name, f"{stage.name}-{task}")
        for stage in dag.stages
        for task in range(stage.tasks)
        for each in read_by(dag, stage, task)
    )
    return {each.name: each.reads for each in all_objects(dag)}, pairs
