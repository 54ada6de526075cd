"""What a trial of `trigger`, or of `operations`, takes before it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs import assumptions
from stepbench.costs.estimate import offered_estimate, peak_per_s, peak_units, provisioned_units
from stepbench.experiments.protocol import Sandboxes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import CostEstimate
    from stepbench.errors import Problem
    from stepbench.settings import Settings

RECEIVER_S = 0.1
"""A receiver's sandbox is busy with one delivery for so long on average, at most: a warm one takes a tenth of that."""
_UNITS_OF_SHARD = 1_000


def estimate(
    trial: AnyTrial,
    assumed: Assumptions,
    region: str,
    *,
    at_most: bool,  # noqa: ARG001 -- as many events as there may be, where that is assumed
) -> CostEstimate:
    """Return what the trial costs on AWS at the region's list prices, where all is as assumed."""
    return offered_estimate(offered_plan(trial), assumed, region)


def load_s(trial: AnyTrial, assumed: Assumptions) -> float:
    """Return how long its phases are, with their rests."""
    return assumptions.load_s(offered_plan(trial), assumed)


def stack_problems(
    at: str,  # noqa: ARG001
    trial: AnyTrial,  # noqa: ARG001
    settings: Settings,  # noqa: ARG001
) -> Iterator[Problem]:
    """Yield nothing: what any trial with writers needs of a stack is asked of all of them."""
    yield from ()


def sandboxes(trial: AnyTrial) -> Sandboxes:
    """Return those of writers, and of receivers that the store invokes; operations invoke nothing else."""
    plan = offered_plan(trial)
    return Sandboxes(plan.writer_sandboxes, _receivers(plan), "receivers", ("writers", plan.writers))


def _receivers(plan: TrialPlan) -> int:
    if plan.pull or not plan.target.trigger or not traits_of(plan.experiment).by_trigger:
        return 0
    if isinstance(plan.target, DynamoDbTarget):  # one a shard, times the factor; a shard for 1,000 write units
        units = max(peak_units(plan), provisioned_units(plan) or 0)
        return max(math.ceil(units / _UNITS_OF_SHARD), 1) * plan.target.parallelization_factor
    return math.ceil(peak_per_s(plan) * RECEIVER_S)  # one an event: as many at once as come while one is busy
