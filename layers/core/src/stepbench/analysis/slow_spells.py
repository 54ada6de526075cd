"""
What slow spells of the machine leave undecided: tails that they may have made by themselves.

In plain Python, since the report's function has no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.slow_spells import SLOW
from stepbench.contracts.threshold.words import QUANTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.slow_spells import SlowSpells
    from stepbench.contracts.threshold.words import Quantile
    from stepbench.contracts.verdict import Effect

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


def may_make(found: SlowSpells | None, quantile: str) -> bool:
    """Tell whether the events that spells delay are enough to make up all that lies beyond a quantile."""
    return found is not None and REACH * found.share >= 1 - _PROBABILITIES.get(quantile, 0)


def may_be_made(found: SlowSpells | None, quantile: str, estimate: Estimate) -> bool:
    """Tell whether a quantile may be nothing but the longest spell."""
    if found is None or estimate.value is None or not may_make(found, quantile):
        return False
    return estimate.value < found.longest_ms


def largest_beyond_doubt(found: SlowSpells, quantile: Quantile) -> Quantile | None:
    """Return the largest quantile below this one that spells cannot make; None where there is none."""
    below = QUANTILES[: QUANTILES.index(quantile)]
    return next((each for each in reversed(below) if not may_make(found, each)), None)


def without_spells(found: SlowSpells, estimate: Estimate) -> Estimate:
    """Return an estimate whose lower end is what may be left of it without the longest spell."""
    if estimate.value is None:
        return estimate
    low = estimate.value if estimate.low is None else estimate.low
    return estimate.model_copy(update={"low": max(0.0, low - found.longest_ms)})


def undecide_tails(
    effects: Sequence[Effect], a: Sequence[SlowSpells | None], b: Sequence[SlowSpells | None]
) -> tuple[Effect, ...]:
    """
    Leave a difference between tails undecided where the slower side's spells may have made it.

    Args:
        effects: of b against a.
        a: what is known of each of its trials.
        b: the same.
    """
    return tuple(_undecide(effect, a, b) for effect in effects)


def _undecide(effect: Effect, a: Sequence[SlowSpells | None], b: Sequence[SlowSpells | None]) -> Effect:
    if effect.finding not in {"lower", "higher"} or effect.a.value is None or effect.b.value is None:
        return effect
    slower = b if effect.b.value > effect.a.value else a
    longest_ms = max((each.longest_ms for each in slower if each and may_make(each, effect.measure)), default=0.0)
    if abs(effect.b.value - effect.a.value) >= longest_ms:
        return effect
    return effect.model_copy(update={"finding": "undecided", "to_decide": UNDECIDED})
