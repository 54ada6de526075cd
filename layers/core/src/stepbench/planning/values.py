"""
Rows of the user's own, looked at when a plan is admitted: they are valid for their store, and their facts are known.

From then on a trial names its rows by a key made of their content, so that its documents hold none of them, and that
what every writer and every attempt reads is the same.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.values import MOST_FILE_BYTES, MOST_INLINE_BYTES, VALUES
from stepbench.errors import HIDDEN, Problem, raise_problems
from stepbench.workload.row_facts import load_rows
from stepbench.workload.rows import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.values import RecordValues
    from stepbench.planning.expansion import Expanded
    from stepbench.workload.rows import RowFault

    ReadFile = Callable[[str], bytes | int | None]
    """
    Returns the content of a key in the results bucket; None where there is no such file, and only the size of one that
    is larger than `MOST_FILE_BYTES`.
    """

MOST_PREPARED_BYTES = 256 * 1024 * 1024
"""Of bodies that a writer holds at a time: each request that is prepared has its own copy."""


class AdmittedRows(NamedTuple):
    """Trials whose values have facts and a key by content, and the files by such keys that are not stored yet."""

    trials: tuple[Expanded, ...]
    files: dict[str, bytes]


def content_key(body: bytes, form: str) -> str:
    """Return the key in the results bucket of rows with this content."""
    return f"{VALUES}{hashlib.sha256(body).hexdigest()}.{form}"


def admit_rows(trials: Sequence[Expanded], read: ReadFile) -> AdmittedRows:
    """
    Return the trials with the facts of their rows.

    Args:
        trials: of a valid plan.
        read: for the bucket.

    Raises:
        PlanError: with every trial whose rows are missing, cannot be read, or that its store does not take.
    """
    bodies: dict[str, bytes | int | None] = {}
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    found = []
    for trial in trials:
        by_trigger = traits_of(trial.plan.experiment).by_trigger
        values = offered_plan(trial.plan).record.values if by_trigger else None
        if values is None:
            found.append(trial)
            continue
        at = f"trials[{trial.source}].record.values"
        if values.key is not None and values.key not in bodies:
            bodies[values.key] = read(values.key)
        body = _encode_inline(values) if values.key is None else bodies[values.key]
        own = list(_place_problems(at, trial, values, body))
        if not own and isinstance(body, bytes):
            ready, own = _with_facts(at, trial, values, body)
            found.append(ready)
            key = content_key(body, _form(values))
            if key != values.key:
                files[key] = body
        problems.extend(own)
    raise_problems(problems)
    return AdmittedRows(tuple(found), files)


def form_of(key: str) -> str:
    """Return the format of a file of rows, by its key's extension."""
    return key.rpartition(".")[2]


def _form(values: RecordValues) -> str:
    return form_of(values.key) if values.key else "json"


def _encode_inline(values: RecordValues) -> bytes:
    """Return the file that holds the rows of a plan."""
    return json.dumps(values.rows, separators=(",", ":")).encode()


def _fault_problem(at: str, values: RecordValues, fault: RowFault) -> Problem:
    """Return what is wrong with a row, which itself is not shown."""
    if values.rows is None or fault.row is None:
        path = f"{at}.{'rows' if values.key is None else 'key'}"
        found = f"{len(values.rows):,} rows" if values.rows is not None else f'"{values.key}"'
        return Problem(path, found, fault.described, fault.remedy)
    path = f"{at}.rows[{fault.row}]" + (f".{fault.column[:60]}" if fault.column else "")
    return Problem(path, HIDDEN, fault.message, fault.remedy)


def _place_problems(at: str, trial: Expanded, values: RecordValues, body: bytes | int | None) -> Iterator[Problem]:
    """Yield what is wrong with where the rows are."""
    if values.file is not None:
        remedy = f'Run the plan by the command line, or upload the file to {VALUES} of the bucket and give "key".'
        yield Problem(f"{at}.file", f'"{values.file}"', "is on a machine that is not known here", remedy)
        return
    if body is None:
        message = "is no file in the results bucket"
        yield Problem(f"{at}.key", f'"{values.key}"', message, f"Upload it there, below {VALUES}, or give rows.")
    elif isinstance(body, int):
        message = f"has more than {MOST_FILE_BYTES:,} bytes"
        yield Problem(f"{at}.key", f"{body:,} bytes", message, "Give fewer rows: events write them again.")
    elif values.rows is not None and len(body) > MOST_INLINE_BYTES:
        message = f"have {len(body):,} bytes as JSON, and rows in a plan {MOST_INLINE_BYTES:,} at most"
        remedy = 'Give them as a file: "file" by the command line, or "key" once it is uploaded.'
        yield Problem(f"{at}.rows", f"{len(values.rows):,} rows", message, remedy)
    if values.rows is not None and any(path.startswith("record") for path in trial.point):
        message = "are in a matrix, whose values are shown in reports"
        yield Problem(f"{at}.rows", f"{len(values.rows):,} rows", message, 'Give each file a key, and vary "key".')


def _with_facts(at: str, trial: Expanded, values: RecordValues, body: bytes) -> tuple[Expanded, list[Problem]]:
    plan = offered_plan(trial.plan)
    try:
        facts = load_rows(plan, body, _form(values)).facts
    except RowsError as error:
        return trial, [_fault_problem(at, values, fault) for fault in error.faults]
    key = content_key(body, _form(values))
    kept = values.model_copy(update={"rows": None, "key": key, "facts": facts})
    record = plan.record.model_copy(update={"values": kept})
    ready = plan.model_copy(update={"record": record})
    problems = []
    if facts.largest_bytes * plan.max_in_flight > MOST_PREPARED_BYTES:
        message = f"times the largest row ({facts.largest_bytes:,} bytes) is more than a writer can hold"
        most = max(1, MOST_PREPARED_BYTES // facts.largest_bytes)
        path = f"trials[{trial.source}].max_in_flight"
        problems.append(Problem(path, str(plan.max_in_flight), message, f"Set it to {most} or less."))
    return trial._replace(plan=ready), problems
