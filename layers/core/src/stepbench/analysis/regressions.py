"""
What changed over the runs of one plan, each series by itself, corrected for how many there are.

The rule of `stepbench compare` decides what is a regression: the interval of the ratio lies on the wrong side of 1, and
the ratio beyond the smallest change of interest (`analysis/effects.py`). The series say how far runs lie apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.effects import finding_of, is_worse
from stepbench.analysis.followed_series import (
    Followed,
    began_acknowledged,
    describe,
    describe_gone,
    find_shifts,
    find_spikes,
    follow,
    scheduled_run,
)
from stepbench.analysis.series_detector import MIN_HISTORY, STEPS, ramp_end
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import TELLING, DetectorSettings, NamedRun, Regressions, SeriesFinding
from stepbench.digits import counted
from stepbench.errors import PlanError, Problem
from stepbench.stats.level_shift import find_drift, least_decided, location
from stepbench.stats.over_runs import MIN_RUNS, log_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.series_detector import Change, SeriesDetector, Window
    from stepbench.contracts.regressions import RunSeries, Series, SeriesVerdict
    from stepbench.stats.level_shift import Drift, Noise

FALSE_ALARMS_PER_100_RUNS = {"normal": 0.03, "spikes": 0.035, "AR(1)": 0.075, "two modes": 0.02}
"""Measured by `benchmarks/regressions.py` on series without a change (`benchmarks/results/regressions.json`)."""
_SOON = 8
"""Within so many runs a change of the minimum effect shows at best: on three, every other one seems to be smaller."""
_DRIFT_BEFORE = 10
"""Runs of the old level that a drift may have begun in."""


def describe_false_alarms(settings: DetectorSettings) -> str:
    """Return the detector's measured rate of false alarms, to stand beside every verdict; it is of the defaults."""
    usual, allowed = DetectorSettings(), settings.false_alarms_per_100_runs
    if (settings.min_effect, allowed) != (usual.min_effect, usual.false_alarms_per_100_runs):
        return (
            f"{allowed:g} false alarms per 100 runs are allowed. How many there are has been measured with the "
            "defaults alone; docs/regressions.md."
        )
    kinds = ", ".join(f"{rate:g} ({kind})" for kind, rate in FALSE_ALARMS_PER_100_RUNS.items())
    return (
        f"False alarms of the detector per 100 runs, measured on single series without a change, with a minimum effect "
        f"of 5 % and 0.1 allowed: {kinds}; docs/regressions.md."
    )


def find_regressions(
    given: RunSeries, settings: DetectorSettings, not_comparable: Sequence[str] = (), most: int | None = None
) -> Regressions:
    """
    Return what is to be said with the last run.

    Args:
        given: the plan's runs.
        settings: how changes are looked for.
        not_comparable: runs that were left out.
        most: so many series are looked at, the first ones; None: all.

    Raises:
        PlanError: the settings name a run that is not among those given, or there is none.
    """
    _check(given, settings)
    wanted = series_names(given)
    findings = tuple(_find(follow(each, given, settings, len(wanted)), given, settings) for each in wanted[:most])
    has = {value.series.group for value in given.runs[-1].values}
    behind = _newly_behind(given)
    missing = tuple(dict.fromkeys(series.group for series in wanted if series.group not in has))
    regressed = any(each.verdict in {"regression", "drift"} for each in findings)
    return Regressions(
        plan=given.plan,
        last_run=given.runs[-1].run_id,
        runs=len(given.runs),
        settings=settings,
        findings=findings,
        confirm=given.runs[-1].confirms is None and any(each.verdict == "suspected" for each in findings),
        passed=bool(has) and not (missing or behind or regressed),
        not_comparable=tuple(not_comparable),
        missing=missing,
        behind=behind,
        false_alarms=describe_false_alarms(settings),
    )


def _newly_behind(given: RunSeries) -> tuple[str, ...]:
    """Return the groups that fell behind in the last run, and of which an earlier one has a number."""
    last = [value.series for value in given.runs[-1].values if value.estimate.fell_behind]
    known = {value.series for run in given.runs for value in run.values if value.estimate.at_least is not None}
    return tuple(dict.fromkeys(series.group for series in last if series in known))


