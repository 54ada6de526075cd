"""The places of a plan that name files of this machine, matrices included: made absolute, and replaced by keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.function import CODE_FIELDS, UPLOADED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CODE, VARIABLES_FILE = CODE_FIELDS
LOCAL_FIELDS = dict(zip(CODE_FIELDS, UPLOADED_FIELDS, strict=True))
"""The fields of a measured function that only the command line reads, and what it writes in their place."""
FUNCTION = "target.function"


class _Slot(NamedTuple):
    """A place that names a file: an object's field, or an entry of a matrix's list."""

    holder: Any
    at: str | int

    @property
    def value(self) -> str:
        found: str = self.holder[self.at]
        return found


def resolve_paths(document: object, base: Path) -> None:
    """Make relative paths of a plan's document absolute, in place: they are relative to the plan's own folder."""
    for field in LOCAL_FIELDS:
        for slot in _slots(document, field):
            slot.holder[slot.at] = os.path.normpath(base.absolute() / slot.value)


def replace_paths(document: dict[str, Any], keys: Mapping[str, Mapping[str, str]]) -> None:
    """Put keys of the results bucket in place of paths, in a plan's document; by field, then by path."""
    for field, written in LOCAL_FIELDS.items():
        for holder, at in list(_slots(document, field)):
            if isinstance(at, int):
                holder[at] = keys[field][holder[at]]
            else:
                path, known = holder.pop(at), keys[field]
                # What a matrix replaces is in no trial, and only has to be there.
                holder[written] = known[path] if path in known else next(iter(known.values()), None)
        for trial in document["trials"]:
            if trial.get("matrix"):
                trial["matrix"] = {
                    f"{FUNCTION}.{written}" if path == f"{FUNCTION}.{field}" else path: values
                    for path, values in trial["matrix"].items()
                }


def measured_functions(trial: object) -> list[Any]:
    """Return the functions that stand in a trial as objects, its own first; what a matrix has beside."""
    matrix = child(trial, "matrix")
    targets = [child(trial, "target"), *objects(child(matrix, "target"))]
    return [*(child(target, "function") for target in targets), *objects(child(matrix, FUNCTION))]


def _slots(document: object, field: str) -> Iterator[_Slot]:
    """Yield the places of a field of measured functions; a document that is no plan has fewer, or none."""
    for trial in objects(child(document, "trials")):
        matrix = child(trial, "matrix")
        for function in measured_functions(trial):
            if isinstance(child(function, field), str):
                yield _Slot(function, field)
        values = child(matrix, f"{FUNCTION}.{field}")
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if isinstance(value, str):
                yield _Slot(values, index)


def child(value: Any, name: str) -> Any:  # noqa: ANN401 -- any JSON
    """Return the field of an object; None of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def objects(value: object) -> list[Any]:
    """Return the objects in a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
