"""
Repeats of a trial, taken together, and groups of which one setting differs: store, TLS, cluster, region, reuse.

How far runs lie apart is a part of every number's uncertainty.

Of each run only its quantiles with their intervals are needed, so the summaries hold all that goes in here. In plain
Python, since the report's function has no NumPy.

A group's quantile is the geometric mean of its runs' quantiles. Resampling runs first and then blocks of time within
each of them has, with ever more draws, a variance in closed form, on the logarithmic scale

    s² / R + v / R

where s² is the variance between the runs' quantiles and v the mean of the variances within runs, as their own
intervals, from resampling blocks, show them. (Of the first, resampling sees only (R - 1) / R, which is mended here.)
The interval is that many standard errors wide as Student's t with R - 1 degrees of freedom says; a percentile
interval of three runs would cover three quarters of the time, whatever it was asked for.

Source:
    Kalibera & Jones (2013), Rigorous benchmarking in reasonable time, ISMM 2013, sections 4 and 5 (runs, then what is
    within; intervals of ratios); Davison & Hinkley (1997), Bootstrap Methods and their Application, section 3.8 (the
    variance of resampling in two stages); Welch (1947), Biometrika 34 (degrees of freedom of a difference).
"""

from __future__ import annotations

import json
import math
import re
from statistics import fmean, variance
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.comparability import SETTINGS, Setup, drop_setting, in_plan_order, matrix_key
from stepbench.contracts.across_trials import GroupResult, GroupWindow, SettingComparison
from stepbench.contracts.measures import Estimate
from stepbench.stats.student import NORMAL_975, student_975

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary

MIN_RUNS = 3
QUANTILES = ("p50", "p90", "p95", "p99")


class LogMean(NamedTuple):
    """A mean of logarithms has a variance, and a number of runs behind it."""

    value: float
    variance: float
    runs: int


class _SettingSide(NamedTuple):
    """It holds the repeats of one trial in one window; `matrix` is its `matrix_key`."""

    value: str
    group: str
    matrix: tuple[str, str]
    runs: list[WindowResult]


