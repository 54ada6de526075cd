"""How long a plan takes, from nothing to its report: its load, and what orchestration adds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.contracts.transfer import EXPECTED_MIB_PER_S, START_S, TransferTrial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialPlan


@dataclass(frozen=True)
class Overheads:
    """Orchestration adds so many seconds: a guess for the time left, and for nothing else."""

    prepare_s: float
    phase_s: float
    finish_s: float
    report_s: float
    mib_per_s: float = EXPECTED_MIB_PER_S
    start_s: Mapping[str, float] = field(default_factory=lambda: START_S)
    """A transfer's rate, and what its platform takes to start."""
    level_s: float = 5
    """A level of a DAG takes so long, with its orchestration."""


LOCAL = Overheads(
    prepare_s=8, phase_s=8, finish_s=10, report_s=6, mib_per_s=100, start_s={"lambda": 6, "fargate": 6}, level_s=1
)
AWS = Overheads(prepare_s=60, phase_s=35, finish_s=60, report_s=20)


def trial_s(plan: AnyTrial, overheads: Overheads) -> float:
    """Return how many seconds a trial takes, from nothing to torn down."""
    if isinstance(plan, TransferTrial):
        length_s = plan.length_at(overheads.mib_per_s, overheads.start_s)
    else:
        length_s = sum(phase.settle_s + offered_s(plan, phase, overheads) for phase in plan.run_phases)
    return overheads.prepare_s + length_s + between_s(plan.phases, overheads) + overheads.finish_s


def offered_s(plan: TrialPlan, phase: Phase, overheads: Overheads) -> float:
    """Return how long a phase's load takes: of a DAG's executions, clients begin the next when the last has ended."""
    if plan.experiment != "dataflow":
        return phase.length_s
    execution_s = len(plan.dag_of(phase).levels) * overheads.level_s
    if phase.closed is None or phase.closed.operations is None:
        return phase.length_s + execution_s
    return min(phase.length_s, math.ceil(phase.closed.operations / phase.closed.clients) * execution_s)


def run_s(trials: Iterable[AnyTrial], overheads: Overheads) -> float:
    """Return how many seconds a run of these trials takes, until its report."""
    return sum(trial_s(plan, overheads) for plan in trials) + overheads.report_s


def between_s(phases: Iterable[Phase], overheads: Overheads) -> float:
    """Return what orchestration adds before these phases: nothing where one follows without a gap."""
    return overheads.phase_s * sum(not phase.gapless for phase in phases)
