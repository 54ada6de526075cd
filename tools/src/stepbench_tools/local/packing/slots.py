"""The places of a plan that name files of this machine, matrices included: made absolute, and replaced by keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.function import CODE_FIELDS, UPLOADED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CODE, VARIABLES_FILE = CODE_FIELDS
LOCAL_FIELDS = dict(zip(CODE_FIELDS, UPLOADED_FIELDS, strict=True))
"""The fields of a measured function that only the command line reads, and what it writes in their place."""
FUNCTION = "target.function"


class Slot(NamedTuple):
    """A place that names a file: an object's field, or an entry of a matrix's list."""

    holder: Any
    at: Any

    @property
    def value(self) -> str:
        """Return the path that stands there."""
        found: str = self.holder[self.at]
        return found


def resolve_paths(document: object, base: Path) -> None:
    """Make relative paths of a plan's document absolute, in place: they are relative to the plan's own folder."""
    for field in LOCAL_FIELDS:
        for slot in slots(document, FUNCTION, field):
            slot.holder[slot.at] = os.path.normpath(base.absolute() / slot.value)


def replace_paths(document: dict[str, Any], keys: Mapping[str, Mapping[str, str]]) -> None:
    """Put keys of the results bucket in place of paths, in a plan's document; by field, then by path."""
    for field, written in LOCAL_FIELDS.items():
        replace_slots(document, FUNCTION, (field, written), keys[field])


def replace_slots(document: dict[str, Any], path: str, fields: tuple[str, str], keys: Mapping[str, str]) -> None:
    """Put keys in place of the paths that a field of objects names, under another field's name, matrices included."""
    field, written = fields
    # What a matrix replaces is in no trial, so that nobody has read it; it only has to be a key.
    unused = next(iter(keys.values()), None)
    for holder, at in list(slots(document, path, field)):
        if isinstance(at, int):
            holder[at] = keys[holder[at]]
        else:
            holder[written] = keys.get(holder.pop(at), unused)
    renamed = {f"{path}.{field}": f"{path}.{written}"}
    for trial in document["trials"]:
        if trial.get("matrix"):
            trial["matrix"] = {renamed.get(name, name): values for name, values in trial["matrix"].items()}


def slots(document: object, path: str, field: str) -> Iterator[Slot]:
    """
    Yield the places of a field of the objects at a path of trials; a document that is no plan has fewer, or none.

    Args:
        document: a plan's.
        path: such as `target.function`.
        field: that names a file of this machine.
    """
    for trial in objects(child(document, "trials")):
        for holder in objects_at(trial, path):
            if isinstance(holder.get(field), str):
                yield Slot(holder, field)
        values = child(child(trial, "matrix"), f"{path}.{field}")
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if isinstance(value, str):
                yield Slot(values, index)


def objects_at(trial: object, path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects at a path of a trial: its own first, then those of its matrix, which may vary what is above."""
    names = path.split(".")
    yield from _below([trial], names)
    for depth in range(1, len(names) + 1):
        entries = objects(child(child(trial, "matrix"), ".".join(names[:depth])))
        yield from _below(entries, names[depth:])


def _below(found: list[Any], names: Sequence[str]) -> list[Any]:
    for name in names:
        found = [child(each, name) for each in found]
    return objects(found)


def child(value: Any, name: str) -> Any:  # noqa: ANN401 -- any JSON
    """Return the field of an object; None of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def objects(value: object) -> list[Any]:
    """Return the objects in a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
