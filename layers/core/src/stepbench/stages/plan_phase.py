"""
Task `PlanPhase`: fix when a phase begins, and write one item per writer and slice for `OfferLoad`.

With `find_rate`, also at which rate: a probe gets the next rate of the search, or is passed over once that has ended;
a phase with `of_found` gets what was found. The stored specification is rewritten with it, so that writers and
analysis, which read it there, know nothing of the search.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepbench.contracts.phase_documents import PhaseSchedule
from stepbench.contracts.plan import SLICE_S
from stepbench.contracts.tasks import PlanPhaseInput, PlanPhaseOutput, WriterItem
from stepbench.records import layout
from stepbench.stages.found_rate import with_found_rate
from stepbench.stages.target_driver import refuse_if_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import TrialRef
    from stepbench.settings import Settings
    from stepbench.stages.services import Services

MARGIN_OF_LEAD = 0.2
MARGIN_PER_WRITER_S = 0.02
"""A Distributed Map starts children at some hundred a second."""
EMULATED_START_S = 0.5
"""How much longer each further writer's sandbox takes to start where all of them share a machine with the emulator."""
MOST_EMULATED_START_S = 60.0
"""Of all of them: a writer's lead, slice and drain have to fit into its function's 900 s."""
_SECOND_NS = 10**9


def plan_phase(task: PlanPhaseInput, services: Services) -> PlanPhaseOutput:
    """
    Store the phase's schedule and items; or nothing at all, for a probe that is not needed.

    Raises:
        RateNotFoundError: the phase is to be offered at a rate that was not found.
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    rated = with_found_rate(spec, task.phase, services)
    if rated is None:
        return PlanPhaseOutput(needed=False, items_bucket="", items_key="", max_concurrency=1)
    if rated is not spec:
        services.runs.put_model(layout.trial_key(task.ref, "trial.json"), rated)
    return _schedule(task, rated, services)


def _schedule(task: PlanPhaseInput, spec: TrialSpec, services: Services) -> PlanPhaseOutput:
    lead_s = writers_lead_s(spec, services.settings)
    ahead_s = lead_s + MARGIN_OF_LEAD * lead_s + MARGIN_PER_WRITER_S * spec.plan.writers
    start_at_ns = services.clock.now_ns() + math.ceil(ahead_s * _SECOND_NS)
    items = list(_items(task.ref, spec, task.phase, start_at_ns, lead_s))
    items_key = layout.phase_key(task.ref, task.phase, "items.json")
    services.runs.put_model(layout.phase_key(task.ref, task.phase, "plan.json"), PhaseSchedule(start_at_ns=start_at_ns))
    services.runs.put_json(items_key, [item.model_dump(mode="json") for item in items])
    return PlanPhaseOutput(
        items_bucket=services.runs.bucket, items_key=items_key, max_concurrency=_concurrency(spec, task.phase)
    )


def writers_lead_s(spec: TrialSpec, settings: Settings) -> float:
    """How long before its start a writer is called; what the Map takes to have every child waiting comes on top."""
    starts_s = min(EMULATED_START_S * (spec.plan.writers - 1), MOST_EMULATED_START_S)
    return settings.lead_s + (starts_s if settings.emulator else 0)


def _items(ref: TrialRef, spec: TrialSpec, phase: int, start_at_ns: int, lead_s: float) -> Iterator[WriterItem]:
    """Slice by slice, not writer by writer: with twice the writers running, each successor waits before its turn."""
    for slice_ in range(spec.plan.phases[phase].slices):
        slice_start_ns = start_at_ns + slice_ * SLICE_S * _SECOND_NS
        wait_until = _iso_ms(slice_start_ns - math.ceil(lead_s * _SECOND_NS))
        for writer in range(spec.plan.writers):
            yield WriterItem(
                ref=ref,
                phase=phase,
                writer=writer,
                slice=slice_,
                start_at_ns=slice_start_ns,
                wait_until=wait_until,
            )


def _concurrency(spec: TrialSpec, phase: int) -> int:
    at_once = spec.plan.max_concurrency or spec.plan.writers
    return at_once * 2 if spec.plan.phases[phase].slices > 1 else at_once


def _iso_ms(at_ns: int) -> str:
    """RFC 3339 as a Wait state takes it, cut to milliseconds: `2024-03-18T17:33:00.250Z`."""
    moment = datetime.fromtimestamp(at_ns // _SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % _SECOND_NS // 1_000_000:03d}Z"
