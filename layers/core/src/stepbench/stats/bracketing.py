"""
The rate that makes a store so busy is found by bracketing, one probe after the other.

From the lowest rate upwards, in proportion to what the utilisation says or along the line through the last two probes,
until one probe is too little and another too much; then between the two, where the line through them says (regula
falsi), or in the middle where that has helped too little. A probe of which less was acknowledged than offered is too
much whatever the utilisation says: what it could not do, no window could hold. Less is below 98 %, of all but the last
0.1 s: a queue that grows by 2 % is 1.2 s long after a minute, while the writes in flight at the end of a probe of 5 s
may be 2 % of it in a healthy store.

Source:
    Dahlquist & Björck, Numerical Methods (1974), section 6.4: regula falsi, and why it is mixed with bisection.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.findings import Utilisation
    from stepbench.contracts.trial import FindRate

HELD_SHARE = 0.98
"""A load of which a smaller share was acknowledged in its time, but for what is in flight, was not held."""
IN_FLIGHT_S = 0.1
"""What was due so shortly before the end need not be acknowledged by then."""
MOST_GROWTH, LEAST_GROWTH = 4.0, 1.25
INNER = 0.1
"""How far from either end of the bracket the next probe is at least, as a share of it."""
NARROW = 1.03
"""Ends of a bracket so near each other (a factor) are one rate."""
UNKNOWN_LIMIT = 2
"""So many probes in a row without a utilisation end the search."""
_DIGITS = 3


class ProbeResult(NamedTuple):
    """
    It holds the result of one probe; `utilisation` is None where no metric came.

    planned_per_s: what `decide` had asked for, where what was offered differs (Poisson arrivals).
    """

    offered_per_s: float
    achieved_per_s: float
    utilisation: float | None
    planned_per_s: float | None = None


class Decision(NamedTuple):
    """It holds the next probe's rate, or the rate found, or neither: then no rate will do. `text` says why."""

    next_per_s: float | None
    found_per_s: float | None
    text: str


class _Point(NamedTuple):
    """It is a probe with a utilisation: `rate_per_s` is what it stands for on the line, `held` whether it was held."""

    offered_per_s: float
    rate_per_s: float
    utilisation: float
    held: bool
    planned_per_s: float


class _Bracket(NamedTuple):
    """
    It holds the nearest point that is too little and the nearest that is too much.

    lower: the one that was too little before `low`. lopsided: the last two probes fell on one side.
    """

    low: _Point | None
    high: _Point | None
    lower: _Point | None
    lopsided: bool


def decide(find: FindRate, probes: Sequence[ProbeResult]) -> Decision:
    """
    Decide what to do after these probes, in their order.

    A probe within the tolerance ends the search. So does the last probe that the plan allows: then the rate is read
    off the line between the two ends of the bracket, which `text` says.
    """
    silent = len(probes) >= UNKNOWN_LIMIT and all(probe.utilisation is None for probe in probes[-UNKNOWN_LIMIT:])
    if silent:
        return _none(f"no metric of the store came for {UNKNOWN_LIMIT} probes in a row")
    points = [_point(find, probe) for probe in probes if probe.utilisation is not None]
    for point in points:
        if point.held and abs(point.utilisation - find.utilisation) <= find.tolerance:
            found_per_s = _within(find, point.offered_per_s)
            return _found(found_per_s, f"{_rate(found_per_s)} makes it {_percent(point)} busy")
    bracket = _bracket(find, points)
    return (
        _stop_out_of_range(find, bracket) or _stop_enclosed(find, bracket, len(probes)) or _choose_next(find, bracket)
    )


def decide_after(find: FindRate, known: Iterable[Utilisation]) -> Decision:
    """Decide after what was measured so far; phases that are no probes are left out."""
    probes: list[ProbeResult] = []
    for each in known:
        if each.probe:
            planned_per_s = decide(find, probes).next_per_s
            probes.append(ProbeResult(each.offered_per_s, each.achieved_per_s, each.utilisation, planned_per_s))
    return decide(find, probes)


def is_held(offered_per_s: float, achieved_per_s: float, length_s: float) -> bool:
    """Return whether a load of that length was acknowledged as fast as offered, up to its end."""
    return achieved_per_s >= HELD_SHARE * offered_per_s * (1 - min(IN_FLIGHT_S / length_s, 1))


def describe_probe(each: Utilisation) -> str:
    """Describe a probe: `400/s: 380/s acknowledged, 31 % busy`."""
    busy = "utilisation unknown" if each.utilisation is None else f"{digits.percent(each.utilisation)} busy"
    return f"{each.offered_per_s:,.4g}/s: {each.achieved_per_s:,.4g}/s acknowledged, {busy}"


def _point(find: FindRate, probe: ProbeResult) -> _Point:
    held = is_held(probe.offered_per_s, probe.achieved_per_s, find.probe_s)
    rate_per_s = probe.offered_per_s if held else probe.achieved_per_s
    planned_per_s = probe.offered_per_s if probe.planned_per_s is None else probe.planned_per_s
    return _Point(probe.offered_per_s, rate_per_s, probe.utilisation or 0.0, held, planned_per_s)