def series_names(given: RunSeries) -> list[Series]:
    """Return the series of each group as of the newest run that has it: what has no numbers now is no better."""
    found: dict[str, list[Series]] = {}
    for run in reversed(given.runs):
        own: dict[str, list[Series]] = {}
        for value in run.values:
            own.setdefault(value.series.group, []).append(value.series)
        found = {**own, **found}
    return [series for group in found.values() for series in group]


def _check(given: RunSeries, settings: DetectorSettings) -> None:
    if not given.runs:
        raise PlanError([Problem(path="runs", value="[]", message="there is no run", remedy="Run the plan first.")])
    remedy = "Name a run of the plan that is still kept."
    named = settings.baseline.run_id if isinstance(settings.baseline, NamedRun) else None
    if named is not None and named not in {run.run_id for run in given.runs}:
        message = f"is none of the {len(given.runs)} comparable runs of {given.plan}"
        raise PlanError([Problem(path="baseline", value=f'"{named}"', message=message, remedy=remedy)])


class _Standing(NamedTuple):
    """What a series' last runs are, against the level that is accepted."""

    level: float
    baseline_runs: int
    noise: Noise
    runs: int
    change: float
    drift: Drift | None


def _find(followed: Followed, given: RunSeries, settings: DetectorSettings) -> SeriesFinding:
    detector = followed.detector
    current = bool(followed.runs) and followed.runs[-1] is given.runs[-1]
    baseline = detector.baseline(len(detector.values))
    change = next((each for each in reversed(detector.changes) if each.kind != "back"), None)
    known = detector.noise(baseline) if baseline.size else None
    if known is None or known.runs < MIN_HISTORY or baseline.size < MIN_RUNS:
        if change is None or detector.accepted is None:
            gone = "" if current else f"{describe_gone(_last_reason(followed, given))}; "
            return _too_few(followed, 0 if known is None else known.runs, baseline.size, gone)
        known = change.window.noise
    reported = change is not None and change.reported_at == len(detector.values) - 1 and detector.changes[-1] is change
    changed = change is not None and (detector.accepted is not None or reported)
    standing = _standing(followed, change, reported=reported) if change and changed else None
    ratio = None if standing is None else _ratio(standing, followed.sign)
    before = max(baseline.size, STEPS[-1])  # a young level grows with its runs
    needed = _runs_to_decide(detector, known, before)
    spikes = find_spikes(followed, known)
    verdict = _verdict(followed, standing, spikes, reported=reported and current, current=current, needed=needed)
    drift = standing.drift if standing is not None and verdict == "drift" else None
    if ratio is not None and change is not None:
        ratio = _or_more(ratio, followed.estimates[change.at :])
    elif detector.suspected and detector.best is not None and verdict in {"suspected", "undecidable"}:
        ratio = _suspected_ratio(followed, detector.best)
    level, runs = (standing.level, standing.baseline_runs) if standing else (location(baseline), baseline.size)
    finding = SeriesFinding(
        series=followed.series,
        verdict=verdict,
        told=reported and current and verdict in TELLING,
        baseline=_level(level, runs, known, followed.sign),
        baseline_runs=runs,
        last=followed.estimates[-1] if current else None,
        ratio=ratio,
        slope=log_interval(followed.sign * drift.slope, drift.variance, known.runs - 1) if drift else None,
        shifts=find_shifts(followed),
        spikes=spikes,
        runs_to_decide=_further(verdict, detector, needed),
        least_effect=math.expm1(_least(detector, known, before, STEPS[-1])),
        text="",
    )
    return finding.model_copy(update={"text": describe(finding, settings, _last_reason(followed, given))})


def _last_reason(followed: Followed, given: RunSeries) -> str:
    """Return why the last run has no number, where it says so."""
    values = (each.estimate for each in given.runs[-1].values if each.series == followed.series)
    return next((each.reason or "" for each in values if each.at_least is None), "")


def _suspected_ratio(followed: Followed, best: Window) -> Estimate:
    first = len(followed.detector.values) - best.runs
    step = location(np.array(followed.detector.values[first:])) - best.level
    ratio = _ratio(_Standing(best.level, best.before, best.noise, best.runs, step, None), followed.sign)
    return _or_more(ratio, followed.estimates[first:])


def _or_more(ratio: Estimate, runs: Sequence[Estimate]) -> Estimate:
    """Return what a ratio is at least, where one of the runs on the new level is beyond the drain limit."""
    beyond = next((each.reason for each in runs if each.value is None), None)
    return ratio if beyond is None else Estimate(value=None, low=ratio.low, reason=beyond)


