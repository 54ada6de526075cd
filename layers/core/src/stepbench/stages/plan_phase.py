"""
Task `PlanPhase`: fix when a phase begins, and write one item per writer and slice for `OfferLoad`.

Phases that follow it without a gap are planned with it, as further slices: in their own turn they are passed over.

With `find_rate`, also at which rate: a probe gets the next rate of the search, or is passed over once that has ended;
a phase with `of_found` gets what was found. The stored specification is rewritten with it, so that writers and
analysis, which read it there, know nothing of the search.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.contracts.phase import SLICE_S, PhaseSchedule, PrecisionLooks
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.tasks import PlanPhaseInput, PlanPhaseOutput, WriterItem
from stepbench.errors import LoadHostLostError, RateNotFoundError
from stepbench.experiments.registry import experiment_of
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import read_utilisations
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.stats.bracketing import Decision, decide_after, describe_probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.findings import Utilisation
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialRef
    from stepbench.contracts.trial import FindRate
    from stepbench.services import Services
    from stepbench.settings import Settings

MARGIN_OF_LEAD = 0.2
MARGIN_PER_WRITER_S = 0.02
"""A Distributed Map starts children at some hundred a second."""
EMULATED_START_S = 0.5
"""How much longer each further writer's sandbox takes to start where all of them share a machine with the emulator."""
MOST_EMULATED_START_S = 60.0
"""All writers together wait no longer: a writer's lead, slice and drain have to fit into its function's 900 s."""
LOAD_HOST_SILENT_S = 20
"""Four of a load host's signs of life; the state machine gives it as long in the middle of a slice."""
_SECOND_NS = 10**9


def plan_phase(task: PlanPhaseInput, services: Services) -> PlanPhaseOutput:
    """
    Store schedule and items of the phase and of those that follow without a gap; or nothing, where it is passed over.

    Raises:
        RateNotFoundError: the phase is to be offered at a rate that was not found.
        TargetUnavailableError: a file of a trial of `transfer` is not there.
        LoadHostLostError: its load is to come from a load host, and none takes writers, or not as many at once.
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    if spec.abort_on and _has_missed(spec, task.phase, services):
        return PlanPhaseOutput(needed=False, items_bucket="", items_key="", max_concurrency=1)
    if (planned := experiment_of(spec.plan.experiment).staging.plan(spec, services)) is not None:
        return planned
    rated = None if spec.plan.phases[task.phase].gapless else with_found_rate(spec, task.phase, services)
    if rated is None:
        return PlanPhaseOutput(needed=False, items_bucket="", items_key="", max_concurrency=1)
    if spec.plan.load_from == "host":
        _require_load_host(spec.offered.concurrency(task.phase), services)
    if rated is not spec:
        services.runs.put_model(layout.trial_key(task.ref, "trial.json"), rated)
    return _schedule(task, rated, services)


def _has_missed(spec: TrialSpec, phase: int, services: Services) -> bool:
    """Return whether an earlier phase was ended since it could not keep to a threshold."""
    keys = (layout.phase_key(spec.ref, each, "until.json") for each in range(phase) if spec.may_abort(each))
    found = (services.runs.find_model(key, PrecisionLooks) for key in keys)
    return any(looks is not None and looks.impossible is not None for looks in found)


def _require_load_host(writers: int, services: Services) -> None:
    since_ns = services.clock.now_ns() - LOAD_HOST_SILENT_S * _SECOND_NS
    beats = services.table.beats(layout.LOAD_HOSTS).values()
    at_once = [int(beat["at_once"]) for beat in beats if int(beat["at_ns"]) >= since_ns and not beat.get("ended")]
    if not at_once:
        message = (
            f"no load host takes writers: none has given a sign of life for {LOAD_HOST_SILENT_S} s. See whether it "
            "runs and what its log says (docs/servers.md), or start one with `stepbench load-host --stack NAME`"
        )
        raise LoadHostLostError(message)
    if sum(at_once) < writers:
        message = (
            f"the phase has {writers} writers at once, and the load hosts that are there run {sum(at_once)}, so that "
            f"the others would come too late. Start one with --at-once {writers}, or deploy with "
            f"LoadHostWriters={writers}; or lower writers or max_concurrency"
        )
        raise LoadHostLostError(message)


def _schedule(task: PlanPhaseInput, spec: TrialSpec, services: Services) -> PlanPhaseOutput:
    if spec.offered.phases[task.phase].invoked is not None:
        return _invoke(task, spec, services)
    lead_s = writers_lead_s(spec, services.settings)
    ahead_s = lead_s + MARGIN_OF_LEAD * lead_s + MARGIN_PER_WRITER_S * spec.offered.writers
    start_at_ns = services.clock.now_ns() + math.ceil(ahead_s * _SECOND_NS)
    items: list[WriterItem] = []
    for phase in spec.offered.planned_together(task.phase):
        items += _items(task.ref, spec, phase, start_at_ns, lead_s)
        key = layout.phase_key(task.ref, phase, "plan.json")
        services.runs.put_model(key, PhaseSchedule(start_at_ns=start_at_ns))
        start_at_ns += round(spec.offered.phases[phase].length_s * _SECOND_NS)
    return _stored(task, spec, items, services)


def _invoke(task: PlanPhaseInput, spec: TrialSpec, services: Services) -> PlanPhaseOutput:
    """Store an item for each invocation; the phase begins now, and the Map's pace is what is measured."""
    start_at_ns = services.clock.now_ns()
    services.runs.put_model(layout.phase_key(task.ref, task.phase, "plan.json"), PhaseSchedule(start_at_ns=start_at_ns))
    items = _items(task.ref, spec, task.phase, start_at_ns, lead_s=0)
    invoked = tuple(item.model_copy(update={"invoked": True}) for item in items)
    noted: dict[str, object] = {"invoked": True, "expires_at": invoked[0].expires_at}
    if task.phase in spec.offered.inline_phases:
        noted |= {"items": invoked, "inline": True}
    return _stored(task, spec, invoked, services).model_copy(update=noted)


