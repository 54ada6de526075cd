"""
Runs taken together, and set against other runs; in plain Python, since the report's function starts without NumPy.

Of each run only its quantile with its interval is needed, so the summaries hold all that goes in here. How far runs lie
apart is a part of every number's uncertainty.

The quantile of several runs is the geometric mean of the runs' own. Resampling runs first and then blocks of time
within each of them has, with ever more draws, a variance in closed form, on the logarithmic scale

    s² / R + v / R

where s² is the variance between the runs' quantiles and v the mean of the variances within runs, as their own
intervals, from resampling blocks, show them. (Of the first, resampling sees only (R - 1) / R, which is mended here.)
The interval is that many standard errors wide as Student's t with R - 1 degrees of freedom says; a percentile
interval of three runs would cover three quarters of the time, whatever it was asked for.

A run of fewer than six observations has a median, and no interval of it; nor has a quantile where too few of a run's
events are independent of one another, however many there are. Where there are such runs, v is left out: s² is of the
runs' values as they are, with what is uncertain within them, and is by itself an unbiased estimate of their variance.
Of so few independent events that not one is expected beyond the quantile, the run's own is biased, in all runs alike:
such a run has no value that goes in here.
Of other quantiles a run of few events says nothing: those need intervals of their own.

Of fewer than `MIN_RUNS` runs nothing is known of how far runs lie apart. A ratio of such has the interval of these very
runs: the limits of the two sides put together (MOVER), from the lowest to the highest over all pairs of runs.

Source:
    Kalibera & Jones (2013), Rigorous benchmarking in reasonable time, ISMM 2013, sections 4 and 5 (runs, then what is
    within; intervals of ratios); Davison & Hinkley (1997), Bootstrap Methods and their Application, section 3.8 (the
    variance of resampling in two stages); Welch (1947), Biometrika 34 (degrees of freedom of a difference); Donner &
    Zou (2012), Statistical Methods in Medical Research 21(4) (limits of a ratio from those of its parts).
"""

from __future__ import annotations

import math
import re
from statistics import fmean, variance
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.measures import Estimate
from stepbench.stats.tails import NORMAL_975, student_975

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_RUNS = 3
TOO_FEW_FOR_A_MEDIAN = "< 6"
"""The end of the reason why a median has no interval."""
_DEPENDENT = re.compile(r"(\d+) of (\d+) independent < (\d+)")
_MIN_INDEPENDENT = 6
_SAMPLE_BEYOND_ONE = -math.log(0.025)
"""The sample that an interval of a quantile needs is so many times as large as that with one event expected beyond."""
_POWER = 0.8416212335729143
"""80 % of the standard normal distribution lie below it."""


class Dependence(NamedTuple):
    """Enough events of a run for a quantile, of which too few are independent of one another."""

    independent: int
    events: int
    needed: int

    @property
    def counts_over_runs(self) -> bool:
        """Return whether the run's quantile goes in with other runs': one independent event is expected beyond it."""
        return self.independent >= max(_MIN_INDEPENDENT, self.needed / _SAMPLE_BEYOND_ONE)


class LogMean(NamedTuple):
    """A mean of logarithms has a variance, and a number of runs behind it."""

    value: float
    variance: float
    runs: int


def dependence_in(reason: str) -> Dependence | None:
    """Return the dependence that a reason names, where there would be enough events without it."""
    found = _DEPENDENT.fullmatch(reason)
    dependence = Dependence(*map(int, found.groups())) if found else None
    return dependence if dependence and dependence.events >= dependence.needed else None


def log_mean(runs: Sequence[Estimate]) -> LogMean | str:
    """Return the runs' mean on the logarithmic scale, or the reason why it has no interval."""
    if len(runs) < MIN_RUNS:
        return f"{len(runs)} of {MIN_RUNS} runs"
    bounded = [run for run in runs if not _is_short(run)]
    reason = _without_limits(bounded) if bounded else ""
    if reason:
        return reason
    logs = [math.log(run.value or 1) for run in runs]
    within = fmean(map(_variance_within, runs)) if len(bounded) == len(runs) else 0.0
    return LogMean(fmean(logs), (variance(logs) + within) / len(runs), len(runs))


