"""
What a comparison comes to, in one sentence of at most `MOST_WORDS` words.

`batch size 1 is faster at p50: 2.8 against 9.1 ms, 3.2 times [3.0, 3.5].` The largest difference that is shown comes
first; what else there is to a comparison is in its effects, which reports show in a folded table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import STORE, shorten_path
from stepbench.analysis.effects import COMPARED_QUANTILES, OF_INTEREST, OF_INTEREST_WORDS
from stepbench.analysis.judged import unit_of
from stepbench.contracts.measures import FELL_BEHIND, Estimate
from stepbench.contracts.thresholds import FAILED_IN_HANDLER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import Effect, Side
    from stepbench.contracts.measures import Latency, WindowResult

MOST_WORDS = 25
_MOST_WORDS_OF_A_NAME = 4
_WITHOUT_SETTING = frozenset({STORE, "trial", "window", "run", "target.function.package", "target.function.name"})
"""What sides are called by their own names in."""
_SETTINGS = {"memory_mib": "memory", "snap_start": "SnapStart"}
"""What sentences call a setting, if not by its field."""
_SWITCH = {"true": "on", "false": "off"}
OPPOSITE = {"lower": "higher", "higher": "lower"}
COMPARED_WORDS = {"lower": "faster", "higher": "slower"}
_FAR_APART = 1_000
"""Sides that are so many times apart have each a unit of its own."""
_SHARES = {"lower": "fewer", "higher": "more"}
SHARED_WORDS = {"lost": "lost events", "errors": "errors", "failed_in_handler": "unprocessed events"}


_SHOWN = ("p50", "p99")
"""What is shown of sides that are not compared."""


class Names(NamedTuple):
    """What sentences call the two sides."""

    b: str
    a: str


class OtherCause(NamedTuple):
    """What else may be why latency changed: in a few words that follow what was found, and in a sentence."""

    aside: str
    sentence: str


def name_sides(aspect: str, a: Side, b: Side) -> Names:
    """Return what sentences call the sides: `batch size 100`, `tls on`, or a store, trial or window by its name."""
    field = shorten_path(aspect, [aspect])
    setting = "" if aspect in _WITHOUT_SETTING else f"{_SETTINGS.get(field, field.replace('_', ' '))} "
    named = (f"{setting}{_SWITCH.get(side.name, side.name) if setting else side.name}" for side in (b, a))
    short = (name if len(name.split()) <= _MOST_WORDS_OF_A_NAME else "" for name in named)
    return Names(*(name or place for name, place in zip(short, ("the second", "the first"), strict=True)))


def describe_effects(effects: Sequence[Effect], names: Names, cause: OtherCause | None = None) -> str:
    """
    Return the sentence on the effects of one comparison.

    Args:
        effects: as `compare_runs` orders them.
        names: of the two sides.
        cause: what else may be why they differ.
    """
    quantiles = [effect for effect in effects if effect.measure in COMPARED_QUANTILES]
    found = [effect for effect in quantiles if effect.finding in COMPARED_WORDS]
    shares = {
        each.measure: (describe_share(each), f"{_SHARES[each.finding]} {SHARED_WORDS[each.measure]}")
        for each in effects
        if each.ratio is None and each.finding in _SHARES
    }
    unprocessed = shares.pop(FAILED_IN_HANDLER, None)
    if found:
        lead = _largest(found)
        others = [each.measure for each in found if each.finding == OPPOSITE[lead.finding]]
        also = [each.measure for each in found if each.finding == lead.finding and each is not lead]
        but = f", {COMPARED_WORDS[OPPOSITE[lead.finding]]} at {digits.listed(others)}" if others else ""
        begin = f"{names.b} is {COMPARED_WORDS[lead.finding]} at {lead.measure}{but}"
        found_sizes = sizes(lead, lead.finding)
        said = f"{begin} {cause.aside}: {found_sizes}" if cause else f"{begin}: {found_sizes}"
        said = with_unprocessed(said if _fits(said) else f"{begin}: {found_sizes}", effects, names)
        return join(said, *shares.values(), (f"also at {digits.listed(also)}",) if also else ())
    if listed := [each for each in (unprocessed, *shares.values()) if each]:
        return join(f"{names.b} has {listed[0][0]}", *listed[1:], (describe_rest(quantiles),))
    open_ = next((effect for effect in quantiles if effect.finding == "undecided"), None)
    if open_ is not None:
        said = f"{names.b} is undecided at {open_.measure}: {sizes(open_, 'undecided')}"
        return join(said, _to_decide(open_))
    same = [effect for effect in quantiles if effect.finding == "same"]
    if same:
        at = "" if len(same) == len(quantiles) else f" at {digits.listed([each.measure for each in same])}"
        said = f"{names.b} is the same within {OF_INTEREST_WORDS}{at}: {sizes(same[0], 'same')}"
        return join(said)
    return join(f"Not decided: {why_unknown(quantiles, names)}")


def describe_unanswered(why: str) -> str:
    """Describe effects that are not those of the setting, since it took none; the first sentence of `why` says so."""
    return join(f"Not answered: {why.partition('. ')[0].rstrip('.')}")


def describe_unlike(effects: Sequence[Effect], unlike: str, judged: str = "") -> str:
    """Describe what two sides have, of which one is no measure for the other; why not first, what is judged next."""
    chosen = [each for each in effects if each.measure in {*_SHOWN, judged}]
    shown = [(each.measure, _values(each, unit_of(each.measure))) for each in chosen]
    return join(f"{unlike[:1].upper()}{unlike[1:]}", *((f"{measure} {values}",) for measure, values in shown if values))


def join(said: str, *parts: Sequence[str]) -> str:
    """Join what is said and of each part the longest wording that there is room for; the parts by how they matter."""
    for part in parts:
        said = next((longer for words in part if words and _fits(longer := f"{said}; {words}")), said)
    return f"{said}." if _fits(said) else f"{' '.join(said.split()[: MOST_WORDS - 1])} …"


def with_unprocessed(said: str, effects: Sequence[Effect], names: Names) -> str:
    """Add what a function has left unprocessed, whatever else there is room for: one that fails at events is quick."""
    found = next((each for each in effects if each.measure == FAILED_IN_HANDLER and each.finding in _SHARES), None)
    if found is None:
        return said
    share = describe_share(found)
    fitting = (longer for longer in (f"{said}; {share}", f"{said.partition('; ')[0]}; {share}") if _fits(longer))
    return next(fitting, f"{names.b} has {share}; {said}")


def _fits(said: str) -> bool:
    return len(said.split()) <= MOST_WORDS


def _largest(found: Sequence[Effect]) -> Effect:
    """Return the largest difference by what is surely shown of it; the lowest quantile where none is clearly larger."""
    lead = found[0]
    for effect in found[1:]:
        if _least_size(effect) > _least_size(lead) + math.log(OF_INTEREST):
            lead = effect
    return lead


def _least_size(effect: Effect) -> float:
    """Return how large a difference is at least, on the logarithmic scale; beyond the drain limit none is larger."""
    near = (effect.ratio.low if effect.finding == "higher" else effect.ratio.high) if effect.ratio else None
    return abs(math.log(near)) if near and near > 0 else math.inf


def sizes(effect: Effect, finding: str, unit: digits.Unit | None = None) -> str:
    """Format both sides, and how many times one is the other: `2.8 against 9.1 ms, 3.2 times [3.0, 3.5]`."""
    return ", ".join(filter(None, (_values(effect, unit), _times(effect.ratio, finding) if effect.ratio else "")))


def _times(ratio: Estimate, finding: str) -> str:
    """Format a ratio, of what is lower the inverse; of a very wide interval its nearer end, or none."""
    if ratio.value is None or ratio.low is None or ratio.high is None or ratio.low <= 0:
        return ""
    if finding == "lower":
        ratio = Estimate(value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low)
    if digits.is_wide(ratio):
        return (
            digits.NOT_KNOWN if finding not in COMPARED_WORDS else f"at least {digits.rounded(ratio.low or 0, 2)} times"
        )
    return digits.multiple(ratio)


def _to_decide(effect: Effect) -> tuple[str, ...]:
    """Return what would decide it, whole or in its first few words; none where these would not fit either."""
    short, _, rest = effect.to_decide.partition(": ")
    return () if rest and effect.ratio and digits.is_wide(effect.ratio) else (short,)


def why_unknown(quantiles: Sequence[Effect], names: Names) -> str:
    """Return why nothing is decided of latency."""
    for effect in quantiles:
        behind = [(name, side) for name, side in ((names.b, effect.b), (names.a, effect.a)) if side.fell_behind]
        if len(behind) > 1:
            return f"{names.b} and {names.a} both fell behind"
        if behind:
            (name, side), *_ = behind
            kept_up = (side.reason or "").partition(FELL_BEHIND)[2]
            return f"{name} {FELL_BEHIND}{kept_up.replace(': ', ' and ')}"
    effect = quantiles[0]
    reason = effect.ratio.reason if effect.ratio else None
    if effect.a.value is None or effect.b.value is None:
        return f"{effect.measure} cannot be compared ({reason or 'no value'})"
    why = f" ({digits.takes(reason)})" if reason else ""
    return f"{effect.measure} is {_values(effect)}, without an interval{why}"


def describe_rest(quantiles: Sequence[Effect]) -> str:
    """Describe in a few words what there is to latency where it does not differ."""
    findings = {effect.finding for effect in quantiles}
    if "undecided" in findings:
        return "no difference in latency shown"
    return f"latency is the same within {OF_INTEREST_WORDS}" if "same" in findings else "latency is not decided"


def describe_share(effect: Effect) -> str:
    """Describe shares of lost, failed or unprocessed events: `more errors: 0.4 % against 0.1 %`."""
    if effect.a.value is None or effect.b.value is None:
        reason = effect.a.reason or effect.b.reason
        return "" if effect.a.value == effect.b.value else f"{effect.measure} cannot be compared ({reason})"
    words = "undecided in" if effect.finding == "unknown" else _SHARES.get(effect.finding, "no difference in")
    return (
        f"{words} {SHARED_WORDS[effect.measure]}: {digits.percent(effect.b.value)} "
        f"against {digits.percent(effect.a.value)}"
    )


def _values(effect: Effect, unit: digits.Unit | None = None) -> str:
    """
    Format both sides: `0.540 against 0.980 ms`, in the unit of the larger one; what is beyond the drain limit so.

    `unit`: of what is no time.
    """
    a, b = effect.a.at_least, effect.b.at_least
    if a is None or b is None:
        return ""
    if unit is not None:
        space = "" if unit.name.startswith("/") else " "
        return f"{digits.rounded(b * unit.per_ms)} against {digits.rounded(a * unit.per_ms)}{space}{unit.name}"
    a_text, b_text = (f"over {value}" if side.value is None else value for side, value in
                      ((effect.a, digits.latency(a)), (effect.b, digits.latency(b))))  # fmt: skip
    larger, smaller = max(abs(a), abs(b)), min(abs(a), abs(b))
    if larger > _FAR_APART * smaller or "over" in f"{a_text}{b_text}":
        return f"{b_text} against {a_text}"
    return _values(effect, digits.unit_for(larger))


def find_other_cause(
    effects: Sequence[Effect], a: WindowResult, b: WindowResult, floor: Latency | None
) -> OtherCause | None:
    """Return what else than the load may be why b's latency is not a's, by the first quantile that shows it is not."""
    shown = (each for each in effects if each.measure in COMPARED_QUANTILES and each.finding in {"lower", "higher"})
    effect = next(shown, None)
    if effect is None or effect.ratio is None or effect.a.value is None or effect.b.value is None:
        return None
    return other_cause(effect.ratio, effect.b.value - effect.a.value, loads(a, b), floor, "the load")


def other_cause(
    ratio: Estimate, shift_ms: float | None, load: tuple[float, float], floor: Latency | None, blamed: str
) -> OtherCause | None:
    """
    Return what else may be why latency changed: against the load's direction, or by less than a bare trigger takes.

    Args:
        ratio: of latency, after over before.
        shift_ms: after minus before.
        load: before and after, in one unit; a change below the smallest difference of interest is none.
        floor: of a bare trigger here, where it is known.
        blamed: what is not to be taken for the cause: "the load", "the step".

    Returns:
        None where there is no such doubt.
    """
    if ratio.value is None or holds_one(ratio):
        return None
    before, after = load
    floor_ms = floor.p50.value if floor else None
    if after > before * OF_INTEREST and ratio.value < 1:
        aside, objection = "though the load rose", "More load should not make it faster"
    elif before > after * OF_INTEREST and ratio.value > 1:
        aside, objection = "though the load fell", "Less load should not make it slower"
    elif shift_ms is not None and floor_ms is not None and abs(shift_ms) < floor_ms:
        aside = "by less than a bare trigger takes"
        objection = f"That is less than a bare trigger takes here ({digits.latency(floor_ms)})"
    else:
        return None
    return OtherCause(aside, f"{objection}: warming up, or neighbours on this machine, may be why, and not {blamed}.")


def loads(a: WindowResult, b: WindowResult) -> tuple[float, float]:
    """Return the loads of two windows: rates offered, in closed loop clients; 0 and 0 if only one is in closed loop."""
    before, after = (window.operations.clients if window.operations else None for window in (a, b))
    if before is None and after is None:
        return a.offered_per_s, b.offered_per_s
    return (0, 0) if before is None or after is None else (before, after)


def holds_one(ratio: Estimate) -> bool:
    """Return whether chance may be all there is; an interval that holds 1 does not show that there is no difference."""
    return ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high
