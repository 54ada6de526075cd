"""Task `ScaleTarget`: bring the store to the capacity, or the configuration, that a phase asks for."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.target import CassandraTarget, configures
from stepbench.contracts.tasks import AwaitArrivalsInput, ScaleTargetInput, ScaleTargetOutput
from stepbench.contracts.tuning import AdaptiveTuning, StaticTuning, TuningDecision, TuningStep
from stepbench.drivers.protocol import Scalable
from stepbench.drivers.registry import room_of
from stepbench.errors import TargetUnavailableError, TrialCancelledError
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import read_dag_ends
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.target_driver import open_driver, refuse_if_cancelled, undo_if_cancelled
from stepbench.tuning.decision import Analyser, Moment, as_given, expected_from, within
from stepbench.tuning.models import find_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.dataflow.rows import DagEnd
    from stepbench.contracts.phase import Scale
    from stepbench.contracts.plan import AnyTrial, TrialRef, TrialSpec
    from stepbench.drivers.protocol import Tunable
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


def _tuning_of(trial: AnyTrial) -> StaticTuning | AdaptiveTuning | None:
    target = trial.target
    if not isinstance(target, CassandraTarget) or not isinstance(target.tuning, StaticTuning | AdaptiveTuning):
        return None
    return target.tuning


def tune_store(spec: TrialSpec, phase: int, services: Services, tunable: Tunable | None = None) -> bool:
    """
    Decide, and apply what is decided; return False while executions of earlier phases are under way.

    Raises:
        TargetUnavailableError: the store could not be configured, or nothing here can do it.
        PlanError: its model does not ship.
        TrialCancelledError: the trial was to stop meanwhile; the store is as released again.
    """
    steps = [_find_step(spec.ref, each, services) for each in range(phase + 1)]
    step = steps[phase]
    if step is None:
        if not await_arrivals(AwaitArrivalsInput(ref=spec.ref), services).done:
            return False
        step = TuningStep(decision=_decide(spec, phase, [each for each in steps if each], services))
        services.runs.put_model(layout.phase_key(spec.ref, phase, layout.TUNING), step)
    if step.done is None and (step.decision.reconfigure or phase == 0):
        given = step.decision.new if step.decision.reconfigure else None  # what an earlier trial left is no release
        store = tunable or tunable_of(spec, services)
        step = step.model_copy(update={"done": asyncio.run(store.apply(given))})
        services.runs.put_model(layout.phase_key(spec.ref, phase, layout.TUNING), step)
        _undo_if_cancelled(spec, store, services)
    logger.info("configuration", extra=step.model_dump(mode="json"))
    return True


def restore_released(spec: TrialSpec, services: Services, tunable: Tunable | None = None) -> None:
    """
    Give a store that a trial has configured back as it is released; nothing to do for any other.

    Raises:
        TargetUnavailableError: that was not possible.
    """
    phases = range(len(spec.plan.phases)) if _tuning_of(spec.plan) else ()
    if any(_find_step(spec.ref, each, services) for each in phases):
        asyncio.run((tunable or tunable_of(spec, services)).apply(None))


def _undo_if_cancelled(spec: TrialSpec, store: Tunable, services: Services) -> None:
    """Take a configuration back if the sweeper may have looked at the store before it had it."""
    try:
        refuse_if_cancelled(spec.tag, services)
    except TrialCancelledError:
        asyncio.run(store.apply(None))
        raise


def tunable_of(spec: TrialSpec, services: Services) -> Tunable:
    """
    Return what configures the trial's store.

    Raises:
        TargetUnavailableError: nothing does.
    """
    build = room_of(spec.plan.target).tuning
    if build is None:
        message = f"{spec.plan.target.store} cannot be configured; remove target.tuning from the plan"
        raise TargetUnavailableError(message)
    return build(spec, services.settings, services.clock)


def _find_step(ref: TrialRef, phase: int, services: Services) -> TuningStep | None:
    return services.runs.find_model(layout.phase_key(ref, phase, layout.TUNING), TuningStep)


def _decide(spec: TrialSpec, phase: int, before: Sequence[TuningStep], services: Services) -> TuningDecision:
    trial, tuning = spec.offered, _tuning_of(spec.plan)
    if tuning is None:
        message = f"{spec.name} has no store that is configured"
        raise TypeError(message)
    coming = trial.phases[phase]
    moment = Moment(coming.name, trial.dag_of(coming).name, services.clock.now_ns())
    old = before[-1].decision.configured if before else None
    ends = read_dag_ends(spec.tag, services.table)[0] if before else ()
    ahead = expected_from(trial, phase, _seen_s(spec, ends, services), tuning.blob_bytes)
    if isinstance(tuning, StaticTuning) and tuning.settings:
        return as_given(moment, ahead, old, tuning.settings)
    analyser = Analyser(find_model(tuning.model))
    if isinstance(tuning, StaticTuning):
        return analyser.static(moment, ahead, old)
    return analyser.adaptive(moment, within(ahead, tuning.look_ahead_s), old)


def _seen_s(spec: TrialSpec, ends: Iterable[DagEnd], services: Services) -> dict[str, float]:
    """Return how long an execution of each DAG has taken so far: from its phase's start to the last one's end."""
    trial, seen, ended_ns = spec.offered, dict[str, float](), defaultdict[int, list[int]](list)
    for end in ends:
        if (event := parse_event_id(end.event)) is not None:
            ended_ns[event.phase].append(end.ended_ns)
    for number, phase in enumerate(trial.phases):
        schedule = services.runs.find_model(layout.phase_key(spec.ref, number, "plan.json"), PhaseSchedule)
        ended = ended_ns[number]
        if phase.closed is None or phase.closed.operations is None or schedule is None or not ended:
            continue
        rounds = -(-len(ended) // phase.closed.clients)
        seen[trial.dag_of(phase).name] = max(0.001, (max(ended) - schedule.start_at_ns) / 1e9) / rounds
    return seen
