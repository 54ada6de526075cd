"""Rules that span several fields: broken ones are reported with the field to look at and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RULE_ERROR = "rule"
"""The pydantic error type of broken rules; its context holds them under `broken`."""


class Broken(NamedTuple):
    """One broken rule. `at` is the path of the field, below the model that states the rule."""

    at: str
    message: str
    remedy: str


def refuse(broken: Iterable[Broken]) -> None:
    """
    Raise if any rule is broken, with all that are.

    Raises:
        PydanticCustomError: from inside a validator pydantic turns it into a ValidationError.
    """
    found = list(broken)
    if found:
        text = "; ".join(f"{rule.at}: {rule.message}. {rule.remedy}" for rule in found)
        context = {"text": text, "broken": [rule._asdict() for rule in found]}
        raise PydanticCustomError(RULE_ERROR, "{text}", context)


def repeated_names(field: str, names: Sequence[str | None]) -> Iterator[Broken]:
    """Items of a list that have the name of an earlier one; None is no name."""
    for index, name in enumerate(names):
        if name is not None and name in names[:index]:
            message = f"is the name of {field}[{names.index(name)}] too"
            yield Broken(f"{field}[{index}].name", message, f"Give each of the {field} a name of its own.")
