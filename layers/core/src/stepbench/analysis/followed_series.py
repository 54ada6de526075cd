"""One series of a plan's runs, given to a detector in order; what its changes are called outside, and said of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.series_detector import SPIKE, SeriesDetector, suspicion_for, threshold_for
from stepbench.contracts.measures import FELL_BEHIND
from stepbench.contracts.regressions import NamedRun, Shift
from stepbench.stats.level_shift import location
from stepbench.stats.over_runs import log_interval

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.regressions import DetectorSettings, RunSeries, Series, SeriesFinding, SeriesRun
    from stepbench.stats.level_shift import Noise


class Followed(NamedTuple):
    """One series' runs with a value, and the detector after the last of them. `sign`: -1 where less is worse."""

    series: Series
    runs: tuple[SeriesRun, ...]
    estimates: tuple[Estimate, ...]
    detector: SeriesDetector
    sign: int


def follow(series: Series, given: RunSeries, settings: DetectorSettings, comparisons: int) -> Followed:
    """Give a series' runs to a detector, in order; it is one of so many series."""
    baseline, sign = settings.baseline, -1 if series.measure == "throughput" else 1
    threshold = threshold_for(comparisons, settings.false_alarms_per_100_runs)
    detector = SeriesDetector(
        smallest=math.log1p(settings.min_effect),
        threshold=threshold,
        suspicion=suspicion_for(comparisons, threshold),
        baseline_runs=baseline.runs,
        rolling=not isinstance(baseline, NamedRun),
    )
    runs, estimates, begins = [], [], False
    for run in given.runs:
        begins = begins or bool(run.acknowledged) or (isinstance(baseline, NamedRun) and run.run_id == baseline.run_id)
        estimate = next((each.estimate for each in run.values if each.series == series), None)
        value = estimate.at_least if estimate else None
        if estimate is None or value is None or value <= 0:
            continue
        if begins:
            detector.begin_level()
            begins = False
        detector.add(sign * math.log(value), counts=run.green or baseline.kind != "last_green")
        runs.append(run)
        estimates.append(estimate)
    return Followed(series, tuple(runs), tuple(estimates), detector, sign)


def find_shifts(followed: Followed) -> tuple[Shift, ...]:
    """Return the changes of level that were found or acknowledged, in order."""
    found = [
        (
            change.at,
            Shift(
                run_id=followed.runs[change.at].run_id,
                told_at=followed.runs[change.reported_at].run_id,
                ratio=log_interval(
                    followed.sign * change.change,
                    change.window.noise.scale**2 * (1 / change.window.runs + 1 / change.window.before),
                    change.window.noise.runs - 1,
                ),
                better=change.change < 0,
                acknowledged=followed.runs[change.at].acknowledged,
            ),
        )
        for change in followed.detector.changes
    ]
    have = {at for at, _ in found}
    found += [
        (at, Shift(run_id=run.run_id, acknowledged=run.acknowledged))
        for at, run in enumerate(followed.runs)
        if run.acknowledged and at not in have
    ]
    return tuple(shift for _, shift in sorted(found, key=lambda each: each[0]))


def find_spikes(followed: Followed, noise: Noise) -> tuple[str, ...]:
    """Return the runs of the present level that lie far off it."""
    detector = followed.detector
    baseline = detector.baseline(len(detector.values))
    if baseline.size == 0:
        return ()
    level, far = location(baseline), SPIKE * noise.scale
    places = range(detector.start, len(detector.values))
    return tuple(
        followed.runs[at].run_id for at in places if detector.counted[at] and abs(detector.values[at] - level) > far
    )


def scheduled_run(followed: Followed) -> str:
    """Return the last run, or the one that it was made to confirm."""
    return followed.runs[-1].confirms or followed.runs[-1].run_id


def began_acknowledged(followed: Followed) -> bool:
    """Return whether the present level began with an acknowledged run."""
    start = followed.detector.start
    return start < len(followed.runs) and bool(followed.runs[start].acknowledged)


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
