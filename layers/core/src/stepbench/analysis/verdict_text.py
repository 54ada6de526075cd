"""
What effects come to, in a sentence: `Faster at p50 and p90: p50 45 % lower [42 to 48 %], ….`.

After it, of two windows of one trial: what else than the load may be why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.effects import OF_INTEREST, OF_INTEREST_WORDS, QUANTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate, Latency, WindowResult
    from stepbench.contracts.verdict import Effect


_SHOWN = ("p50", "p99")
"""What is shown of sides that are not compared."""


def describe_effects(effects: Sequence[Effect]) -> str:
    """Describe what the effects of one comparison show, and of what they do not what it would take."""
    return f"{_lead([effect for effect in effects if effect.measure in QUANTILES])}: {_clauses(effects)}."


def describe_unanswered(effects: Sequence[Effect], why: str) -> str:
    """Describe effects that are not those of the setting, since it took none; the first sentence of `why` says so."""
    return f"Not answered: {why.partition('. ')[0].rstrip('.')}. {_clauses(effects)}."


def describe_unlike(effects: Sequence[Effect], unlike: str) -> str:
    """Describe what two sides have, of which one is no measure for the other; why not stands first."""
    sides = [f"{effect.measure} {_values(effect)}" for effect in effects if effect.measure in _SHOWN and _known(effect)]
    return f"{unlike[:1].upper()}{unlike[1:]}{'; ' if sides else ''}{', '.join(sides)}."


def _known(effect: Effect) -> bool:
    return effect.a.value is not None and effect.b.value is not None


def _clauses(effects: Sequence[Effect]) -> str:
    return "; ".join(clause for effect in effects if (clause := _clause(effect)))


class OtherCause(NamedTuple):
    """What else may be why latency changed: in a few words that follow what was found, and in a sentence."""

    aside: str
    sentence: str


def find_other_cause(
    effects: Sequence[Effect], a: WindowResult, b: WindowResult, floor: Latency | None
) -> OtherCause | None:
    """Return what else than the load may be why b's latency is not a's, by the first quantile that shows it is not."""
    shown = (each for each in effects if each.measure in QUANTILES and each.finding in {"lower", "higher"})
    effect = next(shown, None)
    if effect is None or effect.ratio is None or effect.a.value is None or effect.b.value is None:
        return None
    return other_cause(effect.ratio, effect.b.value - effect.a.value, loads(a, b), floor, "the load")


def other_cause(
    ratio: Estimate, shift_ms: float | None, load: tuple[float, float], floor: Latency | None, blamed: str
) -> OtherCause | None:
    """
    Return what else may be why latency changed: against the load's direction, or by less than the floor.

    Args:
        ratio: of latency, after over before.
        shift_ms: after minus before.
        load: before and after, in one unit; a change below the smallest difference of interest is none.
        floor: of this machine, where it is known.
        blamed: what is not to be taken for the cause: "the load", "the step".

    Returns:
        None where there is no such doubt.
    """
    if ratio.value is None or holds_one(ratio):
        return None
    before, after = load
    floor_ms = floor.p50.value if floor else None
    if after > before * OF_INTEREST and ratio.value < 1:
        aside, doubt = "though the load rose", "More load should not make it faster"
    elif before > after * OF_INTEREST and ratio.value > 1:
        aside, doubt = "though the load fell", "Less load should not make it slower"
    elif shift_ms is not None and floor_ms is not None and abs(shift_ms) < floor_ms:
        aside = "by less than the floor"
        doubt = f"That is less than this machine's floor ({digits.latency(floor_ms)})"
    else:
        return None
    return OtherCause(aside, f"{doubt}: warming up, or neighbours on this machine, may be why, and not {blamed}.")


def loads(a: WindowResult, b: WindowResult) -> tuple[float, float]:
    """Return the loads of two windows: rates offered, in closed loop clients; 0 and 0 if only one is in closed loop."""
    before, after = (window.operations.clients if window.operations else None for window in (a, b))
    if before is None and after is None:
        return a.offered_per_s, b.offered_per_s
    return (0, 0) if before is None or after is None else (before, after)


def holds_one(ratio: Estimate) -> bool:
    """Tell whether chance may be all there is; an interval that holds 1 does not show that there is no difference."""
    return ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high


def _lead(quantiles: Sequence[Effect]) -> str:
    by_finding = {
        finding: [effect.measure for effect in quantiles if effect.finding == finding]
        for finding in ("lower", "higher", "same", "undecided", "unknown")
    }
    lower, higher = by_finding["lower"], by_finding["higher"]
    told = [effect for effect in quantiles if effect.finding != "unknown"]
    if lower and higher:
        return f"Faster at {digits.listed(lower)}, slower at {digits.listed(higher)}"
    if lower or higher:
        word, measures = ("Faster", lower) if lower else ("Slower", higher)
        return word if len(measures) == len(told) == len(quantiles) else f"{word} at {digits.listed(measures)}"
    if by_finding["same"] and not by_finding["undecided"]:
        same = by_finding["same"]
        return f"The same within {OF_INTEREST_WORDS}" + (
            "" if len(same) == len(quantiles) else f" at {digits.listed(same)}"
        )
    return "Undecided, no difference shown" if by_finding["undecided"] else "Not decided"


def _clause(effect: Effect) -> str:
    if effect.ratio is None:
        return _describe_share(effect)
    if effect.measure == "max":
        return f"max {_values(effect)}" if effect.a.value is not None and effect.b.value is not None else ""
    return _ratio_clause(effect, effect.ratio)


def _ratio_clause(effect: Effect, ratio: Estimate) -> str:
    if ratio.value is None:
        return f"{effect.measure} cannot be compared ({ratio.reason or 'no value'})"
    factor = digits.shown(ratio, digits.TIMES)
    if effect.finding == "unknown" and effect.measure == "throughput":  # of one run: a count, and no interval
        return f"throughput {factor.value} {factor.unit} ({_values(effect)})"
    change = str(factor) if effect.measure == "throughput" else digits.effect(ratio)
    if effect.finding == "unknown":
        return _describe_unknown(effect, ratio, change)
    if effect.finding in {"lower", "higher"}:
        return f"{effect.measure} {change} ({_values(effect)})"
    if effect.finding == "same":
        return f"{effect.measure} the same ({factor})"
    return f"{effect.measure} {factor}" + (f", {effect.to_decide}" if effect.to_decide else "")


def _describe_unknown(effect: Effect, ratio: Estimate, change: str) -> str:
    """Describe both sides where there is no interval: a ratio would be quoted."""
    if effect.a.value is None or effect.b.value is None:
        return f"{effect.measure} {change}"
    why = f": {digits.takes(ratio.reason)}" if ratio.reason else ""
    return f"{effect.measure} about {_values(effect)} (no interval{why})"


def _describe_share(effect: Effect) -> str:
    """Describe shares of lost or failed events: `errors 0.4 % against 0.1 %, more`."""
    if effect.a.value is None or effect.b.value is None:
        reason = effect.a.reason or effect.b.reason
        return "" if effect.a.value == effect.b.value else f"{effect.measure} cannot be compared ({reason})"
    words = {"lower": "fewer", "higher": "more"}.get(effect.finding, "no difference shown")
    return f"{effect.measure} {digits.percent(effect.b.value)} against {digits.percent(effect.a.value)}, {words}"


def _values(effect: Effect) -> str:
    """Format both sides: `0.540 against 0.980 ms`, in the unit of the larger one."""
    a, b = effect.a.value, effect.b.value
    if a is None or b is None:
        return digits.NONE
    if effect.measure == "throughput":
        return f"{digits.rate(b)} against {digits.rate(a)} ops/s"
    unit = digits.unit_for(max(a, b, key=abs))
    return f"{digits.rounded(b * unit.per_ms)} against {digits.rounded(a * unit.per_ms)} {unit.name}"
