"""
Throughput over the number of clients: trials that differ in nothing else, as one curve.

Of each trial only its summary is needed. In plain Python, since the report's function has no NumPy.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import takewhile
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.alike import Setup, beside_clients, but_for_clients, in_plan_order, matrix_words, setup_words
from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import ScalingCurve, ScalingPoint, TrialSummary
from stepbench.errors import InsufficientSampleError
from stepbench.stats.scalability import scalability

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.stats.scalability import Scalability

_SEED = 7
_SEPARATOR = re.compile(r"([-_.])")


class _Run(NamedTuple):
    """One window of one trial."""

    trial: TrialSummary
    clients: int
    throughput_per_s: float
    saturated: bool


class _Ladder(NamedTuple):
    """What makes one curve."""

    phase: str
    window: str
    runs: Sequence[_Run]

    @property
    def place(self) -> tuple[str, str, str]:
        """The trials' common name, phase and window."""
        return _common_name([run.trial for run in self.runs]), self.phase, self.window


def scaling_curves(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[ScalingCurve, ...]:
    """
    One for each window of trials that differ in their numbers of clients only, in what grows with them, and in repeats.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan.
    """
    alike: dict[tuple[Setup, str, str], list[_Run]] = {}
    for trial in in_plan_order(trials, listed):
        for phase, window, run in _runs(trial):
            alike.setdefault((but_for_clients(trial.setup), phase, window), []).append(run)
    found = [_Ladder(phase, window, part) for (_, phase, window), runs in alike.items() for part in _parts(runs)]
    ladders = [ladder for ladder in found if len({run.clients for run in ladder.runs}) > 1]
    return tuple(_curve(_name(ladder, ladders), ladder) for ladder in ladders)


def _runs(trial: TrialSummary) -> Iterator[tuple[str, str, _Run]]:
    """Its windows under closed-loop load in which anything was acknowledged."""
    for window in trial.windows:
        found = window.operations
        if found and found.clients and window.achieved_per_s > 0:
            yield window.phase, window.name, _Run(trial, found.clients, window.achieved_per_s, found.held_back)


def _parts(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    """All of them, or apart where as many clients had ten writers in one trial, and one in another."""
    parts: dict[tuple[Setup, str, str], list[_Run]] = {}
    for run in runs:
        parts.setdefault(beside_clients(run.trial), []).append(run)
    ways = Counter(clients for part in parts.values() for clients in {run.clients for run in part})
    yield from ([list(runs)] if max(ways.values()) == 1 else parts.values())


def _common_name(trials: Sequence[TrialSummary]) -> str:
    """Of one matrix its name, or its store's; of trials written out the words that their names begin with."""
    bases = {trial.base for trial in trials}
    if len(bases) == 1 and all(trial.point for trial in trials):
        rest = matrix_words(trials[0])
        return (trials[0].base or trials[0].store) + (f", {rest}" if rest else "")
    names = [_SEPARATOR.split(trial.group or trial.name) for trial in trials]
    shared = takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
    return "".join(words[0] for words in shared).rstrip("-_.") or trials[0].store


def _name(ladder: _Ladder, ladders: Sequence[_Ladder]) -> str:
    """The common name; with what it takes to tell it from another curve of that name."""
    first, name = ladder.runs[0].trial, ladder.place[0]
    same = [other.runs[0].trial for other in ladders if other is not ladder and other.place == ladder.place]
    differs = setup_words(first, same)
    return f"{name}, {differs}" if differs else name


def _curve(name: str, ladder: _Ladder) -> ScalingCurve:
    runs = ladder.runs
    own = [run for run in runs if not run.saturated]
    found = _fitted(own, left_out=len(runs) - len(own))
    rate, contention, coherency, knee, peak = _estimates(found)
    levels = sorted({run.clients for run in runs})
    points = tuple(_point([run for run in runs if run.clients == clients], found) for clients in levels)
    return ScalingCurve(
        name=name,
        window=ladder.window,
        phase=ladder.phase,
        points=points,
        rate_per_s=rate,
        contention=contention,
        coherency=coherency,
        knee_clients=knee,
        peak_per_s=peak,
        generator_limit_per_s=_limit(runs),
    )


def _limit(runs: Sequence[_Run]) -> float | None:
    """
    The generator's own, where it shows: it holds back all runs from some number of clients on, and none went beyond.

    With one client and a fast store the share may be as large, and nothing is at its limit.
    """
    own = [run for run in runs if not run.saturated]
    most = max((run.clients for run in own), default=0)
    held_back = [run.throughput_per_s for run in runs if run.saturated and run.clients > most]
    limit = max(held_back, default=None)
    return None if limit is None or any(run.throughput_per_s > limit for run in own) else limit


def _fitted(runs: Sequence[_Run], left_out: int) -> Scalability | str:
    """The law through the runs that are the store's, or the reason why there is none."""
    try:
        return scalability(
            [float(run.clients) for run in runs],
            [run.throughput_per_s for run in runs],
            random.Random(_SEED),  # noqa: S311 -- resampling, no secret
        )
    except InsufficientSampleError as shortage:
        return f"{shortage}, without the {left_out} left out" if left_out else str(shortage)


def _estimates(found: Scalability | str) -> tuple[Estimate, Estimate, Estimate, Estimate, Estimate]:
    """One client's rate, contention, coherency, knee, peak."""
    if isinstance(found, str):
        none = Estimate(value=None, reason=found)
        return none, none, none, none, none
    return found.lambda_per_s, found.sigma, found.kappa, found.knee, found.peak_per_s


def _point(runs: Sequence[_Run], found: Scalability | str) -> ScalingPoint:
    clients = runs[0].clients
    return ScalingPoint(
        clients=clients,
        trials=tuple(run.trial.index for run in runs),
        throughput_per_s=fmean(run.throughput_per_s for run in runs),
        fitted_per_s=None if isinstance(found, str) else found.curve.throughput(clients),
        kept_runs=sum(not run.saturated for run in runs),
        saturated=all(run.saturated for run in runs),
    )
