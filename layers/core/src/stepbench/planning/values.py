"""
Rows of the user's own, looked at when a plan is admitted: they are valid for their store, and their facts are known.

From then on a trial names its rows by a key made of their content, so that its documents hold none of them, and that
what every writer and every attempt reads is the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.values import MOST_FILE_BYTES, MOST_INLINE_BYTES, VALUES, content_key, form_of
from stepbench.errors import HIDDEN, PlanError, Problem, raise_problems
from stepbench.workload.row_facts import load_rows
from stepbench.workload.rows import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.values import RecordValues, Row, RowFacts
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
    """
    Trials whose values have facts and a key by content.

    files: by such keys, those that are not stored yet. read: keys that the plan names.
    """

    trials: tuple[Expanded, ...]
    files: dict[str, bytes]
    read: tuple[str, ...]


class _Read(NamedTuple):
    """What became of rows that were read: the key of their content, and their facts, or what is wrong."""

    key: str
    facts: RowFacts | None
    faults: tuple[RowFault, ...] = ()


class RowReader:
    """
    Reads rows by key, and each once for what a trial makes of them; of their content it holds the last alone.

    read: for the bucket.
    """

    def __init__(self, read: ReadFile) -> None:
        self._read = read
        self._known: dict[tuple[str, ...], _Read] = {}
        self._latest: tuple[str, bytes | int | None] = ("", None)

    def known(self, plan: TrialPlan, key: str) -> _Read | None:
        """Return what is known of the rows of a key."""
        return self._known.get(_depends(plan, key))

    def body(self, key: str) -> bytes | int | None:
        """Return the content of a key, as `ReadFile`."""
        if self._latest[0] != key:
            self._latest = ("", None)  # before the next is read
            self._latest = (key, self._read(key))
        return self._latest[1]

    def load(self, plan: TrialPlan, body: bytes, key: str | None) -> _Read:
        """Return what is found in rows, and know it of those with a key from now on."""
        form = form_of(key) if key else "json"
        named = content_key(body, form)
        try:
            found = _Read(named, load_rows(plan, body, form).facts)
        except RowsError as error:
            found = _Read(named, None, error.faults)
        if key:
            self._known[_depends(plan, key)] = found
        return found


def _depends(plan: TrialPlan, key: str) -> tuple[str, ...]:
    """Return what the facts of rows depend on beside their content: how the trial's store writes them."""
    return key, plan.record.model_dump_json(exclude={"values": {"key", "file", "facts"}}), plan.target.model_dump_json()


def admit_rows(trials: Sequence[Expanded], rows: RowReader) -> AdmittedRows:
    """
    Return the trials with the facts of their rows.

    Args:
        trials: of a valid plan.
        rows: reads those with a key.

    Raises:
        PlanError: with every trial whose rows are missing, cannot be read, or that its store does not take.
    """
    files: dict[str, bytes] = {}
    read: dict[str, None] = {}
    problems: list[Problem] = []
    found = []
    for trial in trials:
        values = offered_plan(trial.plan).record.values if traits_of(trial.plan.experiment).by_trigger else None
        if values is None:
            found.append(trial)
            continue
        try:
            ready, file = _admitted(trial, values, rows)
        except PlanError as error:
            problems.extend(error.problems)
        else:
            found.append(ready)
            files.update(file)
            read.update({} if values.key is None else {values.key: None})
    raise_problems(problems)
    return AdmittedRows(tuple(found), files, tuple(read))


def _admitted(trial: Expanded, values: RecordValues, rows: RowReader) -> tuple[Expanded, dict[str, bytes]]:
    """Return a trial with the facts of its rows, and the file that is not stored yet."""
    plan, at, files = offered_plan(trial.plan), f"trials[{trial.source}].record.values", {}
    read = rows.known(plan, values.key) if values.key else None
    if read is None:
        body = inline_body(values.rows or ()) if values.key is None else rows.body(values.key)
        raise_problems(_place_problems(at, trial, values, body))
        if not isinstance(body, bytes):
            raise TypeError(at)  # which the problems of its place have said
        read = rows.load(plan, body, values.key)
        if read.key != values.key:
            files[read.key] = body
    if read.facts is None:
        raise PlanError([_fault_problem(at, values, fault) for fault in read.faults])
    raise_problems(_size_problems(trial, read.facts))
    kept = values.model_copy(update={"rows": None, "key": read.key, "facts": read.facts})
    record = plan.record.model_copy(update={"values": kept})
    return trial._replace(plan=plan.model_copy(update={"record": record})), files


def inline_body(rows: Sequence[Row]) -> bytes:
    """Return the file that holds the rows of a plan."""
    return json.dumps(rows, separators=(",", ":")).encode()


def place_rows(document: dict[str, Any], key: str) -> bool:
    """
    Have a plan's document, in place, write the rows of a key; return whether they have a place in it.

    That is where trials name a file or a key of rows, or else in all trials that write filler.
    """
    trials = document.get("trials")
    records = [
        (trial, record)
        for trial in (trials if isinstance(trials, list) else ())
        if isinstance(trial, dict) and isinstance(record := trial.get("record") or {}, dict)
    ]
    chosen = [(trial, record) for trial, record in records if _names_file(record.get("values"))]
    chosen = chosen or [(trial, record) for trial, record in records if record.get("values") is None]
    for trial, record in chosen:
        kept = {name: value for name, value in (record.get("values") or {}).items() if name not in {"file", "facts"}}
        rest = {name: value for name, value in record.items() if name != "value_bytes"}  # which is of filler
        trial["record"] = {**rest, "values": {**kept, "key": key}}
    return bool(chosen)


def _names_file(values: object) -> bool:
    return isinstance(values, dict) and any(values.get(name) for name in ("file", "key"))


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
    if values.rows is not None and any(path == "record" or path.startswith("record.values") for path in trial.point):
        message = "are in a matrix, whose values are shown in reports"
        yield Problem(f"{at}.rows", f"{len(values.rows):,} rows", message, 'Give each file a key, and vary "key".')


def _size_problems(trial: Expanded, facts: RowFacts) -> Iterator[Problem]:
    at_once = offered_plan(trial.plan).max_in_flight
    if facts.largest_bytes * at_once > MOST_PREPARED_BYTES:
        message = f"times the largest row ({facts.largest_bytes:,} bytes) is more than a writer can hold"
        most = max(1, MOST_PREPARED_BYTES // facts.largest_bytes)
        path = f"trials[{trial.source}].max_in_flight"
        yield Problem(path, str(at_once), message, f"Set it to {most} or less.")