def _is_short(run: Estimate) -> bool:
    """Return whether a run has a value without an interval that is as good as any: of few or dependent ones."""
    if not run.value or run.value <= 0 or run.low is not None:
        return False
    reason = run.reason or ""
    if dependence := dependence_in(reason):
        return dependence.counts_over_runs
    return reason.endswith(TOO_FEW_FOR_A_MEDIAN)


def mean_over_runs(runs: Sequence[Estimate]) -> Estimate:
    """Return the runs' geometric mean with its interval, or the reason why it has none."""
    mean = log_mean(runs)
    if isinstance(mean, str):
        return Estimate(value=_point(runs), reason=mean)
    return log_interval(mean.value, mean.variance, mean.runs - 1)


def mean_of_windows(windows: Sequence[Estimate]) -> Estimate:
    """Return one run's geometric mean over its windows, each of the same weight, or the reason for no interval."""
    value, reason = _point(windows), _without_limits(windows)
    if value is None or reason:
        return Estimate(value=value, reason=reason or "no value")
    down, up = (math.hypot(*arms) / len(windows) for arms in zip(*map(_arms, windows), strict=True))
    return Estimate(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def ratio(above: Sequence[Estimate], below: Sequence[Estimate]) -> Estimate:
    """
    Return runs over other runs, with its interval or the reason why it has none.

    The interval speaks of further runs, too, where there are `MIN_RUNS` on either side; otherwise of these alone.
    """
    over, under = log_mean(above), log_mean(below)
    if not isinstance(over, str) and not isinstance(under, str):
        return log_interval(over.value - under.value, over.variance + under.variance, _welch(over, under))
    reason = _without_limits(above) or _without_limits(below)
    return _with_hull(above, below, [(b, a) for b in above for a in below], reason)


def paired_ratio(above: Sequence[Estimate], below: Sequence[Estimate]) -> Estimate:
    """
    Return the same of two windows of each run: what runs have in common cancels out.

    Args:
        above: one estimate a run.
        below: of the same runs, in their order.
    """
    reason = _without_limits(above) or _without_limits(below)
    pairs = list(zip(above, below, strict=True))
    if reason or len(pairs) < MIN_RUNS:
        return _with_hull(above, below, pairs, reason)
    logs = [math.log((b.value or 1) / (a.value or 1)) for b, a in pairs]
    within = fmean(map(_variance_within, above)) + fmean(map(_variance_within, below))
    return log_interval(fmean(logs), (variance(logs) + within) / len(logs), len(logs) - 1)


def runs_to_show(above: Sequence[Estimate], below: Sequence[Estimate], difference: float, most: int) -> int | None:
    """
    Return how many runs on either side would show a true difference in four of five cases.

    Args:
        above: `MIN_RUNS` runs or more, as for `ratio`.
        below: likewise.
        difference: as a ratio above 1: 1.1 is 10 %.
        most: so many are tried.

    Returns:
        None where their variance is not known, or where so many would not do.
    """
    over, under = log_mean(above), log_mean(below)
    if isinstance(over, str) or isinstance(under, str):
        return None
    of_one_run = over.variance * over.runs + under.variance * under.runs
    for runs in range(MIN_RUNS, most + 1):
        if (student_975(2 * runs - 2) + _POWER) * math.sqrt(of_one_run / runs) <= math.log(difference):
            return runs
    return None


def times_longer_to_show(found: Estimate, difference: float) -> float | None:
    """
    Return how many times longer the same runs would have to be to show a true difference in four of five cases.

    Args:
        found: the ratio, whose interval is of these runs alone.
        difference: as a ratio above 1: 1.1 is 10 %.
    """
    if found.low is None or found.high is None or found.low <= 0:
        return None
    half = math.log(found.high / found.low) / 2
    return (half * (1 + _POWER / NORMAL_975) / math.log(difference)) ** 2


def share_interval(events: int, of: int) -> Estimate:
    """
    Return a share with its 95 % interval.

    Source:
        Wilson (1927), Journal of the American Statistical Association 22, without continuity correction.
    """
    if of == 0:
        return Estimate(value=None, reason="nothing was sent")
    share, z2 = events / of, NORMAL_975**2
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = NORMAL_975 * math.sqrt(share * (1 - share) / of + z2 / (4 * of**2)) / (1 + z2 / of)
    return Estimate(value=share, low=max(0.0, min(centre - half, share)), high=min(1.0, max(centre + half, share)))


def share_difference(b: Estimate, a: Estimate) -> Estimate:
    """
    Return share b minus share a with its 95 % interval, or the reason why there is none.

    Source:
        Newcombe (1998), Statistics in Medicine 17(8), method 10.
    """
    return difference(b, a, b.reason or a.reason, "no interval")


def difference(b: Estimate, a: Estimate, no_value: str | None, no_interval: str | None) -> Estimate:
    """
    Return b minus a, with the interval that their own two make, or the reason why there is no value or no interval.

    Source:
        Zou & Donner (2008), Statistics in Medicine 27(10) (a difference's interval from two intervals, "MOVER").
    """
    if b.value is None or a.value is None:
        return Estimate(value=None, reason=no_value)
    value = b.value - a.value
    if b.low is None or b.high is None or a.low is None or a.high is None:
        return Estimate(value=value, reason=no_interval)
    low, high = math.hypot(b.value - b.low, a.high - a.value), math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(value=value, low=value - low, high=value + high)


def _without_limits(runs: Sequence[Estimate]) -> str:
    """Return why the first run without an interval on the logarithmic scale has none; empty if all have one."""
    for run in runs:
        if run.value is None or run.low is None or run.high is None:
            return run.reason or "no interval"
        if run.low <= 0:
            return "not above 0, so there is no ratio"
    return "" if runs else "no run went through whole"


def _point(runs: Sequence[Estimate]) -> float | None:
    """Return the runs' geometric mean; None where one of them has no value, or none above 0: none is left out."""
    values = [run.value or 0.0 for run in runs]
    return math.exp(fmean(map(math.log, values))) if values and min(values) > 0 else None


def _with_hull(
    above: Sequence[Estimate], below: Sequence[Estimate], pairs: Sequence[tuple[Estimate, Estimate]], reason: str
) -> Estimate:
    top, bottom = _point(above), _point(below)
    value = top / bottom if top and bottom else None
    if value is None or reason:
        return Estimate(value=value, reason=reason or "no value")
    limits = [_pair_limits(b, a) for b, a in pairs]
    return Estimate(
        value=value, low=math.exp(min(low for low, _ in limits)), high=math.exp(max(high for _, high in limits))
    )


def _arms(run: Estimate) -> tuple[float, float]:
    """Return how far the interval's ends lie from the value, on the logarithmic scale."""
    value, low, high = run.value or 1.0, run.low or 1.0, run.high or 1.0
    return math.log(value / low), math.log(high / value)


def _variance_within(run: Estimate) -> float:
    """Return the variance that a run's own interval stands for, on the logarithmic scale."""
    return (sum(_arms(run)) / (2 * NORMAL_975)) ** 2


def _pair_limits(b: Estimate, a: Estimate) -> tuple[float, float]:
    """Return the limits of the logarithm of b over a."""
    centre = math.log((b.value or 1.0) / (a.value or 1.0))
    (b_down, b_up), (a_down, a_up) = _arms(b), _arms(a)
    return centre - math.hypot(b_down, a_up), centre + math.hypot(b_up, a_down)


def _welch(one: LogMean, other: LogMean) -> float:
    both = one.variance + other.variance
    each = one.variance**2 / (one.runs - 1) + other.variance**2 / (other.runs - 1)
    return both**2 / each if each > 0 else min(one.runs, other.runs) - 1


def log_interval(log_value: float, log_variance: float, degrees: float) -> Estimate:
    """Return the ratio whose logarithm has this value, variance and number of degrees of freedom."""
    half = student_975(degrees) * math.sqrt(log_variance)
    return Estimate(value=math.exp(log_value), low=math.exp(log_value - half), high=math.exp(log_value + half))
