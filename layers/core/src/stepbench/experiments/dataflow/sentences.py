"""
What a trial of DAGs shows in sentences: answers, and caveats; in plain Python.

Caveats are of executions that failed, of tasks that were made again or began cold, and of objects that are not
accounted for. What its tear-down saw of the objects is put into a summary that was made before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted, percent, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.result import DagWindow, DataflowFindings, ObjectAccounting
    from stepbench.contracts.result import TrialSummary

_SHOWN = 3
PART_WORDS = {
    "late": "starting late",
    "start": "Step Functions' start",
    "dispatch": "tasks that begin one after the other",
    "retry": "attempts that failed",
    "open": "connecting to the store",
    "input": "reading the input",
    "get": "reading other tasks' outputs",
    "compute": "computing",
    "put": "writing outputs",
    "rest": "what nothing explains",
    "barrier": "barriers between levels",
    "end": "the end of executions",
}


def find_failed_executions(findings: DataflowFindings) -> Iterator[Caveat]:
    """Report executions that ended without all of their tasks, or have no end."""
    executions = findings.executions
    started = count(executions.started)
    if executions.failed:
        text = (
            f"{counted(executions.failed, 'execution')} of {started} failed: {_most_frequent(executions.causes)}. They "
            "count as later than any other in quantiles of end-to-end time; parts are of completed ones."
        )
        about = tuple(place for place, window in enumerate(findings.windows) if window.failed)
        remedy = "Remove the cause; a task is made three times before its execution fails."
        yield Caveat(kind="failed_executions", text=text, remedy=remedy, windows=about)
    if executions.unfinished:
        text = (
            f"{counted(executions.unfinished, 'execution')} of {started} had no end when the trial was analysed; what "
            "they have written is left to its tear-down."
        )
        remedy = "Raise drain_limit_s, or lower timeout_s of the stages."
        yield Caveat(kind="failed_executions", text=text, remedy=remedy)


def missing_objects(objects: ObjectAccounting) -> Iterator[Caveat]:
    """Yield the caveat, if there is one; once the trial is torn down it is known what was not removed."""
    numbers = {
        "reads were of objects that were not there": objects.not_found,
        "reads gave other bytes than were written, or too few": objects.damaged,
        "objects were still there at the trial's tear-down, which removed them": objects.left_by_ends,
        "removals at executions' ends were not confirmed": objects.in_doubt,
    }
    if text := "; ".join(f"{count(number)} {words}" for words, number in numbers.items() if number):
        remedy = "See the objects' errors in the accounting, and what the store did meanwhile."
        yield Caveat(kind="missing_objects", text=f"{text}.", remedy=remedy)


def find_retried_tasks(findings: DataflowFindings) -> Iterator[Caveat]:
    """Report attempts at tasks that failed, or were made again though nothing of them is on record."""
    executions = findings.executions
    if again := executions.attempts - executions.tasks:
        text = (
            f"{counted(again, 'attempt')} beyond the first {'was' if again == 1 else 'were'} made at "
            f"{counted(executions.tasks, 'task')}{': ' if executions.errors else ''}"
            f"{_most_frequent(executions.errors) if executions.errors else ''}. What that took is in the executions' "
            "times, as retry on the critical path."
        )
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


def find_unread_rows(findings: DataflowFindings, damaged: int) -> Iterator[Caveat]:
    """Report rows and ends that cannot be read, so many, and completed executions of which a task has no row."""
    incomplete = sum(window.unrecorded for window in findings.windows)
    texts = [f"{counted(damaged, 'row')} cannot be read"] if damaged else []
    texts += [f"of {counted(incomplete, 'completed execution')} a task's row is missing"] if incomplete else []
    if texts:
        text = f"{'; '.join(texts)}: parts, stages and edges are without these executions."
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the results table, and at the tasks' logs.")


def _most_frequent(causes: dict[str, int]) -> str:
    listed = "; ".join(f"{cause} ({count(times)})" for cause, times in list(causes.items())[:_SHOWN])
    return listed or "no reason is on record"


def find_answers(findings: DataflowFindings) -> Iterator[str]:
    """Yield the sentences: of each window, then of the objects and the executions that failed."""
    several = len(findings.windows) > 1
    for window in findings.windows:
        if window.n:
            yield _window(window, several=several)
    yield describe_objects(findings.objects)
    executions = findings.executions
    if executions.failed:
        cause, times = next(iter(executions.causes.items()), ("", 0))
        why = f", {count(times)} of them with: {cause}" if cause else ""
        yield f"{counted(executions.failed, 'execution')} of {count(executions.started)} failed{why}."


def _window(window: DagWindow, *, several: bool) -> str:
    where = f" in window {window.window}" if several else ""
    largest = max((each for each in window.path if each.part != "late"), key=lambda part: part.share.value or 0)
    return (
        f"An execution of {window.dag}{where} takes {shown(window.end_to_end_ms.p50).in_sentence()} from its due time "
        f"at the median. From its start on, {percent(window.passing_on_path.value)} is spent passing data and "
        f"{percent(window.orchestration.value)} is orchestration's; of all of its time most is "
        f"{PART_WORDS[largest.part]} ({percent(largest.share.value)})."
    )


def describe_objects(objects: ObjectAccounting) -> str:
    """Return what became of the objects."""
    if objects.complete and not objects.failed:
        later = f" (of {count(objects.unconfirmed)} only seen at the trial's tear-down)" if objects.unconfirmed else ""
        return f"All {count(objects.expected)} objects were written, read as often as the DAG says, and removed{later}."
    parts = {
        "were not written": objects.unwritten,
        "were not read as often as the DAG says": objects.unread,
        "were still there at the trial's tear-down, which removed them": objects.left_by_ends,
        "are of executions without an end, and were left to the trial's tear-down": objects.not_deleted,
    }
    outcomes = [f"{count(number)} {words}" for words, number in parts.items() if number]
    if objects.in_doubt:
        outcomes.append(f"removal of {count(objects.in_doubt)} not confirmed")
    if objects.failed:
        not_there = f", {count(objects.not_found)} of them of objects that were not there" if objects.not_found else ""
        outcomes.append(f"{counted(objects.failed, 'transfer')} failed{not_there}")
    return f"Of {count(objects.expected)} objects: {'; '.join(outcomes)}."


def with_remaining(summary: TrialSummary, objects: int) -> TrialSummary:
    """
    Return the summary with so many objects found in the store at the tear-down; unchanged where it has no DAGs.

    A removal that got no answer has happened or not: only this check shows it.
    """
    if summary.dataflow is None:
        return summary
    seen = summary.dataflow.objects.model_copy(update={"left": objects})
    findings = summary.dataflow.model_copy(update={"objects": seen})
    findings = findings.model_copy(update={"answers": tuple(find_answers(findings))})
    kinds = [each.kind for each in summary.caveats]
    place = kinds.index("missing_objects") if "missing_objects" in kinds else 0
    others = [each for each in summary.caveats if each.kind != "missing_objects"]
    caveats = (*others[:place], *missing_objects(seen), *others[place:])
    return summary.model_copy(update={"dataflow": findings, "caveats": caveats})
