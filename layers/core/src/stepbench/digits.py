"""Numbers are formatted with sensible digits and a unit beside every one, as plain text without markup."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
NBSP = "\N{NO-BREAK SPACE}"
UNSURE = "~"
"""It stands before a number that should have an interval and has none."""
_MAX_DIGITS = 4
_SHORTFALL = re.compile(r"(?:[ab]: )?(?:n=)?(\d+)(?: of \d+ independent)? < (\d+)")


class Unit(NamedTuple):
    """A unit of time has a name, and so many of it make a millisecond."""

    name: str
    per_ms: float


_MICROSECONDS = Unit("µs", 1_000.0)
_MILLISECONDS = Unit("ms", 1.0)
_SECONDS = Unit("s", 0.001)
TIMES = Unit("×", 1.0)  # noqa: RUF001 -- a multiplication sign
"""A ratio is so many times."""
_SCALES = {each.name for each in (_MICROSECONDS, _MILLISECONDS, TIMES)}
"""An interval of these that is wider than a factor of ten is none; one of a place in time may well be."""
SECONDS_AS_SUCH = Unit("s", 1.0)
"""An estimate is in seconds already."""
PER_S = Unit("/s", 1.0)
"""A rate is so many a second."""
PER_MINUTE = Unit("/min", 1.0)
"""A rate is so many a minute."""
PER_CENT = Unit("%", 100.0)
"""A share is shown so."""
POINTS = Unit("points", 100.0)
"""So a difference of two shares, which is no share of either."""
PER_S_AND_USD = Unit("/ (s USD)", 1.0)
USD_PER_MILLION = Unit("USD per million", 1.0)
MIB_PER_S = Unit("MiB/s", 1.0)
PLAIN = Unit("", 1.0)
"""A distance of distributions, a correlation; or the column's heading has the unit."""


@dataclass(frozen=True)
class Shown:
    """
    It holds a formatted estimate, with empty strings for what there is not.

    `interval` is "[low, high]" in the unit of the value; `note` says why there is no value, or no interval though there
    should be one.
    """

    value: str
    unit: str
    interval: str
    note: str

    def __str__(self) -> str:
        """Join the parts on one line: `8.53 ms [8.41, 8.70]`; without the interval that it should have, `~8.53 ms`."""
        mark = UNSURE if self.value and self.note and not self.interval else ""
        return " ".join(part for part in (f"{mark}{self.value}", self.unit, self.interval) if part) or self.note

    def in_sentence(self) -> str:
        """Join the parts as a sentence has them: `8.53 ms (8.41 to 8.70)`, `1,850/s`, `8 ms (no interval: …)`."""
        value = f"{self.value}{self.unit}" if self.unit.startswith("/") else f"{self.value} {self.unit}"
        why = f"no interval: {takes(self.note)}" if self.note else ""
        within = self.interval.strip("[]").replace(", ", " to ") or why
        return f"{value} ({within})" if within else value


class _Scale(NamedTuple):
    """It is a way to say how far a ratio is from 1: in per cent, or as a multiple where `times` has words for that."""

    times: str = ""

    @property
    def unit(self) -> str:
        """Return what stands once, behind an interval."""
        return "" if self.times else " %"

    def size(self, ratio: float) -> float:
        """Return the distance from 1 in per cent, which is positive to both sides, or the multiple."""
        return ratio if self.times else 100 * abs(ratio - 1)

    def say(self, ratio: float, decimals: int) -> str:
        """Format the distance and its direction."""
        size = fixed(self.size(ratio), decimals)
        if self.times:
            return f"{size} {self.times}"
        return f"{size} % {'lower' if ratio < 1 else 'higher'}" if size.strip("0.") else "the same"


_TWICE = 2.0
_WIDE = 10.0
NOT_KNOWN = "not known within a factor of ten"
"""What stands in place of an interval that is wider than that."""
MOST_TIMES_LONGER = 10.0
"""Nobody makes a run longer than this; what hinders it is the better advice."""


def unit_for(value_ms: float) -> Unit:
    """Choose milliseconds, unless the number would be tiny (below 0.1) or long (10,000 and more) in them."""
    size = abs(value_ms)
    if 0 < size < 0.1:  # noqa: PLR2004 -- see above
        return _MICROSECONDS
    return _MILLISECONDS if size < 10_000 else _SECONDS  # noqa: PLR2004 -- see above


def fixed(value: float, decimals: int) -> str:
    """Format with so many decimals, thousands separated, with a real minus sign; never "-0"."""
    text = f"{abs(value):,.{decimals}f}"
    return MINUS + text if value < 0 and text.strip("0.,") else text


def rounded(value: float, digits: int = 3) -> str:
    """Format with so many significant digits, never with an exponent: 1,157 and 0.0123."""
    return fixed(value, max(0, _decimals(value, digits)))


def latency(value_ms: float | None) -> str:
    """Format a time without an interval: `8.53 ms`."""
    if value_ms is None:
        return NONE
    unit = unit_for(value_ms)
    return f"{rounded(value_ms * unit.per_ms)} {unit.name}"


