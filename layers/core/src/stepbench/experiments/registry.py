"""Which experiment a trial is of: the one place to add to for a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, get_args

from stepbench.contracts.experiment import ExperimentName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.experiments.protocol import Experiment
    from stepbench.settings import Settings


def experiment_of(name: ExperimentName) -> Experiment:
    """Return the experiment of that name; imports only its room."""
    match name:
        case "trigger":
            from stepbench.experiments.trigger import experiment
        case "operations":
            from stepbench.experiments.operations import experiment
        case "transfer":
            from stepbench.experiments.transfer import experiment
        case "dataflow":
            from stepbench.experiments.dataflow import experiment
        case _ as unreachable:
            assert_never(unreachable)
    return experiment


def experiments() -> Iterator[Experiment]:
    """Yield all of them, in the order in which a report has them."""
    yield from map(experiment_of, get_args(ExperimentName))


def build_driver(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    """
    Build the driver of a trial's store for what the trial measures; nothing is connected yet.

    Raises:
        PlanError: the target's own endpoint may not be used, or the store does not offer what is measured.
    """
    return experiment_of(spec.plan.experiment).staging.driver(spec, settings, clock)
