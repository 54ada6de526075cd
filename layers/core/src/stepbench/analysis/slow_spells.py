"""
What slow spells of the machine leave undecided: tails that they may have made by themselves.

In plain Python, since the report's function starts without NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.findings import SLOW
from stepbench.contracts.thresholds import THRESHOLD_QUANTILES, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import Effect
    from stepbench.contracts.findings import SlowSpells
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.thresholds import Quantile

SLOW_MACHINE = "slow_machine"
"""The kind of the caveat."""
REACH = 2
"""So many times a spell's length events are late: what has waited in it is worked off after it."""
UNDECIDED = "the machine's slow spells may have made it"
_PROBABILITIES: dict[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


def describe_slow_spells(found: SlowSpells, what: str = "This machine") -> str:
    """Describe what was seen: `This machine ran below 60 % of its speed in 6.0 % of the time, …`."""
    longest = digits.latency(found.longest_ms)
    return (
        f"{what} ran below {digits.percent(SLOW)} of its speed in {digits.percent(found.share)} of the "
        f"{found.looked_s:.1f} s that were looked at, for up to {longest}: tails below {longest} may come of that alone"
    )


def spells_of(trial: TrialSummary, phase: str, window: str) -> SlowSpells | None:
    """Return the spells that a window of a trial has a caveat about; None without one."""
    places = [at for at, each in enumerate(trial.windows) if (each.phase, each.name) == (phase, window)]
    caveats = [caveat for caveat in trial.caveats if caveat.kind == SLOW_MACHINE]
    return trial.slow_spells if any(caveat.is_about(at) for caveat in caveats for at in places) else None


def may_make(found: SlowSpells | None, statistic: str) -> bool:
    """Return whether spells delay so many events as lie beyond a quantile; they slow any throughput."""
    if found is None or statistic not in _PROBABILITIES:
        return found is not None and statistic == THROUGHPUT
    return REACH * found.share >= 1 - _PROBABILITIES[statistic]


def may_be_caused(found: SlowSpells | None, quantile: str, estimate: Estimate) -> bool:
    """Return whether a quantile may be nothing but the longest spell."""
    if found is None or estimate.value is None or not may_make(found, quantile):
        return False
    return estimate.value < found.longest_ms


def largest_certain(found: SlowSpells, statistic: str) -> Quantile | None:
    """Return the largest quantile below this one that spells cannot make; None where there is none."""
    below = [each for each in THRESHOLD_QUANTILES if _PROBABILITIES[each] < _PROBABILITIES.get(statistic, 0)]
    return next((each for each in reversed(below) if not may_make(found, each)), None)


def without_spells(found: SlowSpells, statistic: str, estimate: Estimate) -> Estimate:
    """
    Return an estimate that reaches to what it may be without spells.

    A time is shorter by the longest spell at most; a throughput is what it is in the rest of the time.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None:
        return estimate
    if low is None and high is None and estimate.reason is None:
        low = high = value
    if statistic == THROUGHPUT:
        return estimate.model_copy(update={"low": low, "high": _at_speed(value, found)})
    return estimate.model_copy(update={"low": None if low is None else max(0.0, low - found.longest_ms), "high": high})


def undecide_tails(
    effects: Sequence[Effect], a: Sequence[SlowSpells | None], b: Sequence[SlowSpells | None]
) -> tuple[Effect, ...]:
    """
    Leave a difference between tails, or in throughput, undecided where the slower side's spells may have made it.

    Args:
        effects: of b against a.
        a: what is known of each of its trials.
        b: the same.
    """
    return tuple(_undecide(effect, a, b) for effect in effects)


def _undecide(effect: Effect, a: Sequence[SlowSpells | None], b: Sequence[SlowSpells | None]) -> Effect:
    if effect.finding not in {"lower", "higher"} or effect.a.value is None or effect.b.value is None:
        return effect
    low, high = sorted((effect.a.value, effect.b.value))
    is_rate = effect.measure == THROUGHPUT
    slower = b if (effect.b.value == low) == is_rate else a
    statistic = effect.measure.rpartition(" ")[2]  # of `response p99`
    able = [each for each in slower if each is not None and may_make(each, statistic)]
    if is_rate:
        explained = any(_at_speed(low, each) > high for each in able)
    else:
        explained = any(high - low < each.longest_ms for each in able)
    return effect.model_copy(update={"finding": "undecided", "to_decide": UNDECIDED}) if explained else effect


def _at_speed(per_s: float, found: SlowSpells) -> float:
    return per_s / (1 - found.share) if found.share < 1 else math.inf
