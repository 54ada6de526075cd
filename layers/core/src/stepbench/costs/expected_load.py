"""How much load a trial is expected to offer, and for how long, where its plan says only what it offers at most."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from stepbench.contracts.experiment import QUANTILES

if TYPE_CHECKING:
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.costs.assumptions import Assumptions

FEWEST_PROBES = 2
"""A search needs a rate that is too low, and one that is not."""
FOUND_SHARE = 0.5
"""Of the highest rate that it may try: who writes a plan has an idea of where the store's limit is."""
LOG_DEVIATION = 0.5
"""Of latencies, as their logarithms deviate."""


def events(trial: TrialPlan, assumed: Assumptions) -> int:
    """Return how many events all phases offer."""
    return sum(events_of(trial, phase, assumed) for phase in trial.run_phases)


def load_s(trial: TrialPlan, assumed: Assumptions) -> float:
    """Return how long all phases take with their rests, without orchestration."""
    return sum(phase.settle_s + offered_s(trial, phase, assumed) for phase in trial.run_phases)


def events_of(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> int:
    """Return how many events a phase offers: at most, or as expected of the store."""
    most = trial.events_of(phase)
    if not assumed.expected:
        return most
    if phase.closed is not None:
        return min(most, math.ceil(phase.closed.duration_s * _closed_per_s(trial, phase, assumed)))
    found_per_s = math.inf if trial.find_rate is None else FOUND_SHARE * trial.find_rate.high_per_s
    share = share_needed(trial, phase)
    if phase.probe:
        return math.ceil(share * phase.length_s * min(found_per_s, phase.load[0].rate_per_s))
    rates = ((min(step.rate_per_s, (step.of_found or math.inf) * found_per_s), step) for step in phase.steps)
    return math.ceil(share * sum(step.count or rate * step.length_s for rate, step in rates))


def offered_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how long a phase's load takes: clients of a closed loop may be done before its time is up."""
    if not assumed.expected:
        return phase.length_s
    if trial.dags and phase.closed is None:
        return phase.length_s + execution_s(trial, phase, assumed)
    if phase.closed is None:
        return phase.length_s * share_needed(trial, phase)
    if phase.closed.operations is None:
        return phase.length_s
    if trial.dags:
        in_turn_s = math.ceil(phase.closed.operations / phase.closed.clients) * execution_s(trial, phase, assumed)
    else:
        in_turn_s = phase.closed.operations / _closed_per_s(trial, phase, assumed)
    return min(phase.length_s, in_turn_s)


def execution_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how long an execution of the phase's DAG takes: on each level the longest task, and orchestration."""
    levels = trial.dag_of(phase).levels
    return sum(assumed.level_s + max(assumed.task_of(stage) for stage in level) for level in levels)


WORTH_ONE = 10
"""So many events of a store tell as much as one independent one: counted were 1 to 21."""


def share_needed(trial: TrialPlan, phase: Phase) -> float:
    """
    Return the share of a phase that is run, of one that goes on until something is known; 1 of the others.

    A quantile of n independent log-normal times has an interval whose relative width is as 1 / sqrt(n). Of how many
    probes a search needs nothing is known: between the least and the most the geometric mean is as near to both as may
    be.
    """
    if phase.until is not None:
        planned = sum(step.events for step in phase.load)
        needed = WORTH_ONE * (_width(QUANTILES[phase.until.metric]) / phase.until.relative_width) ** 2
        return min(max(needed, planned), phase.until.max_events) / phase.until.max_events
    if phase.probe and trial.find_rate is not None:
        return math.sqrt(FEWEST_PROBES / trial.find_rate.probes)
    return 1.0


def _width(q: float) -> float:
    """Return the relative width of a quantile's 95 % interval, times sqrt(n), by its asymptotic distribution."""
    normal = NormalDist()
    return 2 * normal.inv_cdf(0.975) * math.sqrt(q * (1 - q)) / normal.pdf(normal.inv_cdf(q)) * LOG_DEVIATION


def _closed_per_s(trial: TrialPlan, phase: Phase, assumed: Assumptions) -> float:
    """Return how many operations a closed loop's clients make a second."""
    if phase.closed is None or assumed.answer_s is None:
        return math.inf
    answer_s = execution_s(trial, phase, assumed) if trial.dags else assumed.answer_of(trial)
    per_s = phase.closed.clients / (phase.closed.think_ms / 1e3 + answer_s)
    return min(per_s, assumed.most_of(trial.target.store, trial.writers))
