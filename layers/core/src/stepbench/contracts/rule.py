"""Rules that span several fields: broken ones are reported with the field to look at and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
