"""Task `ValidatePlan`: the user's input becomes stored trials, or is refused before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.run_tasks import PhaseRef, PlannedTrial, ValidatePlanInput, ValidatePlanOutput
from stepbench.errors import PlanError, Problem
from stepbench.planning import check_budget, expand, expanded, parse_plan, require_servers
from stepbench.records.storage import layout
from stepbench.stages.application_traces import resolve_traces
from stepbench.stages.plan_phase import concurrency, finding_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import Plan, TrialPlan, TrialSpec
    from stepbench.settings import Settings
    from stepbench.stages.services import Services


def validate_plan(task: ValidatePlanInput, services: Services) -> ValidatePlanOutput:
    """
    Parse, estimate, ask X-Ray where the plan wants it, expand; then store `plan.json` and each `trial.json`.

    Raises:
        PlanError: with every problem; nothing has been stored then.
        RecordsUnavailableError: the results bucket does not take the documents.
    """
    plan = parse_plan(task.plan)
    require_servers(plan, services.settings.knows_server, "this stack", "deploy with one (see docs/deploy.md)")
    if problems := dict.fromkeys(_stack_problems(plan, services.settings)):  # once, however often a trial is repeated
        raise PlanError(tuple(problems))
    estimate_usd = check_budget(plan)
    plan = resolve_traces(plan, services)
    specs = expand(plan, task.run_id)
    services.runs.put_model(layout.run_key(task.run_id, "plan.json"), plan)
    planned = tuple(_store(spec, services) for spec in specs)
    return ValidatePlanOutput(run_id=task.run_id, started_at=task.started_at, trials=planned, estimate_usd=estimate_usd)


def _stack_problems(plan: Plan, settings: Settings) -> Iterator[Problem]:
    """Yield what the stack lacks for a trial, or does not permit: the trial would find out after it has begun."""
    for trial in expanded(plan):
        at, target = f"trials[{trial.source}]", trial.plan.target
        if target.endpoint is not None and not (settings.allow_custom_endpoints or settings.emulator):
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
        yield from _load_host_problems(at, trial.plan, settings)
        yield from finding_problems(trial.source, trial.plan, settings)


def _load_host_problems(at: str, trial: TrialPlan, settings: Settings) -> Iterator[Problem]:
    if trial.load_from != "host":
        return
    if not settings.load_host_writers:
        message = "needs a load host, and this stack has none"
        yield Problem(f"{at}.load_from", '"host"', message, "Remove it, or deploy with LoadHost=on (docs/deploy.md).")
        return
    at_once = max(concurrency(trial, phase) for phase in range(len(trial.phases)))
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
                scale=phase.scale is not None,
                until=phase.until is not None,
                utilisation=phase.probe or phase.uses_found_rate,
            )
            for index, phase in enumerate(spec.plan.phases)
        ),
    )