def shown(estimate: Estimate, unit: Unit | None = None) -> Shown:
    """
    Format an estimate with its interval; a latency in milliseconds, unless another `unit` is given.

    The interval decides the digits: two of its half-width, and of the value at least two and at most four.
    """
    if estimate.value is None:
        return Shown("", "", "", estimate.reason or "no value")
    unit = unit or unit_for(estimate.value)
    value = estimate.value * unit.per_ms
    if estimate.low is None or estimate.high is None:
        return Shown(rounded(value), unit.name, "", estimate.reason or "")
    if unit.name in _SCALES and is_wide(estimate):
        return Shown(rounded(value), unit.name, "", NOT_KNOWN)
    low, high = estimate.low * unit.per_ms, estimate.high * unit.per_ms
    decimals = _interval_decimals(value, (high - low) / 2)
    return Shown(fixed(value, decimals), unit.name, f"[{fixed(low, decimals)}, {fixed(high, decimals)}]", "")


def is_wide(estimate: Estimate) -> bool:
    """Return whether an interval is wider than a factor of ten, or begins at 0, so that it says next to nothing."""
    return estimate.low is not None and estimate.high is not None and 0 <= _WIDE * estimate.low < estimate.high


def times_longer(note: str) -> float | None:
    """
    Return how many times as long the load would have to be, for as many independent events as it takes.

    `81 of 1853 independent < 368` is about five times; None for a note of something else.
    """
    shortfall = _SHORTFALL.fullmatch(note)
    return None if shortfall is None else int(shortfall[2]) / max(1, int(shortfall[1]))


def longer(times: float) -> str:
    """Return the words that a load would have to be so many times as long."""
    times = max(1.1, times)  # "1.0 times longer" would be nothing
    return f"about {rounded(times, 1 if times >= 2 else 2)} {TIMES.name} longer"  # noqa: PLR2004 -- 1.3, 4, 40


def brief(note: str) -> str:
    """Format for a table's cell how much longer a run has to be, by a note on missing events, or else what hinders."""
    return _shortfall(note, "needs")


def takes(note: str) -> str:
    """Format in a sentence how much longer a run has to be, by a note on missing events, or else what hinders."""
    return _shortfall(note, "needs a run")


def _shortfall(note: str, needs: str) -> str:
    times = times_longer(note)
    if times is None:
        return note
    if times <= MOST_TIMES_LONGER:
        return f"{needs} {longer(times)}"
    events = note.rpartition(": ")[2].partition(" < ")[0]
    return f"only {events}" if "independent" in events else f"only {counted(int(events.removeprefix('n=')), 'event')}"


def effect(ratio: Estimate, *, above: str = "as long") -> str:
    """
    Describe in words how far two measurements are apart: `45 % lower [42 to 48 %]`, `2.3 × as long [2.1 to 2.6]`.

    In per cent up to twice, as a multiple beyond it, whose words are those for times unless others are given. An
    interval that holds 1 names both directions: `12 % lower [30 % lower to 8 % higher]`; what has none is `about 45 %
    lower (no interval: …)`, and what has no more than a lower limit `at least 45 % higher`. One wider than a factor of
    ten says what it is at least, or that it is not known.
    """  # noqa: RUF002 -- times
    value, low, high = ratio.at_least, ratio.low, ratio.high
    if value is None:
        return ratio.reason or NONE
    multiple = value >= _TWICE and (low is None or low >= 1)
    scale = _Scale(f"{TIMES.name} {above}" if multiple else "")
    if low is None or high is None:
        said = scale.say(value, _effect_decimals(scale, value))
        why = f": {takes(ratio.reason)}" if ratio.reason else ""
        return f"at least {said}" if ratio.value is None else f"about {said} (no interval{why})"
    if is_wide(ratio):
        nearest = low if low > 1 else high
        return NOT_KNOWN if low <= 1 <= high else f"at least {scale.say(nearest, _effect_decimals(scale, nearest))}"
    decimals = _effect_decimals(scale, value, low, high)
    said = scale.say(value, decimals)
    if low <= 1 <= high:
        return f"{said} [{scale.say(low, decimals)} to {scale.say(high, decimals)}]"
    near, far = sorted((scale.size(low), scale.size(high)))
    return f"{said} [{fixed(near, decimals)} to {fixed(far, decimals)}{scale.unit}]"


def multiple(ratio: Estimate) -> str:
    """Format a ratio that has an interval: `3.2 times [3.0, 3.5]`, to one digit of its half-width; below 2 to 0.01."""
    value, low, high = ratio.value or 1.0, ratio.low or 1.0, ratio.high or 1.0
    decimals = min(max(_decimals((high - low) / 2, 1), _decimals(value, 2), 0), 2) if value >= _TWICE else 2
    return f"{fixed(value, decimals)} times [{fixed(low, decimals)}, {fixed(high, decimals)}]"


