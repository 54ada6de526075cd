"""
Repeats of a trial, taken together: how far apart runs are is part of every number's doubt.

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

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.measures import Estimate, GroupWindow
from stepbench.contracts.result import GroupResult
from stepbench.stats.student import NORMAL_975, student_975

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary

MIN_RUNS = 3
QUANTILES = ("p50", "p90", "p95", "p99")


class LogMean(NamedTuple):
    """A mean of logarithms, the variance of that mean, and how many runs are behind it."""

    value: float
    variance: float
    runs: int


def group_results(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[GroupResult, ...]:
    """
    One for each group; none of a plan without repeats and matrix.

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
        name=name,
        trials=tuple(trial.index for trial in members),
        point=members[0].point,
        windows=tuple(windows),
    )


def _window(key: tuple[str, str], runs: list[WindowResult], first: list[WindowResult]) -> GroupWindow:
    p50, p90, p95, p99 = (estimate(log_mean(quantiles(runs, name))) for name in QUANTILES)
    return GroupWindow(
        phase=key[0],
        window=key[1],
        runs=len(runs),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        median_ratio=None if first is runs else ratio(quantiles(runs, "p50"), quantiles(first, "p50")),
    )


def quantiles(runs: Sequence[WindowResult], name: str) -> list[Estimate]:
    """Each run's own latency at a quantile."""
    return [getattr(run.latency_ms, name) for run in runs]


def log_mean(runs: Sequence[Estimate]) -> LogMean | str:
    """The runs' mean on the logarithmic scale, or the reason why it has no interval."""
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


def ratio(runs: Sequence[Estimate], first: Sequence[Estimate]) -> Estimate:
    """A group's quantile over the first group's, with its interval, or the reason why there is none."""
    over, under = log_mean(runs), log_mean(first)
    if isinstance(over, str):
        return Estimate(value=None, reason=over)
    if isinstance(under, str):
        return Estimate(value=None, reason=f"first group: {under}")
    return _interval(over.value - under.value, over.variance + under.variance, _welch(over, under))


def _welch(one: LogMean, other: LogMean) -> float:
    both = one.variance + other.variance
    each = one.variance**2 / (one.runs - 1) + other.variance**2 / (other.runs - 1)
    return both**2 / each if each > 0 else min(one.runs, other.runs) - 1


def estimate(mean: LogMean | str) -> Estimate:
    """The mean with its interval, or the reason why there is none."""
    if isinstance(mean, str):
        return Estimate(value=None, reason=mean)
    return _interval(mean.value, mean.variance, mean.runs - 1)


def _interval(log_value: float, log_variance: float, degrees: float) -> Estimate:
    half = student_975(degrees) * math.sqrt(log_variance)
    return Estimate(value=math.exp(log_value), low=math.exp(log_value - half), high=math.exp(log_value + half))
