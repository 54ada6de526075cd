"""Task `ValidatePlan`: the user's input becomes stored trials, or is refused before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.run_tasks import PhaseRef, PlannedTrial, ValidatePlanInput, ValidatePlanOutput
from stepbench.contracts.runs import RunRecord, RunRequest
from stepbench.contracts.target import configures
from stepbench.errors import PlanError, Problem, RunEndedError, without_queries
from stepbench.experiments.estimates import budgeted, estimate
from stepbench.experiments.registry import experiment_of
from stepbench.planning import check_budget, check_models, expand, expanded, require_servers
from stepbench.planning.requests import parse_request, requested_plan
from stepbench.planning.wall_time import AWS, LOCAL, run_s
from stepbench.records.storage import layout
from stepbench.stages.application_traces import resolve_traces
from stepbench.stages.guards import check_baseline, check_delivery, check_quotas, enter_run
from stepbench.stages.plan_phase import finding_problems
from stepbench.stages.run_events import RUN_FAILED, announce

MAX_CAUSE_CHARS = 2_000

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from stepbench.contracts.plan import AnyTrial, Plan, TrialSpec
    from stepbench.planning.wall_time import Overheads
    from stepbench.services import Services
    from stepbench.settings import Settings


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
        plan = requested_plan(request)
        check_against_stack(plan, services.settings)
        check_quotas(plan, services)
        check_baseline(request, plan.name, services)
        plan = resolve_traces(plan, services)
        entered = enter_run(run_record(task.run_id, request, plan, task.started_at, services.settings), services)
    except PlanError as error:
        _enter_refusal(task, request, str(error), services)
        raise
    known = None if entered else services.register.find(task.run_id)
    if known is not None and known.ended:
        message = f"run {task.run_id} is {known.state} already, and what it has stored stays; start one of another name"
        raise RunEndedError(message)
    specs = expand(plan, task.run_id, _overheads(services.settings).assumed)
    for name, document in (("plan.json", plan), ("request.json", request)):  # of which reports are made
        shown = without_queries(document.model_dump(mode="json", by_alias=True))
        services.runs.put_json(layout.run_key(task.run_id, name), shown)
    planned = tuple(_store(spec, services) for spec in specs)
    estimate_usd = sum(spec.estimate_usd for spec in specs)
    return ValidatePlanOutput(run_id=task.run_id, started_at=task.started_at, trials=planned, estimate_usd=estimate_usd)


def _overheads(settings: Settings) -> Overheads:
    return LOCAL if settings.emulator else AWS


def check_against_stack(plan: Plan, settings: Settings) -> None:
    """
    Refuse a valid plan that the stack cannot run within its budget.

    Raises:
        PlanError: with everything that the stack lacks for it or does not permit; or the budget is too small.
    """
    require_servers(plan, settings.knows_server, "this stack", "deploy with one (see docs/deploy.md)")
    if problems := dict.fromkeys(_stack_problems(plan, settings)):  # once, however often a trial is repeated
        raise PlanError(tuple(problems))
    check_models(plan)
    check_budget(plan)


def run_record(run_id: str, request: RunRequest, plan: Plan, submitted_at: datetime, settings: Settings) -> RunRecord:
    """Return what the register says of a run that was asked for, and may begin."""
    trials, overheads = [trial.plan for trial in expanded(plan)], _overheads(settings)
    return RunRecord(
        run_id=run_id,
        plan=plan.name,
        state="submitted",
        submitted_at=submitted_at,
        trials=len(trials),
        estimate_usd=sum(estimate(trial, overheads.assumed).total_usd for trial in trials),
        at_most_usd=sum(budgeted(trial).total_usd for trial in trials),
        expected_s=run_s(trials, overheads),
        **request.model_dump(include={"team", "caller", "source", "confirms"}),
    )


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


def _stack_problems(plan: Plan, settings: Settings) -> Iterator[Problem]:
    """Yield what the stack lacks for a trial, or does not permit: the trial would find out after it has begun."""
    for trial in expanded(plan):
        at, target = f"trials[{trial.source}]", trial.plan.target
        if target.endpoint is not None and not settings.permits_addresses:
            remedy = "Remove it to use the stack's own store, or deploy with AllowCustomEndpoints=true."
            yield Problem(f"{at}.target.endpoint", f'"{target.endpoint}"', "is not permitted on this stack", remedy)
        if target.receiver == "CheckClock" and not settings.check_clock_function_arn:
            message = "needs the function CheckClock, which this stack leaves out"
            yield Problem(f"{at}.target.same_sandbox", "true", message, "Remove it, or deploy with ClockCheck=on.")
        for index, phase in enumerate(trial.plan.phases):
            if phase.scale and target.store == "postgresql" and not settings.aurora_cluster:
                message = "needs an Aurora Serverless v2 cluster, and this stack has none"
                remedy = "Remove it, or deploy with AuroraPostgresql=serverless."
                yield Problem(f"{at}.phases[{index}].scale", "serverless_v2", message, remedy)
        yield from experiment_of(trial.plan.experiment).offering.stack_problems(at, trial.plan, settings)
        yield from _load_host_problems(at, trial.plan, settings)
        yield from finding_problems(trial.source, trial.plan, settings)


def _load_host_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    if trial.load_from != "host":
        return
    if not settings.load_host_writers:
        message = "needs a load host, and this stack has none"
        yield Problem(f"{at}.load_from", '"host"', message, "Remove it, or deploy with LoadHost=on (docs/deploy.md).")
        return
    at_once = trial.most_concurrent
    if at_once > settings.load_host_writers:
        message = f"has {at_once} at once, and this stack's load host runs {settings.load_host_writers}"
        remedy = f"Lower writers or max_concurrency, or deploy with LoadHostWriters={at_once}."
        yield Problem(f"{at}.writers", str(trial.writers), message, remedy)


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