def offset(offset_ms: float | None, bound_ms: float | None) -> str:
    """Format a clock offset with its bound, both to the bound's second digit: `0.002 ± 0.010 ms`."""
    if offset_ms is None:
        return "unmeasured"
    if not bound_ms:
        return latency(offset_ms)
    unit = unit_for(max(abs(offset_ms), bound_ms))
    decimals = max(0, _decimals(bound_ms * unit.per_ms, 2))
    return f"{fixed(offset_ms * unit.per_ms, decimals)} ± {fixed(bound_ms * unit.per_ms, decimals)} {unit.name}"


def p_value(p: float) -> str:
    """Format a test's probability to two digits: `p = 0.4`, `p = 0.012`, `p < 0.001`."""
    if p < 0.001:  # noqa: PLR2004 -- finer is no better known
        return "p < 0.001"
    text = rounded(p, 2)
    return f"p = {text.rstrip('0').rstrip('.') if '.' in text else text}"


def count(value: int | None) -> str:
    """Format a whole number with thousands separated."""
    return NONE if value is None else fixed(value, 0)


def counted(value: int, noun: str, one: str = "", more: str = "") -> str:
    """
    Format how many there are of a regular noun, given in the singular: `1 event`, `1,800 events`, `3 sandboxes`.

    Behind it stands a verb, if it is given for one and for more: `1 event was`, `2 events were`.
    """
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch")) else f"{noun}s"
    return f"{count(value)} {noun if value == 1 else plural} {one if value == 1 else more}".rstrip()


def listed(names: Sequence[str]) -> str:
    """Join at least one name as a sentence does: `p50, p90 and p99`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rate(per_s: float) -> str:
    """Format events per second, without the unit: whole numbers stay whole."""
    return fixed(per_s, 0) if per_s == round(per_s) else rounded(per_s)


def throughput(per_s: float) -> str:
    """Format throughput: `1,450 ops/s`."""
    return f"{rate(per_s)} ops/s"


def percent(share: float | None) -> str:
    """Format a share in per cent, with two digits; one below a tenth."""
    if share is None:
        return NONE
    value = 100 * share
    if 0 < value < 0.1:  # noqa: PLR2004 -- a tenth would round it to nothing
        return f"{rounded(value, 1)} %"
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"  # noqa: PLR2004 -- two digits are enough


def size(size_bytes: float) -> str:
    """Format a number of bytes: `512 B`, `64 KiB`, `3.1 MiB`."""
    value, unit = size_bytes, "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004 -- of one unit in the next
            break
        value, unit = value / 1024, larger
    return f"{count(round(value)) if unit == 'B' or value == round(value) else rounded(value)} {unit}"


def dollars(value: float | None) -> str:
    """Format US dollars: cents from one dollar on, two significant digits below."""
    if value is None:
        return NONE
    return "$" + (fixed(value, 2) if value >= 1 or value == 0 else rounded(value, 2))


def duration(seconds: float) -> str:
    """Format a span of time by its two largest units: `45 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 -- a minute
        return f"{rounded(seconds, 2)} s" if 0 < seconds < 10 else f"{whole} s"  # noqa: PLR2004 -- two digits
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004 -- an hour
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def moment(iso: str) -> str:
    """Format ISO 8601 as `2025-06-01 12:00:05 UTC`; text that is no time stays as it is."""
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return (time if time.tzinfo is None else time.astimezone(UTC)).strftime("%Y-%m-%d %H:%M:%S UTC")


def elapsed_s(started_at: str, finished_at: str) -> float | None:
    """Return the seconds between two ISO 8601 times; None where the two cannot be compared."""
    try:
        return (datetime.fromisoformat(finished_at) - datetime.fromisoformat(started_at)).total_seconds()
    except (ValueError, TypeError):
        return None


def _decimals(value: float, digits: int) -> int:
    if value == 0 or not math.isfinite(value):
        return 0
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    # 9.996 to three digits is 10.0, not 10.00
    return decimals - 1 if round(abs(value), decimals) >= 10 ** (digits - decimals) else decimals


def _interval_decimals(value: float, half_width: float) -> int:
    least = _decimals(value, 2)
    most = max(_decimals(value, _MAX_DIGITS), 0) if value else _MAX_DIGITS
    wanted = _decimals(half_width, 2) if half_width > 0 else _decimals(value, 3)
    return min(max(wanted, least, 0), most)


def _effect_decimals(scale: _Scale, value: float, low: float = 1.0, high: float = 1.0) -> int:
    """Choose one digit of the interval's half-width, and at most two places; of a multiple at least two digits."""
    ends = scale.size(low), scale.size(high)
    half_width = (sum(ends) if low <= 1 <= high else max(ends) - min(ends)) / 2
    least = 0 if scale.unit else _decimals(scale.size(value), 2)
    wanted = _decimals(scale.size(value), 2) if low == high else _decimals(half_width, 1)
    return min(max(wanted, least, 0), 2)
