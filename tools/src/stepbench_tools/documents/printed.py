"""Numbers as a text prints them, each with its unit and to its last digit, and whether a value is what is printed."""

from __future__ import annotations

import re
from math import isclose
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES = "\N{MULTIPLICATION SIGN}"
_REFERENCE = re.compile(
    r"`[^`]*`|\b(?:Fig\.|Figure|Table|[Ss]ections?|Seed)\s+\d[\d.]*|(?<= )\(\d\.\d\)|\d{4}-\d\d-\d\d"
)
"""Code, and what refers to a figure, a section or a day."""
_NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
    r"\s*(ms\b|s\b|min(?:utes?)?\b|%|[\N{MULTIPLICATION SIGN}x](?!\w)|GB\b|(?:MiB|req|rows)/s)?"
)
"""Digits within a name (`t2`, `O-1`, `m6g.xlarge`) are none."""
_BETWEEN = re.compile(r"(?:[-\s/,\N{EN DASH}\N{MINUS SIGN}→+]|to|and|or)+")
_AFTER_MINUTE = re.compile(r"\bminutes? (?:\d and )?$")
_UNITS = {"x": _TIMES, "minute": "min", "minutes": "min", "req/s": "per_s", "rows/s": "per_s", "MiB/s": "mib_per_s"}
_IN_PLANS = {"min": 60, "s": 1_000, "GB": 1_024, "%": 0.01}
"""Plans and parameters have seconds, milliseconds, MB and shares in these units' place."""


class Number(NamedTuple):
    """`step`: the least difference that its digits can say. `unit`: "" where there is none."""

    text: str
    value: float
    step: float
    unit: str
    start: int
    end: int


def numbers_in(text: str) -> list[Number]:
    """Return all numbers of a text; one without a unit has that of the next, if they stand in one list."""
    blank = _REFERENCE.sub(lambda found: " " * len(found[0]), text)
    numbers: list[Number] = []
    for found in reversed([*_NUMBER.finditer(blank)]):
        digits = found[1]
        unit = found[2] or ("min" if _AFTER_MINUTE.search(blank[: found.start()]) else "")
        if not unit and numbers and _BETWEEN.fullmatch(blank[found.end(1) : numbers[-1].start]):
            unit = numbers[-1].unit
        step = 10.0 ** -len(digits.partition(".")[2])
        value = float(digits.replace(",", ""))
        numbers.append(Number(digits, value, step, _UNITS.get(unit, unit), found.start(1), found.end(1)))
    return numbers[::-1]


def _same(value: float) -> float:
    return value


_SHARES: tuple[Callable[[float], float], ...] = (
    lambda value: value / 100,
    lambda value: 1 + value / 100,
    lambda value: 1 - value / 100,
    lambda value: 1 / (1 + value / 100),
)
_READINGS: dict[tuple[str, str], tuple[Callable[[float], float], ...]] = {
    ("ms", "ms"): (_same,),
    ("s", "s"): (_same,),
    ("s", "ms"): (lambda value: 1_000 * value,),
    (_TIMES, "ratio"): (_same,),
    ("%", "ratio"): _SHARES,
    ("per_s", "per_s"): (_same,),
    ("mib_per_s", "mib_per_s"): (_same,),
}
"""By the unit that is printed, and the one that a plan has: "29 % better" is 1.29, of a time 1 / 1.29."""


def is_printed(number: Number, value: float, unit: str) -> bool:
    """Return whether a value of a plan is what is printed, to its last digit, and of the same kind."""
    for reading in _READINGS.get((number.unit, unit), ()) if number.unit else (_same,):
        low, high = sorted(reading(number.value + sign * number.step / 2) for sign in (-1, 1))
        if low - 1e-9 <= value <= high + 1e-9:
            return True
    return False


def stands_in(number: Number, text: str) -> bool:
    """Return whether a text has the number, as it is or in the unit that plans have of it."""
    values = number.value, number.value * _IN_PLANS.get(number.unit, 1)
    return any(isclose(each.value, value) for each in numbers_in(text.replace("`", "")) for value in values)
