"""
Throughput over the number of clients: trials that differ in nothing else make one curve.

Only each trial's summary is needed. In plain Python, but for the fit, since the report's function starts without NumPy.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import takewhile
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.comparability import (
    Setup,
    drop_clients,
    format_matrix_point,
    format_setup_difference,
    growth_key,
    in_plan_order,
)
from stepbench.contracts.across_trials import ScalingCurve, ScalingPoint
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import TrialSummary
from stepbench.errors import InsufficientSampleError
from stepbench.stats.scalability import scalability

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.stats.scalability import Scalability

_SEED = 7
_SEPARATOR = re.compile(r"([-_.])")


class _ScalingRun(NamedTuple):
    """It is one window of one trial."""

    trial: TrialSummary
    clients: int
    throughput_per_s: float
    saturated: bool


class _CurveRuns(NamedTuple):
    """It holds the runs that make one curve."""

    phase: str
    window: str
    runs: Sequence[_ScalingRun]

    @property
    def place(self) -> tuple[str, str, str]:
        """Return the trials' common name, phase and window."""
        return _common_name([run.trial for run in self.runs]), self.phase, self.window


def scaling_curves(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[ScalingCurve, ...]:
    """
    Fit a curve to each window of trials that differ only in clients, what grows with them, and repeats.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan.
    """
    comparable: dict[tuple[Setup, str, str], list[_ScalingRun]] = {}
    operations = [trial for trial in trials if trial.experiment == "operations"]
    for trial in in_plan_order(operations, listed):
        for phase, window, run in _runs(trial):
            comparable.setdefault((drop_clients(trial.setup), phase, window), []).append(run)
    found = [
        _CurveRuns(phase, window, part) for (_, phase, window), runs in comparable.items() for part in _parts(runs)
    ]
    curves = [curve for curve in found if len({run.clients for run in curve.runs}) > 1]
    return tuple(_curve(_name(curve, curves), curve) for curve in curves)


def _runs(trial: TrialSummary) -> Iterator[tuple[str, str, _ScalingRun]]:
    """Yield the windows of clients that wait in which anything was acknowledged; who does one operation is none."""
    for window in trial.windows:
        found = window.operations
        if found and found.invocations and found.invocations.operations_each == 1:
            continue
        if found and found.clients and window.throughput_per_s > 0:
            yield window.phase, window.name, _ScalingRun(trial, found.clients, window.throughput_per_s, found.held_back)


def _parts(runs: Sequence[_ScalingRun]) -> Iterator[list[_ScalingRun]]:
    """Yield the runs, apart where as many clients had ten writers in one trial, and one in another."""
    parts: dict[tuple[Setup, str, str], list[_ScalingRun]] = {}
    for run in runs:
        parts.setdefault(growth_key(run.trial), []).append(run)
    part_counts = Counter(clients for part in parts.values() for clients in {run.clients for run in part})
    yield from ([list(runs)] if max(part_counts.values()) == 1 else parts.values())


def _common_name(trials: Sequence[TrialSummary]) -> str:
    """Return the name of the trials' one matrix, or its store; else what all their names begin with."""
    bases = {trial.base for trial in trials}
    if len(bases) == 1 and all(trial.point for trial in trials):
        rest = format_matrix_point(trials[0])
        return (trials[0].base or trials[0].store) + (f", {rest}" if rest else "")
    names = [_SEPARATOR.split(trial.group or trial.name) for trial in trials]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))
    return "".join(parts[0] for parts in shared).rstrip("-_.") or trials[0].store


def _name(curve: _CurveRuns, curves: Sequence[_CurveRuns]) -> str:
    """Return the common name, with what distinguishes the curve from another one of that name."""
    first, name = curve.runs[0].trial, curve.place[0]
    same = [other.runs[0].trial for other in curves if other is not curve and other.place == curve.place]
    differs = format_setup_difference(first, same)
    return f"{name}, {differs}" if differs else name


def _curve(name: str, curve: _CurveRuns) -> ScalingCurve:
    runs = curve.runs
    own = [run for run in runs if not run.saturated]
    found = _fitted(own, left_out=len(runs) - len(own))
    none = Estimate(value=None, reason=found if isinstance(found, str) else None)
    law = None if isinstance(found, str) else found
    levels = sorted({run.clients for run in runs})
    return ScalingCurve(
        name=name,
        window=curve.window,
        phase=curve.phase,
        points=tuple(_point([run for run in runs if run.clients == clients], law) for clients in levels),
        rate_per_s=law.lambda_per_s if law else none,
        contention=law.sigma if law else none,
        coherency=law.kappa if law else none,
        knee_clients=law.knee if law else none,
        peak_per_s=law.peak_per_s if law else none,
        generator_limit_per_s=_limit(runs),
    )


def _limit(runs: Sequence[_ScalingRun]) -> float | None:
    """
    Return the generator's limit: it holds back all runs from some number of clients on, and none went beyond.

    With one client and a fast store the share may be as large, and nothing is at its limit.
    """
    own = [run for run in runs if not run.saturated]
    most = max((run.clients for run in own), default=0)
    held_back = [run.throughput_per_s for run in runs if run.saturated and run.clients > most]
    limit = max(held_back, default=None)
    return None if limit is None or any(run.throughput_per_s > limit for run in own) else limit


def _fitted(runs: Sequence[_ScalingRun], left_out: int) -> Scalability | str:
    """Fit the law to the runs that are the store's, or return the reason why there is none."""
    try:
        return scalability(
            [float(run.clients) for run in runs],
            [run.throughput_per_s for run in runs],
            random.Random(_SEED),  # noqa: S311 -- resampling, no secret
        )
    except InsufficientSampleError as shortage:
        return f"{shortage}, without the {left_out} left out" if left_out else str(shortage)


def _point(runs: Sequence[_ScalingRun], law: Scalability | None) -> ScalingPoint:
    clients = runs[0].clients
    return ScalingPoint(
        clients=clients,
        trials=tuple(run.trial.index for run in runs),
        throughput_per_s=fmean(run.throughput_per_s for run in runs),
        fitted_per_s=law.curve.throughput(clients) if law else None,
        kept_runs=sum(not run.saturated for run in runs),
        saturated=all(run.saturated for run in runs),
    )
