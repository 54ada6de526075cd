"""Task `ScaleTarget`: bring the store to the capacity, or the configuration, that a phase asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.target import configures
from stepbench.contracts.tasks import ScaleTargetInput, ScaleTargetOutput
from stepbench.drivers.protocol import Scalable
from stepbench.errors import TargetUnavailableError
from stepbench.records.storage import layout
from stepbench.stages.target_driver import open_driver, refuse_if_cancelled, undo_if_cancelled
from stepbench.stages.tune_store import tune_store

if TYPE_CHECKING:
    from stepbench.contracts.phase import Scale
    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver

SCALE_LIMIT_S = 1_800
"""A change of a table's capacity takes minutes; its mode may be switched but a few times a day."""


def scale_target(task: ScaleTargetInput, services: Services, *, build: BuildDriver | None = None) -> ScaleTargetOutput:
    """
    Ask for the capacity, or look how far it is; at once `done` for a phase that asks for none.

    Raises:
        TargetUnavailableError: the capacity was not active in time, or this store has none to change; likewise of a
            configuration.
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    if configures(spec.plan.target, task.phase):
        return ScaleTargetOutput(done=tune_store(spec, task.phase, services))
    scale = spec.plan.phases[task.phase].scale
    if scale is None:
        return ScaleTargetOutput(done=True)
    asked_at_ns = _asked_at_ns(task, services)
    done = _scale(spec, scale, services, build)
    if not done and services.clock.now_ns() - asked_at_ns > SCALE_LIMIT_S * 10**9:
        message = f"{spec.plan.target.store} did not reach {scale.capacity!r} within {SCALE_LIMIT_S} s"
        raise TargetUnavailableError(message)
    return ScaleTargetOutput(done=done)


def _scale(spec: TrialSpec, scale: Scale, services: Services, build: BuildDriver | None) -> bool:
    with open_driver(spec, services, build) as opened:
        if not isinstance(opened.driver, Scalable):
            message = f"{spec.plan.target.store} has no capacity to scale; remove `scale` from the plan"
            raise TargetUnavailableError(message)
        done = opened.run(opened.driver.scale(scale))
        undo_if_cancelled(spec, opened, services)
        return done


def _asked_at_ns(task: ScaleTargetInput, services: Services) -> int:
    """Return when the phase's first call asked; it is in the bucket, since the loop's calls know nothing of it."""
    key = layout.phase_key(task.ref, task.phase, "scale.json")
    noted = services.runs.find_json(key)
    if noted is None:
        noted = {"asked_at_ns": services.clock.now_ns()}
        services.runs.put_json(key, noted)
    return int(noted["asked_at_ns"])
