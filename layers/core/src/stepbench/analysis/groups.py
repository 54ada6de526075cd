"""Repeats of a trial, taken together: each group's quantiles over its runs, by `stats.over_runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.across_trials import GroupResult, GroupWindow
from stepbench.contracts.experiment import HEADLINE_QUANTILES
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.contracts.result import TrialSummary


def group_results(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[GroupResult, ...]:
    """
    Return one result for each group; none for a plan without repeats and matrix.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan. Others come after them, in the order of their first trials.
    """
    if not any(trial.repeat or trial.point for trial in trials):
        return ()
    groups: dict[str, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(trial.group or trial.name, []).append(trial)
    names = sorted(groups, key=lambda name: listed.index(name) if name in listed else len(listed))
    return tuple(_group(name, groups[name]) for name in names)


def _group(name: str, members: Sequence[TrialSummary]) -> GroupResult:
    runs: dict[tuple[str, str], list[WindowResult]] = {}
    for trial in members:
        for window in trial.windows:
            own = runs.setdefault((window.phase, window.name), [])
            if not trial.incomplete:
                own.append(window)
    windows = [_window(key, own) for key, own in runs.items()]
    return GroupResult(
        name=name, trials=tuple(trial.index for trial in members), point=members[0].point, windows=tuple(windows)
    )


def _window(key: tuple[str, str], runs: list[WindowResult]) -> GroupWindow:
    return GroupWindow(
        phase=key[0],
        window=key[1],
        runs=len(runs),
        **{name: mean_over_runs(quantiles(runs, name)) for name in HEADLINE_QUANTILES},
    )


def quantiles(runs: Sequence[WindowResult], name: str) -> list[Estimate]:
    """Return each run's own latency at a quantile."""
    return [getattr(run.latency_ms, name) for run in runs]
