"""
What a run is expected to take, from nothing to its report: its load, what orchestration adds, and its cost.

Also, as pure functions of the queue's entries, who waits for whom there, and for how long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.plan import offered_plan
from stepbench.costs import assumptions
from stepbench.costs.assumptions import offered_s as expected_s
from stepbench.costs.assumptions import share_needed
from stepbench.experiments.estimates import estimate
from stepbench.experiments.registry import experiment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.contracts.runs import QueueEntry
    from stepbench.costs.assumptions import Assumptions
    from stepbench.settings import Settings


@dataclass(frozen=True)
class Overheads:
    """
    Orchestration adds so many seconds: a guess for the time left, and for nothing else.

    writer_s: before a phase, for each writer but the first. invoked_s: before one with invocations, instead of both.
    metrics_s: after a phase whose utilisation is asked for.
    """

    prepare_s: float
    phase_s: float
    finish_s: float
    report_s: float
    writer_s: float = 0
    invoked_s: float = 4
    metrics_s: float = 0
    assumed: Assumptions = assumptions.AWS


LOCAL = Overheads(
    prepare_s=1.5,
    phase_s=4.5,
    finish_s=2.5,
    report_s=2.5,
    writer_s=0.6,
    invoked_s=1.3,
    metrics_s=1,
    assumed=assumptions.LOCAL,
)
"""Measured on two cores, idle and busy: `tests/unit/costs/test_estimates.py` has the runs."""
_OVERDUE, _WAITS_S = 10, 3_600
AWS = Overheads(prepare_s=60, phase_s=38, finish_s=60, report_s=20, writer_s=0.02, metrics_s=90)


class Expected(NamedTuple):
    """What a run is expected to be: how many trials and events, seconds of load and in all, and US dollars."""

    trials: int
    events: int
    load_s: float
    expected_s: float
    estimate_usd: float


def expected(trials: Sequence[AnyTrial], settings: Settings, *, aborts: bool) -> Expected:
    """Return what a run of these trials is expected to be on a stack; `aborts`: thresholds may end their phases."""
    overheads = overheads_of(settings)
    assumed = replace(overheads.assumed, aborts=aborts)
    return Expected(
        trials=len(trials),
        events=sum(trial.events for trial in trials),
        load_s=sum(offered_load_s(trial, overheads) for trial in trials),
        expected_s=run_s(trials, overheads),
        estimate_usd=sum(estimate(trial, assumed).total_usd for trial in trials),
    )


def overheads_of(settings: Settings) -> Overheads:
    """Return what orchestration adds where a stack is."""
    return LOCAL if settings.emulator else AWS


def trial_s(plan: AnyTrial, overheads: Overheads) -> float:
    """Return how many seconds a trial takes, from nothing to torn down."""
    load_s = offered_load_s(plan, overheads)
    return overheads.prepare_s + load_s + between_s(plan, plan.run_phases, overheads) + overheads.finish_s


def offered_load_s(plan: AnyTrial, overheads: Overheads) -> float:
    """Return how many seconds of a trial are load and rests."""
    return experiment_of(plan.experiment).offering.load_s(plan, overheads.assumed)


def offered_s(plan: TrialPlan, phase: Phase, overheads: Overheads) -> float:
    """Return how long a phase's load takes: of a DAG's executions, clients begin the next when the last has ended."""
    return expected_s(plan, phase, overheads.assumed)


def run_s(trials: Iterable[AnyTrial], overheads: Overheads) -> float:
    """Return how many seconds a run of these trials takes, until its report."""
    return sum(trial_s(plan, overheads) for plan in trials) + overheads.report_s


def overdue_s(trials: Sequence[AnyTrial], overheads: Overheads) -> float:
    """Return after how many seconds something is wrong with a run: a trial may await a lease, and be prepared twice."""
    return _OVERDUE * run_s(trials, overheads) + _WAITS_S * len(trials)


def between_s(plan: AnyTrial, phases: Iterable[Phase], overheads: Overheads) -> float:
    """Return what orchestration adds to these phases of a trial: nothing where one follows without a gap."""
    before_s = overheads.phase_s + overheads.writer_s * (plan.writers - 1)
    return sum(
        (overheads.invoked_s if phase.invoked else before_s) * (not phase.gapless) * _share(plan, phase)
        + overheads.metrics_s * (phase.probe or phase.uses_found_rate) * _share(plan, phase)
        for phase in phases
    )


def _share(plan: AnyTrial, phase: Phase) -> float:
    """Return which share of a search's probes is made."""
    return share_needed(offered_plan(plan), phase) if phase.probe else 1


def ahead_of(entry: QueueEntry, entries: Iterable[QueueEntry]) -> tuple[QueueEntry, ...]:
    """Return the runs that a waiting one waits for, in the order in which they go: those that run come first."""
    if entry.admitted_at:
        return ()
    entries = list(entries)
    found = [each for each in entries if each.admitted_at]
    found += [each for each in _waiting(entries) if each.order < entry.order]
    return tuple(each for each in found if not set(each.targets).isdisjoint(entry.targets))


def expected_starts(entries: Iterable[QueueEntry], now: datetime) -> dict[str, datetime]:
    """Return when each waiting run should have its turn, by run id; a run that is late is expected to end now."""
    entries = list(entries)
    free_at: dict[str, datetime] = {}
    for entry in entries:
        if entry.admitted_at:
            ends_at = max(now, entry.admitted_at + timedelta(seconds=entry.expected_s))
            free_at.update(dict.fromkeys(entry.targets, ends_at))
    starts = {}
    for entry in _waiting(entries):
        starts[entry.run_id] = start = max([now, *(free_at.get(target, now) for target in entry.targets)])
        free_at.update(dict.fromkeys(entry.targets, start + timedelta(seconds=entry.expected_s)))
    return starts


def _waiting(entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    return sorted((entry for entry in entries if not entry.admitted_at), key=lambda entry: entry.order)