def group_results(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[GroupResult, ...]:
    """
    Return one result for each group; none for a plan without repeats and matrix.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan, which decides what is compared with what. Others come after
            them, in the order of their first trials.
    """
    if not any(trial.repeat or trial.point for trial in trials):
        return ()
    groups: dict[str, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(trial.group or trial.name, []).append(trial)
    first: dict[tuple[str, str], list[WindowResult]] = {}
    names = sorted(groups, key=lambda name: listed.index(name) if name in listed else len(listed))
    return tuple(_group(name, groups[name], first) for name in names)


def _group(name: str, members: Sequence[TrialSummary], first: dict[tuple[str, str], list[WindowResult]]) -> GroupResult:
    runs: dict[tuple[str, str], list[WindowResult]] = {}
    for trial in members:
        for window in trial.windows:
            own = runs.setdefault((window.phase, window.name), [])
            if not trial.incomplete:
                own.append(window)
    windows = [_window(key, own, first.setdefault(key, own)) for key, own in runs.items()]
    return GroupResult(
        name=name, trials=tuple(trial.index for trial in members), point=members[0].point, windows=tuple(windows)
    )


def _window(key: tuple[str, str], runs: list[WindowResult], first: list[WindowResult]) -> GroupWindow:
    return GroupWindow(
        phase=key[0],
        window=key[1],
        runs=len(runs),
        **{name: mean_over_runs(quantiles(runs, name)) for name in QUANTILES},
        median_ratio=None if first is runs else ratio(quantiles(runs, "p50"), quantiles(first, "p50")),
    )


def quantiles(runs: Sequence[WindowResult], name: str) -> list[Estimate]:
    """Return each run's own latency at a quantile."""
    return [getattr(run.latency_ms, name) for run in runs]


def log_mean(runs: Sequence[Estimate]) -> LogMean | str:
    """Return the runs' mean on the logarithmic scale, or the reason why it has no interval."""
    if len(runs) < MIN_RUNS:
        return f"{len(runs)} of {MIN_RUNS} runs"
    logs, within = [], []
    for run in runs:
        if run.value is None or run.low is None or run.high is None:
            return f"of one run: {run.reason or 'no interval'}"
        if run.low <= 0:
            return "not above 0 in one run, so runs have no geometric mean"
        logs.append(math.log(run.value))
        within.append((math.log(run.high / run.low) / (2 * NORMAL_975)) ** 2)
    return LogMean(fmean(logs), (variance(logs) + fmean(within)) / len(runs), len(runs))


def _point(runs: Sequence[Estimate]) -> float | None:
    """Return the runs' geometric mean; None where one of them has no value, or none above 0: none is left out."""
    values = [run.value or 0.0 for run in runs]
    return math.exp(fmean(map(math.log, values))) if values and min(values) > 0 else None


def mean_over_runs(runs: Sequence[Estimate]) -> Estimate:
    """Return the runs' geometric mean with its interval, or the reason why it has none."""
    mean = log_mean(runs)
    if isinstance(mean, str):
        return Estimate(value=_point(runs), reason=mean)
    return _interval(mean.value, mean.variance, mean.runs - 1)


def ratio(runs: Sequence[Estimate], first: Sequence[Estimate]) -> Estimate:
    """Return a group's quantile over the first group's, with its interval, or the reason why it has none."""
    over, under = log_mean(runs), log_mean(first)
    if isinstance(over, str) or isinstance(under, str):
        top, bottom = _point(runs), _point(first)
        reason = over if isinstance(over, str) else f"first group: {under}"
        return Estimate(value=top / bottom if top and bottom else None, reason=reason)
    return _interval(over.value - under.value, over.variance + under.variance, _welch(over, under))


def _welch(one: LogMean, other: LogMean) -> float:
    both = one.variance + other.variance
    each = one.variance**2 / (one.runs - 1) + other.variance**2 / (other.runs - 1)
    return both**2 / each if each > 0 else min(one.runs, other.runs) - 1


def _interval(log_value: float, log_variance: float, degrees: float) -> Estimate:
    half = student_975(degrees) * math.sqrt(log_variance)
    return Estimate(value=math.exp(log_value), low=math.exp(log_value - half), high=math.exp(log_value + half))


def setting_comparisons(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[SettingComparison, ...]:
    """
    Compare each value of each of `SETTINGS` with its first one in the plan, all else being equal.

    Trials that are comparable in that as well, and no repeats of one another, are sides of their own.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan, which decides what is compared with what.
    """
    ordered = in_plan_order(trials, listed)
    return tuple(found for setting in SETTINGS for found in _compare_setting(setting, ordered))


def _compare_setting(setting: str, trials: Sequence[TrialSummary]) -> Iterator[SettingComparison]:
    comparable: dict[tuple[Setup, str, str], dict[str, _SettingSide]] = {}
    for trial in trials:
        if setting not in trial.setup:
            continue
        value, rest = json.dumps(trial.setup[setting]), drop_setting(trial.setup, setting)
        group, matrix = trial.group or trial.name, matrix_key(trial, re.compile(re.escape(setting)))
        for window in trial.windows:
            sides = comparable.setdefault((rest, window.phase, window.name), {})
            sides.setdefault(group, _SettingSide(value, group, matrix, [])).runs.append(window)
    for (_, phase, name), sides in comparable.items():
        for a, b in _pairs(list(sides.values())):
            yield _comparison(setting, (phase, name), a, b)


def _pairs(sides: Sequence[_SettingSide]) -> Iterator[tuple[_SettingSide, _SettingSide]]:
    """Pair each side of another value with one of the first value: of its own matrix, else the first."""
    firsts = [side for side in sides if side.value == sides[0].value]
    for other in sides:
        if other.value != sides[0].value:
            yield next((side for side in firsts if side.matrix == other.matrix), sides[0]), other


def _comparison(setting: str, place: tuple[str, str], a: _SettingSide, b: _SettingSide) -> SettingComparison:
    medians_a, medians_b = quantiles(a.runs, "p50"), quantiles(b.runs, "p50")
    rate_a, rate_b = (fmean(run.achieved_per_s for run in side.runs) for side in (a, b))
    return SettingComparison(
        setting=setting,
        a=a.value,
        b=b.value,
        group_a=a.group,
        group_b=b.group,
        phase=place[0],
        window=place[1],
        median_a_ms=_one_or_mean(medians_a),
        median_b_ms=_one_or_mean(medians_b),
        median_ratio=ratio(medians_b, medians_a),
        throughput_ratio=rate_b / rate_a if rate_a > 0 else None,
    )


def _one_or_mean(runs: Sequence[Estimate]) -> Estimate:
    """Return a single run's own quantile, whose interval speaks of that run; else the mean over runs."""
    return runs[0] if len(runs) == 1 else mean_over_runs(runs)
