"""From a plan with rows, or files of rows on this machine, to one that names keys: read, checked, uploaded."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.values import FORMATS, MOST_FILE_BYTES, content_key
from stepbench.digits import size
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.planning import expanded, parse_plan
from stepbench.planning.values import RowReader, admit_rows, inline_body
from stepbench_tools.local.packing.slots import child, replace_slots, slots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.values import RecordValues
    from stepbench.planning import Expanded
    from stepbench_tools.local.stack import Stack

_VALUES = "record.values"
FILE, KEY, ROWS = "file", "key", "rows"


class PackedRows(NamedTuple):
    """Plans without files of rows on this machine, and the contents of the keys that they name in their place."""

    plans: tuple[Plan, ...]
    files: dict[str, bytes]


def resolve_row_files(document: object, base: Path) -> None:
    """Make relative paths of files of rows absolute, in place: they are relative to the plan's own folder."""
    for slot in slots(document, _VALUES, FILE):
        slot.holder[slot.at] = str((base / slot.value).absolute())


def with_facts(plan: Plan) -> Plan:
    """
    Return a plan whose rows are read and checked, as far as they are here, with what is known of them.

    Raises:
        PlanError: with every file that cannot be read, and every row that its store does not take.
    """
    problems: list[Problem] = []
    facts = {}
    paths: dict[str, str] = {}
    rows = RowReader(lambda key: read_rows_file(Path(paths[key]))[1])
    for trial in expanded(plan):
        values = _values_of(trial)
        if values is None or values.key is not None:
            continue
        at = f"trials[{trial.source}].{_VALUES}"
        try:
            known = _admitted(trial, values, rows, paths)
        except PlanError as error:
            problems += [_named_by_file(each, at, values) for each in error.problems]
        else:
            facts[trial.source] = known
    raise_problems(problems)
    trials = list(plan.trials)
    for index, known in facts.items():
        written = offered_plan(trials[index])
        if written.record.values is not None and not any(path.startswith("record") for path in written.matrix or ()):
            values = written.record.values.model_copy(update={"facts": known.facts})
            record = written.record.model_copy(update={"values": values})
            trials[index] = written.model_copy(update={"record": record})
    return plan.model_copy(update={"trials": tuple(trials)})


def _values_of(trial: Expanded) -> RecordValues | None:
    return offered_plan(trial.plan).record.values if traits_of(trial.plan.experiment).by_trigger else None


def _admitted(trial: Expanded, values: RecordValues, rows: RowReader, paths: dict[str, str]) -> RecordValues:
    """Return the values of a trial with their facts, as the stack will find them; `paths` are of files by key."""
    if values.file is not None:
        if values.file not in paths.values():
            paths[read_rows_file(Path(values.file))[0]] = values.file
        key = next(key for key, path in paths.items() if path == values.file)
        plan = offered_plan(trial.plan)
        record = plan.record.model_copy(update={"values": values.model_copy(update={FILE: None, KEY: key})})
        trial = trial._replace(plan=plan.model_copy(update={"record": record}))
    (ready,) = admit_rows([trial], rows).trials
    found = _values_of(ready)
    return values if found is None else found


def _named_by_file(problem: Problem, at: str, values: RecordValues) -> Problem:
    """Return a problem of rows in a file by the path that the user gave; no key is known to him."""
    if values.file is None or not problem.path.startswith((at, _VALUES)):
        return problem
    return problem._replace(path=f"{at}.{FILE}", value=f'"{values.file}"')


def read_rows_file(path: Path) -> tuple[str, bytes]:
    """
    Return the key and the content of a file of rows; a folder, or a file of another format, is an archive of bodies.

    Raises:
        PlanError: it cannot be read, or is too large.
    """
    form = path.suffix.lower().removeprefix(".")
    try:
        if form in FORMATS and path.is_file():
            _require_size(path, path.stat().st_size)
            body = path.read_bytes()
        else:
            form, body = "zip", _archive(path)
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror}", "Give a file or a folder that is there.") from None
    return content_key(body, form), body


def _archive(path: Path) -> bytes:
    """Return an archive without times, so that equal bodies are equal bytes; pictures are compressed already."""
    files = {path.name: path}
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
        files = {each.relative_to(path).as_posix(): each for each in found}
    _require_size(path, sum(each.stat().st_size for each in files.values()))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, file in files.items():
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes())
    return packed.getvalue()


def _require_size(path: Path, found: int) -> None:
    if found > MOST_FILE_BYTES:
        raise _refusal(path, f"has {size(found)}, more than {size(MOST_FILE_BYTES)}", "Give fewer rows.")


def _refusal(path: Path, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(f"{_VALUES}.{FILE}", f'"{path}"', message, remedy)])


def pack_rows(plans: Sequence[Plan]) -> PackedRows:
    """
    Return plans that name keys in place of files, and of rows: what the stack is handed has none of them.

    Raises:
        PlanError: a file cannot be read any more.
    """
    files: dict[str, bytes] = {}
    return PackedRows(tuple(_packed(plan, files) for plan in plans), files)


def _packed(plan: Plan, files: dict[str, bytes]) -> Plan:
    document = plan.model_dump(mode="json")
    inline = [values for trial in document["trials"] if (values := _inline(trial)) is not None]
    paths = dict.fromkeys(slot.value for slot in slots(document, _VALUES, FILE))
    if not inline and not paths:
        return plan
    for values in inline:
        body = inline_body(values.pop(ROWS))
        values[KEY] = content_key(body, "json")
        files[values[KEY]] = body
    keys = {}
    for path in paths:
        keys[path], body = read_rows_file(Path(path))
        files[keys[path]] = body
    replace_slots(document, _VALUES, (FILE, KEY), keys)
    return parse_plan(document)


def _inline(trial: dict[str, Any]) -> Any:  # noqa: ANN401 -- any JSON
    """Return a trial's values whose rows stand in the plan: those of the command line go by a file, too."""
    values = child(child(trial, "record"), "values")
    return values if child(values, ROWS) is not None else None


def upload_rows(packed: PackedRows, stack: Stack, notify: Callable[[str], None]) -> None:
    """Have what the keys name in the results bucket; a file that is there already is one of the same content."""
    for key, body in packed.files.items():
        if next(stack.runs.keys(key), None) is None:
            notify(f"uploading rows, {size(len(body))}")
            stack.runs.put_bytes(key, body)