def _bracket(find: FindRate, points: Sequence[_Point]) -> _Bracket:
    """Return the bracket. Where two probes contradict each other, the later one counts."""
    low: _Point | None = None
    high: _Point | None = None
    lower: _Point | None = None
    sides = [point.held and point.utilisation < find.utilisation for point in points]
    for point, too_little in zip(points, sides, strict=True):
        if too_little:
            lower, low = low, point
            high = high if high and high.offered_per_s > point.offered_per_s else None
        else:
            high = point
            low = low if low and low.offered_per_s < point.offered_per_s else None
    return _Bracket(low, high, lower, lopsided=len(sides) > 2 and sides[-1] == sides[-2])  # noqa: PLR2004


def _stop_out_of_range(find: FindRate, bracket: _Bracket) -> Decision | None:
    low, high = bracket.low, bracket.high
    if high and high.planned_per_s <= find.low_per_s:
        return _none(f"the lowest rate, {_rate(find.low_per_s)}, is too much already: {_outcome(high)}")
    if low and low.planned_per_s >= find.high_per_s:
        return _none(f"the highest rate, {_rate(find.high_per_s)}, makes it only {_percent(low)} busy")
    return None


def _stop_enclosed(find: FindRate, bracket: _Bracket, probes: int) -> Decision | None:
    """Stop where probes are used up, or the bracket is too narrow for another."""
    low, high = bracket.low, bracket.high
    narrow = low is not None and high is not None and high.offered_per_s <= low.offered_per_s * NARROW
    if probes < find.probes and not narrow:
        return None
    if low is None or high is None:
        known, side = (low, "little") if low else (high, "much")
        last = f": {_outcome(known)} at {_rate(known.offered_per_s)}" if known else ""
        return _none(f"{probes} probes were not enough, each that is known was too {side}{last}")
    if high.utilisation < find.utilisation:
        limit = f"at {_rate(high.offered_per_s)} {_outcome(high)}, and at {_rate(low.offered_per_s)} all of it"
        return _none(f"something else than the store's utilisation is the limit: {limit}")
    found_per_s = _within(find, _rounded(_on_line(low, high, find.utilisation)))
    ends = f"between {_rate(low.offered_per_s)} ({_percent(low)}) and {_rate(high.offered_per_s)} ({_percent(high)})"
    return _found(found_per_s, f"{_rate(found_per_s)}, read off the line {ends}: no probe came near enough")


def _choose_next(find: FindRate, bracket: _Bracket) -> Decision:
    low, high = bracket.low, bracket.high
    rate_per_s = find.low_per_s
    if low and high:
        rate_per_s = _inside(find, low, high, lopsided=bracket.lopsided)
    elif low:
        rate_per_s = low.offered_per_s * min(MOST_GROWTH, max(LEAST_GROWTH, _growth(find, low, bracket.lower)))
    elif high:
        cut = (
            high.rate_per_s / max(high.offered_per_s, 1e-9) * find.utilisation / max(high.utilisation, find.utilisation)
        )
        rate_per_s = high.offered_per_s * min(1 / LEAST_GROWTH, max(1 / MOST_GROWTH, cut))
    rate_per_s = _within(find, _rounded(rate_per_s))
    return Decision(rate_per_s, None, f"{_rate(rate_per_s)} is the next probe")


def _growth(find: FindRate, low: _Point, lower: _Point | None) -> float:
    """Grow in proportion; or further, on the line through two probes: a server that does nothing is busy, too."""
    factor = find.utilisation / max(low.utilisation, 1e-9)
    if lower and low.offered_per_s > lower.offered_per_s and low.utilisation > lower.utilisation:
        factor = max(factor, _on_line(lower, low, find.utilisation) / low.offered_per_s)
    return factor


def _inside(find: FindRate, low: _Point, high: _Point, *, lopsided: bool) -> float:
    width = high.offered_per_s - low.offered_per_s
    if lopsided or high.utilisation < find.utilisation:
        return low.offered_per_s + width / 2
    at_per_s = _on_line(low, high, find.utilisation)
    return min(high.offered_per_s - INNER * width, max(low.offered_per_s + INNER * width, at_per_s))


def _on_line(low: _Point, high: _Point, utilisation: float) -> float:
    """Interpolate. An unheld probe counts with what it achieved, unless that is less than at the low."""
    high_per_s = high.rate_per_s if high.rate_per_s > low.rate_per_s else high.offered_per_s
    share = (utilisation - low.utilisation) / (high.utilisation - low.utilisation)
    return low.rate_per_s + share * (high_per_s - low.rate_per_s)


def _within(find: FindRate, rate_per_s: float) -> float:
    """Clip to the bounds for which the plan was checked; Poisson arrivals and rounding may lead past them."""
    return min(find.high_per_s, max(find.low_per_s, rate_per_s))


def _rounded(rate_per_s: float) -> float:
    """Round to three digits: more would claim a precision that no utilisation has."""
    if rate_per_s <= 0:
        return rate_per_s
    return round(rate_per_s, _DIGITS - 1 - math.floor(math.log10(rate_per_s)))


def _found(rate_per_s: float, text: str) -> Decision:
    return Decision(None, rate_per_s, text)


def _none(text: str) -> Decision:
    return Decision(None, None, text)


def _rate(rate_per_s: float) -> str:
    return f"{rate_per_s:,.4g}/s" if rate_per_s < 1_000 else f"{rate_per_s:,.0f}/s"  # noqa: PLR2004


def _percent(point: _Point) -> str:
    return digits.percent(point.utilisation)


def _outcome(point: _Point) -> str:
    busy = f"{_percent(point)} busy"
    return busy if point.held else f"only {_rate(point.rate_per_s)} were acknowledged ({busy})"
