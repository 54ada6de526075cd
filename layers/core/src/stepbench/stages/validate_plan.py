"""Task `ValidatePlan`: the user's input becomes stored trials, or is refused before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.problem import Problem
from stepbench.contracts.target import receiver_of
from stepbench.contracts.tasks import PhaseRef, PlannedTrial, TrialRef, ValidatePlanInput, ValidatePlanOutput
from stepbench.errors import PlanError
from stepbench.planning import check_budget, expand, expanded, parse_plan
from stepbench.records import layout
from stepbench.stages.application_traces import resolve_traces
from stepbench.stages.found_rate import admit_finding

if TYPE_CHECKING:
    from stepbench.contracts.plan import Plan, TrialSpec
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
    _admit_endpoints(plan, services.settings)
    _admit_scaling(plan, services.settings)
    _admit_clock_checks(plan, services.settings)
    admit_finding(plan, services.settings)
    estimate_usd = check_budget(plan)
    plan = resolve_traces(plan, services)
    specs = expand(plan, task.run_id)
    services.runs.put_model(layout.run_key(task.run_id, "plan.json"), plan)
    planned = tuple(_store(spec, services) for spec in specs)
    return ValidatePlanOutput(run_id=task.run_id, started_at=task.started_at, trials=planned, estimate_usd=estimate_usd)


def _admit_endpoints(plan: Plan, settings: Settings) -> None:
    """A plan's author may be somebody whom the stack's owner would not let its functions connect anywhere for."""
    if settings.allow_custom_endpoints or settings.emulator:
        return
    problems = [
        Problem(
            path=f"trials[{source}].target.endpoint",
            value=f'"{endpoint}"',
            message="is not permitted on this stack",
            remedy="Remove it to use the stack's own store, or deploy with AllowCustomEndpoints=true.",
        )
        for source, endpoint in dict.fromkeys((trial.source, trial.plan.target.endpoint) for trial in expanded(plan))
        if endpoint is not None
    ]
    if problems:
        raise PlanError(problems)


def _admit_scaling(plan: Plan, settings: Settings) -> None:
    """A trial that cannot scale would find out after its warm-up."""
    if settings.aurora_cluster:
        return
    scaled = dict.fromkeys(
        f"trials[{trial.source}].phases[{index}].scale"
        for trial in expanded(plan)
        for index, phase in enumerate(trial.plan.phases)
        if phase.scale and trial.plan.target.store == "postgresql"
    )
    problems = [
        Problem(
            path=path,
            value="serverless_v2",
            message="needs an Aurora Serverless v2 cluster, and this stack has none",
            remedy="Remove it, or deploy with AuroraPostgresql=serverless.",
        )
        for path in scaled
    ]
    if problems:
        raise PlanError(problems)


def _admit_clock_checks(plan: Plan, settings: Settings) -> None:
    """A trial in one sandbox would find out after it has taken its target."""
    if settings.check_clock_function_arn:
        return
    problems = [
        Problem(
            path=f"trials[{source}].target.same_sandbox",
            value="true",
            message="needs the function CheckClock, which this stack leaves out",
            remedy="Remove it, or deploy with ClockCheck=on.",
        )
        for source in dict.fromkeys(
            trial.source for trial in expanded(plan) if receiver_of(trial.plan.target) == "CheckClock"
        )
    ]
    if problems:
        raise PlanError(problems)


def _store(spec: TrialSpec, services: Services) -> PlannedTrial:
    ref = TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)
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