def _is_regression(standing: _Standing, sign: int, smallest: float, *, reported: bool) -> bool:
    """Return whether a change for the worse exceeds the smallest of interest, and is shown."""
    if standing.change < smallest:
        return False
    ratio = _ratio(standing, sign)
    return reported or is_worse(ratio, finding_of(ratio, over_runs=True), 0.0, lower_is_worse=sign < 0)


def _verdict(  # noqa: PLR0913 -- what a verdict is made of
    followed: Followed,
    standing: _Standing | None,
    spikes: tuple[str, ...],
    *,
    reported: bool,
    current: bool,
    needed: int | None,
) -> SeriesVerdict:
    detector = followed.detector
    verdict: SeriesVerdict = "no_change"
    if standing is not None and _is_regression(standing, followed.sign, detector.smallest, reported=reported):
        verdict = "drift" if standing.drift is not None else "regression"
    elif standing is not None and reported and standing.change <= -detector.smallest:
        verdict = "improvement"
    elif not current:
        verdict = "undecidable"
    elif detector.suspected:
        verdict = "suspected" if followed.runs[-1].confirms is None else "undecidable"
    elif needed is None:
        verdict = "undecidable"
    elif scheduled_run(followed) in spikes:
        verdict = "spike"
    elif began_acknowledged(followed) and len(detector.values) - detector.start < MIN_HISTORY:
        verdict = "shift"
    return verdict


def _too_few(followed: Followed, known: int, own: int, gone: str) -> SeriesFinding:
    lacking = max(MIN_HISTORY - known, MIN_RUNS - own, 1)
    text = f"{gone}{counted(lacking, 'more run')} until changes can be distinguished from noise"
    verdict: SeriesVerdict = "shift" if began_acknowledged(followed) else "undecidable"
    return SeriesFinding(
        series=followed.series,
        verdict=verdict,
        baseline_runs=own,
        last=None if gone else followed.estimates[-1],
        shifts=find_shifts(followed),
        runs_to_decide=lacking,
        text=text,
    )


def _standing(followed: Followed, change: Change, *, reported: bool) -> _Standing:
    """Return the level since the last change against the accepted one; of a drift, where it has come to."""
    detector, window = followed.detector, change.window
    level = window.level if detector.accepted is None else detector.accepted
    after = np.array(detector.values[change.at :])
    first = next((each for each in detector.changes if each.at <= change.at and each.window.level == level), change)
    times = np.cumsum([run.confirms is None for run in followed.runs]).astype(np.float64)
    begin = max(0, first.at - _DRIFT_BEFORE)
    drift = find_drift(np.array(detector.values[begin:]), times[begin:], level, window.noise.scale)
    drift = drift if drift is not None and drift.slope > 0 else None
    judged = ramp_end(after) if drift is not None or window.shape == "ramp" else after
    step = change.change if reported and window.shape == "step" else location(judged) - window.level
    return _Standing(level, window.before, window.noise, judged.size, window.level + step - level, drift)


def _ratio(standing: _Standing, sign: int) -> Estimate:
    """Return the new level over the old one, with an interval over runs."""
    noise = standing.noise
    variance = noise.scale**2 * (
        noise.inflation(standing.runs) / standing.runs
        + noise.inflation(standing.baseline_runs) / standing.baseline_runs
    )
    return log_interval(sign * standing.change, variance, noise.runs - 1)


def _level(level: float, runs: int, noise: Noise, sign: int) -> Estimate:
    return log_interval(sign * level, noise.scale**2 * noise.inflation(runs) / runs, noise.runs - 1)


def _runs_to_decide(detector: SeriesDetector, noise: Noise, before: int) -> int | None:
    """Return how many runs show a change of the minimum effect; None where the longest window does not."""
    lengths = (runs for runs in STEPS if runs >= _SOON and _least(detector, noise, before, runs) <= detector.smallest)
    return next(lengths, None)


def _least(detector: SeriesDetector, noise: Noise, before: int, runs: int) -> float:
    return least_decided(noise, detector.needed_weight(noise, runs), before, runs)


def _further(verdict: SeriesVerdict, detector: SeriesDetector, needed: int | None) -> int | None:
    """Return how many further runs a decision takes, of those that a change has already shown itself in."""
    if verdict == "undecidable" and needed is not None and detector.suspected and detector.best is not None:
        return max(1, needed - detector.best.runs)
    return needed
