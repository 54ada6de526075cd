"""
What trials of any experiment cost on AWS, before they run.

`estimate` is what is expected, by the assumptions of a place (`costs.assumptions`); `budgeted` what a budget is held
against: as many events as there may be, each an invocation of its own, every read as long as it may be, and tasks of
DAGs as they are taken to be, since nobody knows how long they are; `upper_bound` these with their time-outs, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stepbench.costs.assumptions import AWS, MOST
from stepbench.costs.prices import DEFAULT_REGION
from stepbench.experiments.registry import experiment_of

if TYPE_CHECKING:
    from stepbench.contracts.plan import AnyTrial
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import CostEstimate


def estimate(trial: AnyTrial, assumed: Assumptions = AWS, region: str = DEFAULT_REGION) -> CostEstimate:
    """Return what the trial is expected to cost at the region's list prices of AWS, where all is as assumed."""
    return experiment_of(trial.experiment).offering.estimate(trial, assumed, region, at_most=False)


def budgeted(trial: AnyTrial, region: str = DEFAULT_REGION, *, aborts: bool = False) -> CostEstimate:
    """
    Return what a budget is held against: an upper bound, but for the time that tasks of DAGs take.

    aborts: whether thresholds may end the trial's phases.
    """
    return estimate(trial, replace(MOST, aborts=aborts), region)


def upper_bound(trial: AnyTrial, region: str = DEFAULT_REGION) -> CostEstimate:
    """Return the same with tasks of DAGs that all take their longest time-out, with all retries."""
    return experiment_of(trial.experiment).offering.estimate(trial, MOST, region, at_most=True)
