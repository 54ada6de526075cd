"""Executions of DAGs that failed, tasks that were made again or began cold, and objects that are not accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.result import DataflowFindings, ObjectAccounting
    from stepbench.experiments.dataflow.analysis.evidence import DagRecords

_SHOWN = 3


def find_failed_executions(findings: DataflowFindings) -> Iterator[Caveat]:
    """Report executions that ended without all of their tasks, or have no end."""
    executions = findings.executions
    if executions.failed:
        text = f"{counted(executions.failed, 'execution')} of {count(executions.started)} failed: "
        text += f"{_most_frequent(executions.causes)}. They count as later than any other in quantiles of end-to-end "
        text += "time; parts are of completed ones."
        about = tuple(place for place, window in enumerate(findings.windows) if window.failed)
        remedy = "Remove the cause; a task is made three times before its execution fails."
        yield Caveat(kind="failed_executions", text=text, remedy=remedy, windows=about)
    if executions.unfinished:
        text = (
            f"{counted(executions.unfinished, 'execution')} of {count(executions.started)} had no end when the trial "
        )
        text += "was analysed; what they have written is left to its tear-down."
        yield Caveat(
            kind="failed_executions", text=text, remedy="Raise drain_limit_s, or lower timeout_s of the stages."
        )


def missing_objects(objects: ObjectAccounting) -> Iterator[Caveat]:
    """Yield the caveat, if there is one; once the trial is torn down it is known what was not removed."""
    texts = [
        f"{count(number)} {words}"
        for words, number in (
            ("reads were of objects that were not there", objects.not_found),
            ("reads gave other bytes than were written, or too few", objects.damaged),
            ("objects were still there at the trial's tear-down, which removed them", objects.left_by_ends),
            ("removals at executions' ends were not confirmed", objects.in_doubt),
        )
        if number
    ]
    if texts:
        remedy = "See the objects' errors in the accounting, and what the store did meanwhile."
        yield Caveat(kind="missing_objects", text=f"{'; '.join(texts)}.", remedy=remedy)


def find_retried_tasks(findings: DataflowFindings) -> Iterator[Caveat]:
    """Report attempts at tasks that failed, or were made again though nothing of them is on record."""
    executions = findings.executions
    if again := executions.attempts - executions.tasks:
        text = f"{counted(again, 'attempt')} beyond the first {'was' if again == 1 else 'were'} made"
        text += f" at {counted(executions.tasks, 'task')}"
        text += f": {_most_frequent(executions.errors)}" if executions.errors else ""
        text += ". What that took is in the executions' times, as retry on the critical path."
        remedy = "Remove the cause: times with and without retries are different experiments."
        yield Caveat(kind="retried_tasks", text=text, remedy=remedy)


def find_cold_tasks(findings: DataflowFindings) -> Iterator[Caveat]:
    """Report tasks in measured windows that a new sandbox ran."""
    windows = findings.windows
    cold = [sum(stage.cold_starts for stage in window.stages) for window in windows]
    if sum(cold):
        tasks = sum(stage.tasks * window.n for window in windows for stage in window.stages)
        text = f"{count(sum(cold))} of {counted(tasks, 'task')} in measured windows were run by a new sandbox."
        about = tuple(place for place, number in enumerate(cold) if number)
        remedy = "Lengthen the warm-up, or use provisioned concurrency."
        yield Caveat(kind="cold_starts", text=text, remedy=remedy, windows=about)


def find_unread_rows(findings: DataflowFindings, records: DagRecords) -> Iterator[Caveat]:
    """Report rows and ends that cannot be read, and completed executions of which a task has no row."""
    damaged = len(records.damaged) + len(records.tasks.damaged)
    incomplete = sum(window.unrecorded for window in findings.windows)
    texts = [f"{counted(damaged, 'row')} cannot be read"] if damaged else []
    texts += [f"of {counted(incomplete, 'completed execution')} a task's row is missing"] if incomplete else []
    if texts:
        text = f"{'; '.join(texts)}: parts, stages and edges are without these executions."
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the results table, and at the tasks' logs.")


def _most_frequent(causes: dict[str, int]) -> str:
    listed = "; ".join(f"{cause} ({count(times)})" for cause, times in list(causes.items())[:_SHOWN])
    return listed or "no reason is on record"
