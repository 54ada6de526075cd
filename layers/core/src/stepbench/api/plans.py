"""
Presets, plans that are checked without being run, and how far a running run is.

Progress is from few small reads: the run's lease names the trial, heartbeats count its events.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepbench.contracts.api import PlanInfo, PlanList, Progress, Validation
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.errors import PlanError
from stepbench.planning import describe_copies, expand, questions
from stepbench.planning.limits import placeholder_problems
from stepbench.planning.presets import find_preset
from stepbench.planning.reading import parse_expanded
from stepbench.planning.requests import admitted, check_plan
from stepbench.planning.wall_time import expected, overheads_of
from stepbench.progress import (
    WRITER,
    PhaseStart,
    Snapshot,
    activity,
    arrivals,
    counted,
    last_beat_ns,
    left_s,
    share_done,
)
from stepbench.records.storage import layout
from stepbench.stages.measured_functions import check_functions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.runs import RunRecord, RunRequest
    from stepbench.planning import Expanded
    from stepbench.records.storage.trial_table import Lease
    from stepbench.services import Services
    from stepbench.settings import Settings

    Beats = Mapping[str, Mapping[str, object]]


@lru_cache(maxsize=2)
def list_presets(settings: Settings) -> PlanList:
    """Return all presets, by the order of their questions; of each that this stack does not run, why."""
    found = []
    for question in questions():
        for name in question.presets:
            plan, trials = parse_expanded(find_preset(name))
            to_set = tuple(problem.path for problem in placeholder_problems(trials))
            known = expected([trial.plan for trial in trials], settings, aborts=plan.abort_on_fail)
            found.append(
                PlanInfo(
                    name=name,
                    question=question.question,
                    trials=known.trials,
                    events=known.events,
                    expected_s=known.expected_s,
                    estimate_usd=known.estimate_usd,
                    to_set=to_set,
                    refused=_refusal(plan, trials, settings, to_set),
                )
            )
    return PlanList(plans=tuple(found))


def _refusal(plan: Plan, trials: tuple[Expanded, ...], settings: Settings, to_set: tuple[str, ...]) -> str:
    """Return why a stack does not run a plan once these places are set, as its first problem has it; or empty."""
    try:
        check_plan(plan, trials, settings)
    except PlanError as error:
        return next((f"{each.path} {each.message}" for each in error.problems if each.path not in to_set), "")
    return ""


def preset(name: str) -> dict[str, Any]:
    """Return a preset as its author wrote it; raises PlanError if there is none."""
    document: dict[str, Any] = json.loads(find_preset(name))
    return document


def validate(request: RunRequest, services: Services) -> Validation:
    """
    Return what a plan would do on this stack, which the functions that it measures are asked about, too.

    Raises:
        PlanError: it is refused; with every problem.
    """
    found = admitted(request, services.settings, services.runs.find_rows)
    check_functions(found.trials, services)
    known = expected([trial.plan for trial in found.trials], services.settings, aborts=found.plan.abort_on_fail)
    notes = describe_copies(found.trials)
    return Validation(plan=found.plan.name, budget_usd=found.plan.budget_usd, notes=notes, **known._asdict())


MOST_COUNTED = 20_000
"""Events of a trial whose arrivals are counted while it runs: more items would be read at every look."""


def read_progress(run: RunRecord, services: Services) -> Progress | None:
    """Return how far the run is; None until its plan is stored, and where it is of another version."""
    plan = services.runs.find_model(layout.run_key(run.run_id, "plan.json"), Plan)
    if plan is None or run.started_at is None:
        return None
    specs = tuple(expand(plan, run.run_id))
    lease = next((each for each in services.table.leases() if each.run_id == run.run_id), None)
    beats = services.table.beats(lease.tag) if lease else {}
    snapshot = _snapshot(run, specs, lease, beats, services)
    seen = arrivals(snapshot)
    overheads = overheads_of(services.settings)
    trial = None if snapshot.trial is None else specs[snapshot.trial]
    return Progress(
        activity=activity(snapshot),
        share=min(1.0, max(0.0, share_done(snapshot, overheads))),
        left_s=max(0.0, left_s(snapshot, overheads)),
        trial=snapshot.trial,
        trials=len(specs),
        trial_name=trial.name if trial else "",
        phase=trial.plan.phases[snapshot.phase.index].name if trial and snapshot.phase else "",
        planned=trial.plan.events if trial else 0,
        sent=snapshot.sent,
        errors=snapshot.errors,
        received=seen.received if seen else None,
        lag=seen.lag if seen else None,
        at=datetime.fromtimestamp((last_beat_ns(beats) or snapshot.now_ns) / 1e9, UTC),
    )


def _snapshot(
    run: RunRecord, specs: tuple[TrialSpec, ...], lease: Lease | None, beats: Beats, services: Services
) -> Snapshot:
    """Put together what is known now; between two trials, only that the run goes on."""
    started_ns = int(run.started_at.timestamp() * 1e9) if run.started_at else 0
    now_ns = services.clock.now_ns()
    if lease is None or lease.trial >= len(specs):
        return Snapshot(specs=specs, started_ns=started_ns, now_ns=now_ns, done=_done(run, len(specs), services))
    return Snapshot(
        specs=specs,
        started_ns=started_ns,
        now_ns=now_ns,
        trial=lease.trial,
        trial_seen_ns=lease.taken_at_ns,
        done=lease.trial,
        phase=_phase(_begun(beats), specs[lease.trial], services),
        sent=counted(beats, "sent"),
        received=_received(specs[lease.trial], beats, services),
        errors=counted(beats, "failed", "unknown"),
    )


def _done(run: RunRecord, trials: int, services: Services) -> int:
    """Return how many of the run's trials have ended, the last one first: between two trials few are looked at."""
    for index in range(trials - 1, -1, -1):
        ref = TrialRef(run_id=run.run_id, trial=index, tag="")
        if any(services.runs.find_bytes(layout.trial_key(ref, name)) for name in ("result.json", "failure.json")):
            return index + 1
    return 0


def _received(spec: TrialSpec, beats: Beats, services: Services) -> int | None:
    """Return how many entries came since the load began, which leaves out canaries; None where too many are planned."""
    if not measure_of(spec.plan.experiment).arrives or spec.plan.events > MOST_COUNTED:
        return None
    first = _phase(_begun(beats)[:1], spec, services)
    return services.table.t4_count(spec.tag, since_ns=first.start_at_ns) if first else 0


def _begun(beats: Beats) -> list[int]:
    """Return the phases that writers beat for, in order."""
    return sorted(layout.attempt_names(who.removeprefix(WRITER))[0] for who in beats if who.startswith(WRITER))


def _phase(begun: Sequence[int], spec: TrialSpec, services: Services) -> PhaseStart | None:
    """Return the last of these phases, with its time zero as `PlanPhase` fixed it."""
    index = begun[-1] if begun else len(spec.plan.phases)
    if index >= len(spec.plan.phases):
        return None
    found = services.runs.find_json(layout.phase_key(spec.ref, index, "plan.json"))
    return None if found is None else PhaseStart(index, int(found["start_at_ns"]))
