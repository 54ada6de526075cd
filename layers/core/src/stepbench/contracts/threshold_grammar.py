"""
The grammar of thresholds: `[TIME] STATISTIC [of KIND] [in WINDOW] COMPARISON NUMBER [UNIT]`.

What a run is judged by (`judge`) is the beginning of one: `[TIME] STATISTIC`, of a few more statistics.

Kind and window may stand at the end as well. The words are read once, from left to right, and every mistake is noted;
what one leaves unknown ("") is not judged.
`docs/thresholds.md` has the words as a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from stepbench.contracts.base import BrokenRule, alternatives, near_miss, nearest, refuse
from stepbench.contracts.thresholds import (
    COMPARISONS,
    COUNTED,
    GREEK_US,
    JUDGED,
    KINDS,
    OF_KINDS,
    STATISTICS,
    THRESHOLD_QUANTILES,
    TIMES,
    TO_PROCESSED,
    UNITS,
    Judge,
    Threshold,
    quantities_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_SIGNS = "<>=!≤≥"
_WORD = re.compile(rf"[{_SIGNS}]+|[^ {_SIGNS}]+")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_NUMBER_LIKE = re.compile(r"[-+.]?\d[\d.,_]*(?:[eE][-+]?\d+)?")
_CLAUSES = {"of": "kind of operation", "in": "window"}
_SPELLINGS = {"p99.9": "p999"}
_MEANT = {"=": "==", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">="}
_EXAMPLE = "p99 < 20 ms"
_PHRASE = re.compile(r"\btime +to +processed\b")


class ThresholdError(ValueError):
    """A text is no threshold; `broken` has every mistake in it."""

    def __init__(self, broken: Sequence[BrokenRule]) -> None:
        super().__init__("; ".join(f"{rule.message}. {rule.remedy}" for rule in broken))
        self.broken = tuple(broken)


def parse_threshold(text: str) -> Threshold:
    """
    Return the threshold that a text states; spaces are free.

    Raises:
        ThresholdError: with every mistake in the text.
    """
    words = _WORD.findall(text)
    if sum(map(_is_sign, words)) > 1:
        raise ThresholdError([BrokenRule("", "has several comparisons", "Write a threshold for each.")])
    reader = _Reader(words)
    time, statistic = reader.read_measure()
    clauses = reader.read_clauses("after the measure")
    comparison = reader.read_comparison(statistic)
    number, unit = reader.read_limit(statistic)
    clauses = reader.read_clauses("after its end", clauses)
    reader.check_kind(time if statistic in THRESHOLD_QUANTILES else statistic, clauses)
    if reader.broken:
        raise ThresholdError(reader.broken)
    quantity, size = UNITS[unit]
    limit = {"comparison": comparison, "limit": float(Decimal(number) * size), "quantity": quantity}
    about = {"time": time, "statistic": statistic, "kind": clauses.get("of"), "window": clauses.get("in")}
    threshold = Threshold.model_validate({"text": text, **about, **limit})
    if broken := list(_vain_rules(threshold)):
        raise ThresholdError(broken)
    return threshold


def parse_judge(text: str) -> Judge:
    """
    Return the measure that a text names; a time by itself is its median.

    Raises:
        ThresholdError: with every mistake in the text.
    """
    words = _WORD.findall(_PHRASE.sub(TO_PROCESSED, text))
    if len(words) == 1 and words[0] in TIMES:
        words.append(THRESHOLD_QUANTILES[0])
    reader = _Reader(words, JUDGED, "p99")
    time, statistic = reader.read_measure()
    reader.refuse_rest()
    if reader.broken:
        raise ThresholdError(reader.broken)
    return Judge.model_validate({"time": time, "statistic": statistic})


@dataclass
class _Reader:
    """It holds the words that are left, and the mistakes until now."""

    words: list[str]
    statistics: Sequence[str] = STATISTICS
    example: str = _EXAMPLE
    broken: list[BrokenRule] = field(default_factory=list)
    limited: bool = False
    """Whether the limit has been read."""

    def read_measure(self) -> tuple[str, str]:
        """Read `[TIME] STATISTIC`."""
        found = []
        while self.words and self.words[0] not in _CLAUSES and not self._at_limit():
            word = self.words.pop(0)
            found.append(_SPELLINGS.get(word, word))
        if not found:
            self._refuse(
                "has no measure", f'Begin with one of {alternatives(self.statistics)}, as "{self.example}" does.'
            )
            return "", ""
        timed = len(found) > 1 and nearest(found[0], (*self.statistics, *TIMES)) in TIMES
        time = self._choose(found.pop(0), TIMES, "no time of an event") if timed else TIMES[0]
        statistic = self._choose(found.pop(0), THRESHOLD_QUANTILES if timed else self.statistics, "no measure")
        self._refuse_stray(found, "after the measure")
        return time, statistic

    def read_clauses(self, where: str, before: Mapping[str, str] | None = None) -> dict[str, str]:
        """Read `[of KIND] [in WINDOW]`, in either order."""
        found = dict(before or {})
        while self.words and not self._at_limit():
            keyword = self.words.pop(0)
            if keyword not in _CLAUSES:
                self._refuse_stray([keyword], where)
                continue
            if keyword in found:
                self._refuse(f'has "{keyword}" twice', "Write a threshold for each.")
            found[keyword] = self._read_name(keyword)
        return found

    def check_kind(self, measure: str, clauses: Mapping[str, str]) -> None:
        """Refuse a kind of operation beside what is known of all kinds together only."""
        if measure and measure not in OF_KINDS and (kind := clauses.get("of")):
            message = f"limits {measure} of one kind of operation, and it is known of all of them together only"
            self._refuse(message, f'Remove "of {kind}"; by kind there are {", ".join(OF_KINDS)}.')

    def refuse_rest(self) -> None:
        """Refuse what is left behind the measure."""
        if self.words:
            message = f'has "{" ".join(self.words)}" after the measure'
            self._refuse(message, "Give the measure alone; a limit is one of the plan's thresholds.")

    def read_comparison(self, statistic: str) -> str:
        """Read one of `COMPARISONS`."""
        if not self.words or not _is_sign(self.words[0]):
            self._refuse("has no comparison", f"Put one of {alternatives(COMPARISONS)} before the number.")
            return ""
        found = self.words.pop(0)
        if found not in COMPARISONS:
            meant = f'Did you mean "{_MEANT[found]}"? ' if found in _MEANT else ""
            self._refuse(f'has "{found}", which is no comparison', f"{meant}Use one of {alternatives(COMPARISONS)}.")
        if found == "==" and statistic and statistic not in COUNTED:
            message = f'has "==", and {statistic} is measured: it never is exactly so'
            self._refuse(message, f"Use one of {alternatives(COMPARISONS[:-1])}.")
        return found

    def read_limit(self, statistic: str) -> tuple[str, str]:
        """Read `NUMBER [UNIT]`, which has to go with what is limited."""
        self.limited = True
        if not self.words:
            self._refuse("has no number", f'End it with a number and its unit, as "{_EXAMPLE}" does.')
            return "", ""
        number, unit = self._split_number(self.words.pop(0))
        if not unit and self.words and self.words[0] not in _CLAUSES:
            unit = self.words.pop(0)
        if not _NUMBER.fullmatch(number):
            self._refuse(f'has "{number}" where a number stands', "Write it in digits, such as 20 or 0.5.")
        elif self._check_unit(unit, statistic) and unit == "" and "." in number:
            remedy = f'Write a whole number of events, or a share: "{number} %".'
            self._refuse(f'counts {statistic}, and "{number}" is no whole number', remedy)
        return number, unit

    @staticmethod
    def _split_number(word: str) -> tuple[str, str]:
        """Split `20ms`."""
        found = _NUMBER_LIKE.match(word)
        number = found[0] if found else word
        return number, word[len(number) :]

    def _check_unit(self, unit: str, statistic: str) -> bool:
        known = [name for name, (quantity, _) in UNITS.items() if quantity in quantities_of(statistic)]
        if unit in known:
            return True
        names = [name for name in known if name and name != GREEK_US]
        message = f'has the unit "{unit}", which is none' if unit else "has no unit"
        whose = f" of {statistic}" if statistic and unit else f", and {statistic} has one" if statistic else ""
        none = ", or none for a number of events" if "" in known else ""
        close = "" if unit in UNITS else near_miss(unit, names)
        self._refuse(message + whose, f"{close}Use one of {alternatives(names)}{none}.")
        return False

    def _read_name(self, keyword: str) -> str:
        if not self.words or _is_sign(self.words[0]):  # a window's name may begin with a digit
            self._refuse(f'has no {_CLAUSES[keyword]} after "{keyword}"', f'Name one, or remove "{keyword}".')
            return ""
        name = self.words.pop(0)
        return self._choose(name, KINDS, "no kind of operation") if keyword == "of" else name

    def _at_limit(self) -> bool:
        """Return whether the next word begins the comparison, or the limit where there is none."""
        return not self.limited and (_is_sign(self.words[0]) or _NUMBER.match(self.words[0]) is not None)

    def _choose(self, word: str, known: Sequence[str], what: str) -> str:
        if word in known:
            return word
        self._refuse(f'has "{word}", which is {what}', f"{near_miss(word, known)}Use one of {alternatives(known)}.")
        return ""

    def _refuse_stray(self, words: Sequence[str], where: str) -> None:
        if words:
            remedy = f'For a window write "in {words[-1]}", for a kind of operation "of {KINDS[0]}", or remove it.'
            self._refuse(f'has "{" ".join(words)}" {where}', remedy)

    def _refuse(self, message: str, remedy: str) -> None:
        self.broken.append(BrokenRule("", message, remedy))


def _is_sign(word: str) -> bool:
    return word[0] in _SIGNS


def _vain_rules(threshold: Threshold) -> Iterator[BrokenRule]:
    """Refuse what everything or nothing keeps to: that is a slip of the pen."""
    least = -inf if threshold.measure == "after_ack" else 0.0
    most = 1.0 if threshold.quantity == "share" else inf
    if threshold.comparison == "==":
        kept = {threshold.holds(threshold.limit) and threshold.limit <= most, False}
    else:
        kept = {threshold.holds(least), threshold.holds(most)}
    if len(kept) == 1:
        which = "everything" if True in kept else "nothing"
        top = "at most 100 %" if threshold.quantity == "share" else "a number above 0"
        yield BrokenRule("", f"is what {which} keeps to", f"Give another limit, {top}, or leave the threshold out.")


def _check(parse: Callable[[str], Threshold | Judge], text: str) -> str:
    try:
        parse(text)
    except ThresholdError as error:
        refuse(error.broken)
    return text


ThresholdText = Annotated[str, Field(max_length=200), AfterValidator(partial(_check, parse_threshold))]
"""A plan's field, which says at once what is wrong with it."""
JudgeText = Annotated[str, Field(max_length=60), AfterValidator(partial(_check, parse_judge))]
"""The same of the measure that a run is judged by."""
