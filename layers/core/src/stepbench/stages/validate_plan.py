"""Task `ValidatePlan`: the user's input becomes stored trials, or is refused before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.run_tasks import PhaseRef, PlannedTrial, ValidatePlanInput, ValidatePlanOutput
from stepbench.contracts.runs import MAX_CAUSE_CHARS, RunRecord, RunRequest
from stepbench.contracts.target import configures
from stepbench.errors import PlanError, RunEndedError, without_queries
from stepbench.planning import expand
from stepbench.planning.requests import parse_request, run_record
from stepbench.planning.wall_time import overheads_of
from stepbench.records.storage import layout
from stepbench.stages.application_traces import resolve_traces
from stepbench.stages.guards import admit, check_delivery, enter_run
from stepbench.stages.run_events import RUN_FAILED, announce

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services


def validate_plan(task: ValidatePlanInput, services: Services) -> ValidatePlanOutput:
    """
    Parse, estimate, ask for quotas, and X-Ray where the plan wants it; expand; store `plan.json` and each `trial.json`.

    The run is entered in the register before, unless the API has done so, and its estimate is reserved of the month's
    budgets; one that is refused is entered as refused.

    Raises:
        PlanError: with every problem; no document has been stored then.
        RunEndedError: a run of this id is over, as it was stopped, or an old execution's name was taken again; or its
            schedule has started another run for the same time.
        RecordsUnavailableError: the results bucket, or the register, does not take what is to be stored.
    """
    request = RunRequest(plan=None)
    try:
        request = parse_request(task.plan)
        check_delivery(request, task.run_id, services)
        found = admit(request, services)
        plan = resolve_traces(found.plan, services)
        entered = enter_run(run_record(task.run_id, request, found, task.started_at, services.settings), services)
    except PlanError as error:
        _enter_refusal(task, request, str(error), services)
        raise
    known = None if entered else services.register.find(task.run_id)
    if known is not None and known.ended:
        message = f"run {task.run_id} is {known.state} already, and what it has stored stays; start one of another name"
        raise RunEndedError(message)
    specs = expand(plan, task.run_id, overheads_of(services.settings).assumed)
    for name, document in (("plan.json", plan), ("request.json", request)):  # of which reports are made
        shown = without_queries(document.model_dump(mode="json", by_alias=True))
        services.runs.put_json(layout.run_key(task.run_id, name), shown)
    planned = tuple(_store(spec, services) for spec in specs)
    estimate_usd = sum(spec.estimate_usd for spec in specs)
    return ValidatePlanOutput(run_id=task.run_id, started_at=task.started_at, trials=planned, estimate_usd=estimate_usd)


def _enter_refusal(task: ValidatePlanInput, request: RunRequest, cause: str, services: Services) -> None:
    """Announce a run that is refused, and enter it, so that who asked for it finds out why without the console."""
    known = request.model_dump(include={"team", "caller", "source", "confirms"})
    times = {"submitted_at": task.started_at, "finished_at": task.started_at}
    record = RunRecord(run_id=task.run_id, plan="", state="refused", cause=cause[:MAX_CAUSE_CHARS], **times, **known)
    before = services.register.find(task.run_id)
    if before is None or not before.ended:
        announce(RUN_FAILED, record, services)
    if not services.register.add(record):
        services.register.change(
            task.run_id, ("submitted",), **record.model_dump(include={"state", "cause", "finished_at"})
        )


def _store(spec: TrialSpec, services: Services) -> PlannedTrial:
    ref = spec.ref
    services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
    return PlannedTrial(
        ref=ref,
        name=spec.name,
        # The tag hashes the run's name, which may have 80 characters itself: all that an execution's name may have.
        child_name=f"{spec.tag}-{spec.name}",
        pull=spec.plan.pull,
        phases=tuple(
            PhaseRef(
                index=index,
                settle_s=math.ceil(phase.settle_s),
                scale=phase.scale is not None or configures(spec.plan.target, index),
                until=phase.until is not None,
                utilisation=phase.probe or phase.uses_found_rate,
            )
            for index, phase in enumerate(spec.plan.phases)
        ),
    )
