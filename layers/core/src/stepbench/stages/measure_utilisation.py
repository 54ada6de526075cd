"""Task `MeasureUtilisation`: how busy the store was during a phase that has ended, and what it achieved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.findings import Utilisation
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.rules.load import METRICS_WAIT_S
from stepbench.contracts.tasks import MeasureUtilisationInput, MeasureUtilisationOutput
from stepbench.drivers.protocol import Meter, Reading
from stepbench.drivers.registry import build_meter
from stepbench.model.request import Outcome
from stepbench.records.storage import layout
from stepbench.records.storage.stored import phase_files
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.workload.arrivals import phase_offsets_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialPlan, TrialRef, TrialSpec
    from stepbench.services import Services
    from stepbench.settings import Settings

    BuildMeter = Callable[[TrialSpec, Settings, Callable[[str], object]], Meter | None]

SHORTEST_WAIT_S, PERIODS_WAITED = 30, 5
"""A metric may come so many periods late, before it counts as missing; by the minute that is `METRICS_WAIT_S`."""
_SECOND_NS = 10**9


def measure_utilisation(
    task: MeasureUtilisationInput, services: Services, *, build: BuildMeter = build_meter
) -> MeasureUtilisationOutput:
    """
    Look once; Step Functions waits and calls again until `done`.

    A metric that does not come in time, or that cannot be read, is stored as unknown: what that is worth, PlanPhase
    and the analysis decide.

    Raises:
        TrialCancelledError: the trial is to stop.
        RecordsUnavailableError: the results bucket does not answer.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    schedule = services.runs.find_model(layout.phase_key(task.ref, task.phase, "plan.json"), PhaseSchedule)
    if schedule is None:
        return MeasureUtilisationOutput(done=True)
    planned_ns = schedule.start_at_ns + round(spec.offered.phases[task.phase].length_s * _SECOND_NS)
    end_ns = services.table.stop_at_ns(spec.tag, task.phase) or planned_ns
    reading = _read(spec, schedule.start_at_ns, end_ns, services, build)
    if not reading.whole:
        return MeasureUtilisationOutput(done=False)
    _store(task, spec, reading, (schedule.start_at_ns, end_ns), services)
    return MeasureUtilisationOutput(done=True)


def _read(spec: TrialSpec, from_ns: int, to_ns: int, services: Services, build: BuildMeter) -> Reading:
    """Read the meter; what it says when its time is up is all there will be."""
    try:
        meter = build(spec, services.settings, services.aws)
    except ValueError as error:
        return Reading(None, whole=True, text=str(error))
    if meter is None:
        return Reading(None, whole=True, text=f"this stack knows no metric of {spec.offered.target.store}")
    since_s = (services.clock.now_ns() - to_ns) / _SECOND_NS
    if since_s < meter.period_s:  # the last value may still change
        return Reading(None, whole=False, text="")
    try:
        reading = meter.read(from_ns, to_ns)
    except (BotoCoreError, ClientError) as error:
        reading = Reading(None, whole=False, text=f"the metric cannot be read: {error}")
    limit_s = min(METRICS_WAIT_S, max(SHORTEST_WAIT_S, PERIODS_WAITED * meter.period_s))
    return reading._replace(whole=True) if since_s > limit_s else reading


def _store(
    task: MeasureUtilisationInput, spec: TrialSpec, reading: Reading, span_ns: tuple[int, int], services: Services
) -> None:
    phase, length_s = spec.offered.phases[task.phase], (span_ns[1] - span_ns[0]) / _SECOND_NS
    measured = Utilisation(
        phase=phase.name,
        probe=phase.probe,
        offered_per_s=_due(spec.offered, task.phase, span_ns[1] - span_ns[0]) / length_s,
        achieved_per_s=_acknowledged(task.ref, task.phase, span_ns[1], services) / length_s,
        utilisation=reading.utilisation,
        text=reading.text,
    )
    services.runs.put_model(layout.phase_key(task.ref, task.phase, "utilisation.json"), measured)


def _due(plan: TrialPlan, phase: int, within_ns: int) -> int:
    """Return how many events the schedule has in that time: with Poisson arrivals not the expected number."""
    writers = range(plan.writers)
    return sum(int(np.count_nonzero(phase_offsets_ns(plan, phase, writer) < within_ns)) for writer in writers)


def _acknowledged(ref: TrialRef, phase: int, until_ns: int, services: Services) -> int:
    """Return how many writes were acknowledged before the phase's end: what came later, a queue had held back."""
    files = phase_files(ref, phase, services.runs)
    return sum(
        int(np.count_nonzero((file.rows.outcome == Outcome.OK) & (file.rows.t2_ns <= until_ns))) for file in files
    )
