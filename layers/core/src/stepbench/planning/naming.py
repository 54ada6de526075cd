"""Names of expanded trials: short, readable, unique, and such as a plan itself may give."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

LONGEST_NAME = 60
LONGEST_SUFFIX = len(".p100.r100")
LONGEST_GROUP = LONGEST_NAME - len(".r100")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
STORE_PATHS = ("target.store", "target")
"""Where these vary, the store's own name tells the points apart."""


def point_name(base: str, point: Mapping[str, Any], matrix: Mapping[str, list[Any]], number: int) -> str:
    """
    `dynamodb.batch_size-10.writers-2`; without the fields' names, or by number (`dynamodb.p7`), where that is too long.

    Args:
        base: the trial's name.
        point: the trial's values by path.
        matrix: all values by path.
        number: of the point, from 1.
    """
    words = [(_field(path, matrix), _word(value, matrix[path])) for path, value in point.items()]
    long = ".".join([base, *(f"{field}-{word}" for field, word in words)])
    short = ".".join([base, *(word for _, word in words)])
    by_number = f"{base[: LONGEST_NAME - LONGEST_SUFFIX]}.p{number}"
    return next((name for name in (long, short) if len(name) <= LONGEST_GROUP), by_number)


def repeat_name(group: str, repeat: int) -> str:
    """`dynamodb.r1` for the first, whose number is 0."""
    suffix = f".r{repeat + 1}"
    return f"{group[: LONGEST_NAME - len(suffix)]}{suffix}"


def unique(name: str, taken: Container[str], longest: int = LONGEST_NAME) -> str:
    """The name, or the first of `name-2`, `name-3`, ... that is free, cut to the length."""
    names = (name[:longest] if n == 1 else f"{name[: longest - len(f'-{n}')]}-{n}" for n in count(1))
    return next(each for each in names if each not in taken)


def _field(path: str, matrix: Mapping[str, list[Any]]) -> str:
    """The path's last word, with as many before it as it takes to tell it from the other paths'."""
    words = _words(path)
    others = [_words(other) for other in matrix if other != path]
    length = next((n for n in range(1, len(words)) if all(other[-n:] != words[-n:] for other in others)), len(words))
    return "_".join(words[-length:])


def _words(path: str) -> list[str]:
    return re.findall(r"\w+", path)


def _word(value: Any, values: list[Any]) -> str:  # noqa: ANN401 -- any JSON
    """The value itself, or its place in the list (from 1) where it is long, no scalar, or reads like another."""
    text = _plain(value)
    if not text or [_plain(each) for each in values].count(text) > 1:
        return str(next(n for n, each in enumerate(values, 1) if each is value or each == value))
    return text


def _plain(value: Any) -> str:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict | list):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return _FOREIGN.sub("-", text).strip("-") if len(text) <= LONGEST_NAME else ""