def _stored(task: PlanPhaseInput, spec: TrialSpec, items: Sequence[WriterItem], services: Services) -> PlanPhaseOutput:
    items_key = layout.phase_key(task.ref, task.phase, "items.json")
    services.runs.put_json(items_key, [item.model_dump(mode="json") for item in items])
    return PlanPhaseOutput(
        items_bucket=services.runs.bucket, items_key=items_key, max_concurrency=spec.offered.concurrency(task.phase)
    )


def writers_lead_s(spec: TrialSpec, settings: Settings) -> float:
    """Return how long before its start a writer is called, without what the Map takes to have every child waiting."""
    starts_s = min(EMULATED_START_S * (spec.offered.writers - 1), MOST_EMULATED_START_S)
    return settings.lead_s + (starts_s if settings.emulator else 0)


def _items(ref: TrialRef, spec: TrialSpec, phase: int, start_at_ns: int, lead_s: float) -> Iterator[WriterItem]:
    """Yield items slice by slice: with twice the writers running, each successor waits before its turn."""
    for slice_ in range(spec.offered.phases[phase].slices):
        slice_start_ns = start_at_ns + slice_ * SLICE_S * _SECOND_NS
        wait_until = _iso_ms(slice_start_ns - math.ceil(lead_s * _SECOND_NS))
        for writer in range(spec.offered.writers):
            yield WriterItem(
                ref=ref,
                phase=phase,
                writer=writer,
                slice=slice_,
                start_at_ns=slice_start_ns,
                wait_until=wait_until,
                load_from=spec.offered.load_from,
            )


def _iso_ms(at_ns: int) -> str:
    """Format RFC 3339 as a Wait state takes it, cut to milliseconds: `2024-03-18T17:33:00.250Z`."""
    moment = datetime.fromtimestamp(at_ns // _SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % _SECOND_NS // 1_000_000:03d}Z"


def with_found_rate(spec: TrialSpec, phase: int, services: Services) -> TrialSpec | None:
    """
    Return the trial with the phase's rate; the same object where nothing is to be found, None for a probe too many.

    A retry decides the same: the probes before it are over.

    Raises:
        RateNotFoundError: the phase needs the rate, and there is none; or the trial is no valid one with it.
    """
    planned, find = spec.plan.phases[phase], spec.plan.find_rate
    if find is None or not (planned.probe or planned.uses_found_rate):
        return spec
    before = {each.name for each in spec.plan.phases[:phase]}
    known = [each for each in read_utilisations(spec, services.runs) if each.phase in before]
    decision = decide_after(find, known)
    if planned.probe:
        if decision.next_per_s is None:
            return None
        return _with_rates(spec, phase, [min(step.rate_per_s, decision.next_per_s) for step in planned.load])
    if decision.found_per_s is None:
        raise RateNotFoundError(_not_found(find, planned, decision, known))
    return _with_rates(spec, phase, _of_found(planned, decision.found_per_s))


def _of_found(phase: Phase, found_per_s: float) -> list[float]:
    """Return the rates at shares of the found one, never more than the plan allows and was priced for."""
    return [
        step.rate_per_s if step.of_found is None else min(step.rate_per_s, step.of_found * found_per_s)
        for step in phase.load
    ]


def _with_rates(spec: TrialSpec, phase: int, rates_per_s: list[float]) -> TrialSpec:
    planned = spec.plan.phases[phase]
    load = tuple(
        step.model_copy(update={"rate_per_s": rate}) for step, rate in zip(planned.load, rates_per_s, strict=True)
    )
    phases = list(spec.plan.phases)
    phases[phase] = planned.model_copy(update={"load": load})
    rated = spec.model_copy(update={"plan": spec.plan.model_copy(update={"phases": tuple(phases)})})
    try:  # copies are not validated, and what no stage can read would keep its lease
        return TrialSpec.model_validate(rated.model_dump())
    except ValidationError as error:
        raise RateNotFoundError(_not_valid(planned, rates_per_s, error)) from error


def _not_valid(phase: Phase, rates_per_s: list[float], error: ValidationError) -> str:
    rates = ", ".join(f"{rate:,.4g}/s" for rate in rates_per_s)
    broken = "; ".join(each["msg"] for each in error.errors(include_url=False))
    return (
        f"phase {phase.name} would be offered at {rates}, as find_rate has it, and the plan does not hold at that: "
        f"{broken.rstrip('.')}. Raise find_rate.low_per_s, or give the rate yourself."
    )


def _not_found(find: FindRate, phase: Phase, decision: Decision, known: list[Utilisation]) -> str:
    probes = "; ".join(describe_probe(each) for each in known if each.probe) or "none"
    return (
        f"phase {phase.name} is to be offered at the rate that makes the store {100 * find.utilisation:.0f} % busy, "
        f"and none was found: {decision.text}. Probes: {probes}. "
        "Widen find_rate.low_per_s and high_per_s, raise probes, tolerance or writers, or give the rate yourself."
    )
