"""What a trial of DAGs shows, in a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.digits import count, counted, percent, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.result import DagWindow, DataflowFindings, ObjectAccounting

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
