"""What a finding about a series of runs says, in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measures import FELL_BEHIND

if TYPE_CHECKING:
    from stepbench.contracts.regressions import DetectorSettings, SeriesFinding

_OF_RATES = {"above": "as high"}
_BY_KIND = {"rolling_median": "the last", "last_green": "the last green", "named_run": "the first"}


def describe(finding: SeriesFinding, settings: DetectorSettings, last_reason: str = "") -> str:
    """Return the sentence, which names neither series nor verdict; `last_reason`: why the last run has no number."""
    gone = "" if finding.last is not None else f"{describe_gone(last_reason)}; before it: "
    return f"{gone}{_say(finding, settings)}{_since(finding)}"


def describe_gone(reason: str) -> str:
    """Return the words that the last run has no number, or that it fell behind."""
    _, behind, kept_up = reason.partition(FELL_BEHIND)
    return f"the last run {behind}{kept_up}" if behind else "the last run has no number"


def _say(finding: SeriesFinding, settings: DetectorSettings) -> str:
    words = _OF_RATES if finding.series.measure == "throughput" else {}
    apart = "" if finding.ratio is None else digits.effect(finding.ratio, **words)
    apart += "," if apart == digits.NOT_KNOWN else " as" if " as " in apart else " than"
    runs = digits.counted(finding.baseline_runs, "run")
    against = f"{_BY_KIND[settings.baseline.kind]} {runs} before"
    least = f"{100 * settings.min_effect:g} %"
    more = finding.runs_to_decide
    match finding.verdict:
        case "regression" | "improvement":
            said = f"{apart} {against}"
        case "drift":
            each = "" if finding.slope is None else f"{digits.effect(finding.slope, **words)} with each run; "
            said = f"{each}now {apart} {against}"
        case "suspected":
            said = f"{apart} {against}, in so few runs that it may be chance: a further run is asked for"
        case "spike":
            said = "one run far off, which the others do not confirm"
        case "shift":
            said = "a new level, acknowledged"
        case "undecidable" if finding.ratio is not None and more is not None:
            said = f"{apart} {against}; about {digits.counted(more, 'further run')} would decide it"
        case "undecidable" if more is None:
            said = f"runs lie so far apart that no number of them shows a change of {least}{_remedy(finding, settings)}"
        case _:
            enough = "" if more is None else f"; one of {least} would show within {digits.counted(more, 'run')}"
            said = f"no change beyond {least} shown against {against}{enough}"
    return said


def _remedy(finding: SeriesFinding, settings: DetectorSettings) -> str:
    """Return what would make a change show: a larger one, or runs that lie less far apart."""
    if finding.least_effect is None:
        return ""
    effect = math.ceil(100 * finding.least_effect)
    repeats = math.ceil((math.log1p(finding.least_effect) / math.log1p(settings.min_effect)) ** 2)
    if repeats > digits.MOST_TIMES_LONGER:
        return (
            f": one of {effect} % would show; a quieter machine, or one of its own, would help, longer runs would not"
        )
    return (
        f": one of {effect} % would show, or {repeats} times as many repeats, or as long a load, in each run would do"
    )


def _since(finding: SeriesFinding) -> str:
    """Describe with which run the change began, of what stands."""
    confirmed = [shift for shift in finding.shifts if shift.told_at]
    if finding.verdict not in {"regression", "improvement", "drift"} or not confirmed:
        return ""
    return f", since {confirmed[-1].run_id}, confirmed by {confirmed[-1].told_at}"
