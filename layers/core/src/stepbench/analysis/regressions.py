"""
What changed over the runs of one plan, each series by itself, corrected for how many there are.

The rule of `stepbench compare` decides what is a regression: the interval of the ratio lies on the wrong side of 1, and
the ratio beyond the smallest change of interest (`analysis/effects.py`). The series say how far runs lie apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.effects import finding_of, is_worse
from stepbench.analysis.followed_series import (
    Followed,
    began_acknowledged,
    find_shifts,
    find_spikes,
    follow,
    scheduled_run,
)
from stepbench.analysis.regression_text import describe
from stepbench.analysis.series_detector import (
    MIN_HISTORY,
    STEPS,
    threshold_for,
)
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import (
    MOST_RUNS,
    NamedRun,
    Regressions,
    SeriesFinding,
)
from stepbench.errors import PlanError, Problem
from stepbench.stats.drift import find_drift
from stepbench.stats.level_shift import runs_to_decide
from stepbench.stats.noise import location
from stepbench.stats.over_runs import MIN_RUNS, log_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.series_detector import Change, SeriesDetector
    from stepbench.contracts.regressions import DetectorSettings, RunSeries, SeriesVerdict
    from stepbench.stats.drift import Drift
    from stepbench.stats.noise import Noise

FALSE_ALARMS_PER_100_RUNS = {"normal": 0.03, "spikes": 0.035, "AR(1)": 0.075, "two modes": 0.02}
"""Measured by `benchmarks/regressions.py` on series without a change (`benchmarks/results/regressions.json`)."""
_DRIFT_BEFORE = 10
"""Runs of the old level that a drift may have begun in."""


def describe_false_alarms() -> str:
    """Return the detector's measured rate of false alarms, to stand beside every verdict."""
    kinds = ", ".join(f"{rate:g} ({kind})" for kind, rate in FALSE_ALARMS_PER_100_RUNS.items())
    return (
        f"False alarms of the detector per 100 runs, measured on series without a change: {kinds}; docs/regressions.md."
    )


def find_regressions(given: RunSeries, settings: DetectorSettings, not_comparable: Sequence[str] = ()) -> Regressions:
    """
    Return what is to be said with the last run.

    Raises:
        PlanError: the settings name a run that is not among those given, or there is none.
    """
    _check(given, settings)
    wanted = [value.series for value in given.runs[-1].values]
    threshold = threshold_for(max(1, len(wanted)), settings.false_alarms_per_100_runs)
    followed = [follow(series, given, settings, threshold) for series in wanted]
    findings = tuple(_find(each, settings) for each in followed)
    return Regressions(
        plan=given.plan,
        last_run=given.runs[-1].run_id,
        runs=len(given.runs),
        settings=settings,
        findings=findings,
        confirm=given.runs[-1].confirms is None and any(each.verdict == "suspected" for each in findings),
        passed=not any(each.verdict in {"regression", "drift"} for each in findings),
        not_comparable=tuple(not_comparable),
        false_alarms=describe_false_alarms(),
    )


def _check(given: RunSeries, settings: DetectorSettings) -> None:
    if not given.runs:
        raise PlanError([Problem(path="runs", value="[]", message="there is no run", remedy="Run the plan first.")])
    named = settings.baseline.run_id if isinstance(settings.baseline, NamedRun) else None
    if named is not None and named not in {run.run_id for run in given.runs}:
        message = f"is none of the {len(given.runs)} comparable runs of {given.plan}"
        raise PlanError(
            [
                Problem(
                    path="baseline",
                    value=f'"{named}"',
                    message=message,
                    remedy="Name a run of the plan that is still kept.",
                )
            ]
        )


class _Standing(NamedTuple):
    """What a series' last runs are, against the level that is accepted."""

    level: float
    baseline_runs: int
    noise: Noise
    runs: int
    change: float
    drift: Drift | None


