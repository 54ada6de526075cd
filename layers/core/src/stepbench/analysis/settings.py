"""
Operations with one setting changed: store, TLS, cluster, region, connection reuse.

Of each trial only its summary is needed. In plain Python, since the report's function has no NumPy.
"""

from __future__ import annotations

import json
import re
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.alike import SETTINGS, Setup, but_for_setting, in_matrix, in_plan_order
from stepbench.analysis.groups import MIN_RUNS, estimate, log_mean, quantiles, ratio
from stepbench.contracts.measures import Estimate, SettingComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary


class _Side(NamedTuple):
    """The repeats of one trial in one window; `matrix`: see `in_matrix`."""

    value: str
    group: str
    matrix: tuple[str, str]
    runs: list[WindowResult]


def setting_comparisons(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[SettingComparison, ...]:
    """
    Each value of each of `SETTINGS` against its first one in the plan, all else being equal.

    Trials that are alike in that as well, and no repeats of one another, are sides of their own.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan, which decides what is compared with what.
    """
    ordered = in_plan_order(trials, listed)
    return tuple(found for setting in SETTINGS for found in _of_setting(setting, ordered))


def _of_setting(setting: str, trials: Sequence[TrialSummary]) -> Iterator[SettingComparison]:
    alike: dict[tuple[Setup, str, str], dict[str, _Side]] = {}
    for trial in trials:
        if setting not in trial.setup:
            continue
        value, rest = json.dumps(trial.setup[setting]), but_for_setting(trial.setup, setting)
        group, matrix = trial.group or trial.name, in_matrix(trial, re.compile(re.escape(setting)))
        for window in trial.windows:
            sides = alike.setdefault((rest, window.phase, window.name), {})
            sides.setdefault(group, _Side(value, group, matrix, [])).runs.append(window)
    for (_, phase, name), sides in alike.items():
        for a, b in _pairs(list(sides.values())):
            yield _comparison(setting, (phase, name), a, b)


def _pairs(sides: Sequence[_Side]) -> Iterator[tuple[_Side, _Side]]:
    """Each of another value beside one of the first value: of its own matrix where there is one, else the first."""
    firsts = [side for side in sides if side.value == sides[0].value]
    for other in sides:
        if other.value != sides[0].value:
            yield next((side for side in firsts if side.matrix == other.matrix), sides[0]), other


def _comparison(setting: str, place: tuple[str, str], a: _Side, b: _Side) -> SettingComparison:
    of_a, of_b = quantiles(a.runs, "p50"), quantiles(b.runs, "p50")
    rate_a, rate_b = (fmean(run.achieved_per_s for run in side.runs) for side in (a, b))
    return SettingComparison(
        setting=setting,
        a=a.value,
        b=b.value,
        group_a=a.group,
        group_b=b.group,
        phase=place[0],
        window=place[1],
        median_a_ms=_median(of_a),
        median_b_ms=_median(of_b),
        median_ratio=_ratio(of_b, of_a),
        throughput_ratio=rate_b / rate_a if rate_a > 0 else None,
    )


def _median(runs: Sequence[Estimate]) -> Estimate:
    """A single run's own; over three runs and more their geometric mean."""
    return runs[0] if len(runs) == 1 else estimate(log_mean(runs)) if len(runs) >= MIN_RUNS else _middle(runs)


def _ratio(over: Sequence[Estimate], under: Sequence[Estimate]) -> Estimate:
    """Without repeats there is a ratio, but nobody knows how far the next run would be from it."""
    found = ratio(over, under)
    if found.value is not None:
        return found
    top, bottom = _middle(over), _middle(under)
    if top.value is None or not bottom.value:
        return Estimate(value=None, reason=top.reason or bottom.reason or "no median")
    fewest = min(len(over), len(under))
    why = f"{fewest} of {MIN_RUNS} runs" if fewest < MIN_RUNS else (found.reason or "no value")
    return Estimate(value=top.value / bottom.value, reason=f"no interval: {why}")


def _middle(runs: Sequence[Estimate]) -> Estimate:
    values = [run.value for run in runs if run.value is not None]
    if len(values) < len(runs):
        return Estimate(value=None, reason=next(run.reason for run in runs if run.value is None))
    return Estimate(value=median(values), reason=f"{len(runs)} of {MIN_RUNS} runs")
