"""What of a plan may be somebody's rows, and so is shown in no message: one rule, by the steps to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepbench.errors import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.planning.schema import Step

VALUES, ROWS = "values", "rows"
_NAME = re.compile(r"\w+")
_TEXTS = frozenset({"file", "key", "choose", "weight"})
_OBJECTS = frozenset({"types", "facts"})
"""The fields of values that are no rows. All others are hidden: a mistyped name holds what the right one would."""


def holds_rows(steps: Iterable[Step], value: Any) -> bool:  # noqa: ANN401 -- any JSON
    """
    Return whether what stands at some steps may be rows of the user's own, or a part of one.

    Args:
        steps: of a document; the name of a change, or of a matrix's list, is a path of several.
        value: that stands there.
    """
    names = list(_names(steps))
    if VALUES not in names:
        return ROWS in names
    below = names[names.index(VALUES) + 1 :]
    if not below:
        return not (value is None or isinstance(value, dict))
    if below[0] in _TEXTS:
        return len(below) > 1 or isinstance(value, dict | list)
    return below[0] not in _OBJECTS


def without_rows(value: Any, steps: tuple[Step, ...] = ()) -> Any:  # noqa: ANN401 -- any JSON
    """Return a part of a document, which stands at some steps, without what may be rows."""
    if holds_rows(steps, value):
        return HIDDEN
    match value:
        case dict():
            return {name: without_rows(each, (*steps, str(name))) for name, each in value.items()}
        case list():
            return [without_rows(each, (*steps, index)) for index, each in enumerate(value)]
    return value


def _names(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield from _NAME.findall(step) if isinstance(step, str) else (step,)