def _find(followed: Followed, settings: DetectorSettings) -> SeriesFinding:
    detector = followed.detector
    baseline = detector.baseline(len(detector.values))
    change = next((each for each in reversed(detector.changes) if each.kind != "back"), None)
    known = detector.noise(baseline) if baseline.size else None
    if known is None or known.runs < MIN_HISTORY or baseline.size < MIN_RUNS:
        if change is None or detector.accepted is None:
            return _too_few(followed, 0 if known is None else known.runs, baseline.size)
        known = change.window.noise
    told = change is not None and change.told_at == len(detector.values) - 1 and detector.changes[-1] is change
    standing = _standing(followed, change) if change and (detector.accepted is not None or told) else None
    ratio = None if standing is None else _ratio(standing, followed.sign)
    worse = ratio is not None and is_worse(
        ratio, finding_of(ratio, over_runs=True), 0.0, lower_is_worse=followed.sign < 0
    )
    needed = _runs_to_decide(detector, known, baseline.size or MIN_RUNS)
    spikes = find_spikes(followed, known)
    verdict = _verdict(followed, standing, spikes, worse=worse, told=told, needed=needed)
    slope = None
    if verdict == "drift" and standing is not None and standing.drift is not None:
        found = log_interval(followed.sign * standing.drift.slope, standing.drift.variance, known.runs - 1)
        slope = found
    best = detector.best
    if ratio is None and best is not None and verdict in {"suspected", "undecidable"} and detector.suspected:
        after = np.array(detector.values[-best.runs :])
        step = location(after) - best.level
        ratio = _ratio(_Standing(best.level, best.before, best.noise, best.runs, step, None), followed.sign)
    level, runs = (standing.level, standing.baseline_runs) if standing else (location(baseline), baseline.size)
    finding = SeriesFinding(
        series=followed.series,
        verdict=verdict,
        told=told and verdict in {"regression", "improvement", "drift"},
        baseline=_level(level, runs, known, followed.sign),
        baseline_runs=runs,
        last=followed.estimates[-1],
        ratio=ratio,
        slope=slope,
        shifts=find_shifts(followed),
        spikes=spikes,
        runs_to_decide=_further(verdict, detector, needed),
        text="",
    )
    return finding.model_copy(update={"text": describe(finding, settings)})


def _verdict(  # noqa: PLR0913 -- what a verdict is made of
    followed: Followed,
    standing: _Standing | None,
    spikes: tuple[str, ...],
    *,
    worse: bool,
    told: bool,
    needed: int | None,
) -> SeriesVerdict:
    detector = followed.detector
    verdict: SeriesVerdict = "no_change"
    if standing is not None and worse:
        verdict = "drift" if standing.drift is not None else "regression"
    elif standing is not None and told:
        verdict = "improvement"
    elif detector.suspected:
        verdict = "suspected" if followed.runs[-1].confirms is None else "undecidable"
    elif needed is None or needed > STEPS[-1]:
        verdict = "undecidable"
    elif scheduled_run(followed) in spikes:
        verdict = "spike"
    elif began_acknowledged(followed) and len(detector.values) - detector.start < MIN_HISTORY:
        verdict = "shift"
    return verdict


def _too_few(followed: Followed, known: int, own: int) -> SeriesFinding:
    lacking = max(MIN_HISTORY - known, MIN_RUNS - own, 1)
    text = f"{lacking} more {'run' if lacking == 1 else 'runs'} until changes can be told from noise"
    verdict: SeriesVerdict = "shift" if began_acknowledged(followed) else "undecidable"
    return SeriesFinding(
        series=followed.series,
        verdict=verdict,
        baseline_runs=own,
        last=followed.estimates[-1] if followed.estimates else None,
        shifts=find_shifts(followed),
        runs_to_decide=lacking,
        text=text,
    )


def _standing(followed: Followed, change: Change) -> _Standing:
    """Return the level since the last change against the accepted one."""
    detector, window = followed.detector, change.window
    level = window.level if detector.accepted is None else detector.accepted
    after = np.array(detector.values[change.at :])
    first = next((each for each in detector.changes if each.at <= change.at and each.window.level == level), change)
    step = change.change if after.size <= MIN_RUNS else location(after) - window.level
    times = np.cumsum([run.confirms is None for run in followed.runs]).astype(np.float64)
    begin = max(0, first.at - _DRIFT_BEFORE)
    drift = find_drift(np.array(detector.values[begin:]), times[begin:], level, window.noise.scale)
    drift = drift if drift is not None and drift.slope > 0 else None
    return _Standing(level, window.before, window.noise, after.size, window.level + step - level, drift)


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
    """Return how many runs show a change of the minimum effect; with as long a baseline where this one does not do."""
    needed = detector.needed_weight(noise, STEPS[-1])
    found = runs_to_decide(noise, detector.smallest, needed, before, STEPS[-1])
    return found or runs_to_decide(noise, detector.smallest, needed, None, MOST_RUNS)


def _further(verdict: SeriesVerdict, detector: SeriesDetector, needed: int | None) -> int | None:
    """Return how many further runs a decision takes, of those that a change has already shown itself in."""
    if verdict == "undecidable" and needed is not None and detector.suspected and detector.best is not None:
        return max(1, needed - detector.best.runs)
    return needed
