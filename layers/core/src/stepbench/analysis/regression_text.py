"""What a finding about a series of runs says, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits

if TYPE_CHECKING:
    from stepbench.contracts.regressions import DetectorSettings, SeriesFinding

_BY_KIND = {"rolling_median": "the last", "last_green": "the last green", "named_run": "the first"}


def describe(finding: SeriesFinding, settings: DetectorSettings) -> str:
    """Return the sentence, which names neither series nor verdict."""
    return f"{_say(finding, settings)}{_since(finding)}"


def _say(finding: SeriesFinding, settings: DetectorSettings) -> str:
    apart = "" if finding.ratio is None else digits.effect(finding.ratio)
    runs = digits.counted(finding.baseline_runs, "run")
    against = f"{_BY_KIND[settings.baseline.kind]} {runs} before"
    least = f"{100 * settings.min_effect:g} %"
    more = finding.runs_to_decide
    undecided = f"runs lie so far apart that a change of {least} would take "
    match finding.verdict:
        case "regression" | "improvement":
            said = f"{apart} than {against}"
        case "drift":
            each = "" if finding.slope is None else f"{digits.effect(finding.slope)} with each run; "
            said = f"{each}now {apart} than {against}"
        case "suspected":
            said = f"{apart} than {against}, in so few runs that it may be chance: a further run is asked for"
        case "spike":
            said = "one run far off, which the others do not confirm"
        case "shift":
            said = "a new level, acknowledged"
        case "undecidable" if finding.ratio is not None and more is not None:
            said = f"{apart} than {against}; about {digits.counted(more, 'further run')} would decide it"
        case "undecidable":
            said = undecided + ("more runs than are kept" if more is None else f"about {digits.counted(more, 'run')}")
        case _:
            enough = "" if more is None else f"; one of {least} would show within {digits.counted(more, 'run')}"
            said = f"no change beyond {least} shown against {against}{enough}"
    return said


def _since(finding: SeriesFinding) -> str:
    """Say with which run the change began, of what stands."""
    told = [shift for shift in finding.shifts if shift.told_at]
    if finding.verdict not in {"regression", "improvement", "drift"} or not told:
        return ""
    return f", since {told[-1].run_id}, confirmed by {told[-1].told_at}"
