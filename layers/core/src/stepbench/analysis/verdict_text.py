"""What effects come to, in a sentence: `Faster at p50 and p90: p50 45 % lower [42 to 48 %], ….`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.effects import OF_INTEREST_WORDS, QUANTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.verdict import Effect


def describe_effects(effects: Sequence[Effect]) -> str:
    """Describe what the effects of one comparison show, and of what they do not what it would take."""
    return f"{_lead([effect for effect in effects if effect.measure in QUANTILES])}: {_clauses(effects)}."


def describe_unanswered(effects: Sequence[Effect], why: str) -> str:
    """Describe effects that are not those of the setting, since it took none; the first sentence of `why` says so."""
    return f"Not answered: {why.partition('. ')[0].rstrip('.')}. {_clauses(effects)}."


def _clauses(effects: Sequence[Effect]) -> str:
    return "; ".join(clause for effect in effects if (clause := _clause(effect)))


def _lead(quantiles: Sequence[Effect]) -> str:
    by_finding = {
        finding: [effect.measure for effect in quantiles if effect.finding == finding]
        for finding in ("lower", "higher", "same", "undecided", "unknown")
    }
    lower, higher = by_finding["lower"], by_finding["higher"]
    told = [effect for effect in quantiles if effect.finding != "unknown"]
    if lower and higher:
        return f"Faster at {_join(lower)}, slower at {_join(higher)}"
    if lower or higher:
        word, measures = ("Faster", lower) if lower else ("Slower", higher)
        return word if len(measures) == len(told) == len(quantiles) else f"{word} at {_join(measures)}"
    if by_finding["same"] and not by_finding["undecided"]:
        same = by_finding["same"]
        return f"The same within {OF_INTEREST_WORDS}" + ("" if len(same) == len(quantiles) else f" at {_join(same)}")
    return "No difference shown" if by_finding["undecided"] else "Not decided"


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
        return f"{effect.measure} {change}"
    if effect.finding in {"lower", "higher"}:
        return f"{effect.measure} {change} ({_values(effect)})"
    if effect.finding == "same":
        return f"{effect.measure} the same ({factor})"
    return f"{effect.measure} {factor}" + (f", {effect.to_decide}" if effect.to_decide else "")


def _describe_share(effect: Effect) -> str:
    """Describe shares of lost or failed events: `errors 0.4 % against 0.1 %, more`."""
    if effect.a.value is None or effect.b.value is None:
        return ""
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


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
