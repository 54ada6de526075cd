"""Decide how a trial's store is configured, apply it before a phase, and give it back as it is released."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.contracts.tuning import (
    AdaptiveTuning,
    CassandraConfiguration,
    StaticTuning,
    TuningDecision,
    TuningStep,
)
from stepbench.drivers.registry import room_of
from stepbench.errors import TargetUnavailableError, TrialCancelledError
from stepbench.observability import logger
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import read_dag_ends
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.tuning.decision import Analyser, Moment, as_given, expected_from, within
from stepbench.tuning.models import find_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.dataflow.rows import DagEnd
    from stepbench.contracts.plan import AnyTrial, TrialRef, TrialSpec
    from stepbench.drivers.protocol import Tunable
    from stepbench.services import Services


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
    given = tuning.settings if isinstance(tuning, StaticTuning) else None
    by = given or find_model(tuning.model)
    sizes = tuning.blob_bytes if isinstance(by, CassandraConfiguration) else {**by.blob_bytes, **tuning.blob_bytes}
    ahead = expected_from(trial, phase, _seen_s(spec, ends, services), sizes)
    if isinstance(by, CassandraConfiguration):
        return as_given(moment, ahead, old, by)
    analyser = Analyser(by)
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
