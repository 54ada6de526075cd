"""Task `ValidatePlan`: the user's input becomes stored trials, or is refused before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.regressions import NamedRun
from stepbench.contracts.runs import (
    MAX_CAUSE_CHARS,
    PhaseRef,
    PlannedTrial,
    RunRecord,
    RunRequest,
    ValidatePlanInput,
    ValidatePlanOutput,
)
from stepbench.contracts.target import configures
from stepbench.errors import PlanError, Problem, RunEndedError, without_queries
from stepbench.observability import logger
from stepbench.planning import expand
from stepbench.planning.limits import budget_problem
from stepbench.planning.privacy import without_rows
from stepbench.planning.quotas import QUOTA_NAMES, Bucket, Quotas, check_quotas, default_buckets
from stepbench.planning.requests import admitted, parse_request, run_record
from stepbench.planning.wall_time import overheads_of
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import Budgets, OverBudgetError
from stepbench.stages.application_traces import resolve_traces
from stepbench.stages.measured_functions import check_functions
from stepbench.stages.turns import RUN_FAILED, announce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.planning import Expanded
    from stepbench.planning.requests import Admitted
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
    specs = expand(plan, task.run_id, overheads_of(services.settings).assumed, found.trials)
    for key, body in found.files.items():
        services.runs.put_bytes(key, body)
    for key in found.read_again:
        services.runs.renew(key)
    for name, document in (("plan.json", plan), ("request.json", request)):  # of which reports are made
        shown = without_queries(document.model_dump(mode="json", by_alias=True))
        shown = without_rows(shown) if document is request else shown  # of which plan.json has them
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
    loaded = traits_of(spec.plan.experiment).windows
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
                until=loaded and spec.may_end_early(index),
                utilisation=phase.probe or phase.uses_found_rate,
            )
            for index, phase in enumerate(spec.plan.phases)
        ),
    )


_KEPT, _KEPT_BUCKETS, _KEPT_S = "quotas", "orchestration", 3_600


def admit(request: RunRequest, services: Services) -> Admitted:
    """
    Return the plan that a request asks for.

    Raises:
        PlanError: it is none, stack, account or its own budget do not permit it, or its baseline is none.
    """
    found = admitted(request, services.settings, services.runs.find_rows)
    check_functions(found.trials, services)
    check_quotas(found.trials, read_quotas(found.trials, services), aborts=found.plan.abort_on_fail)
    _check_baseline(request, found.plan.name, services)
    return found


def _check_baseline(request: RunRequest, plan: str, services: Services) -> None:
    """
    Refuse a named baseline that is no run of the team and plan.

    Raises:
        PlanError: it is none; another team's is none, either.
    """
    baseline = request.detector.baseline if request.detector else None
    if not isinstance(baseline, NamedRun):
        return
    named = services.register.find(baseline.run_id)
    if named is None or (named.team, named.plan, named.state) != (request.team, plan, "succeeded"):
        message = f"is no run of team {request.team} and plan {plan} that went through"
        remedy = "Name one of them (GET /runs), or leave the baseline out."
        raise PlanError([Problem("regressions.baseline.run_id", f'"{baseline.run_id}"', message, remedy)])


def check_delivery(request: RunRequest, run_id: str, services: Services) -> None:
    """
    End a run that a schedule has started a second time: each attempt of its has another id, and so another name.

    Raises:
        RunEndedError: another run was started for the same time of the same schedule.
    """
    if not request.scheduled:
        return
    first = services.register.claim(request.scheduled, run_id)
    if first != run_id:
        message = f"{request.scheduled} has started run {first} already; leave scheduled out to run the plan once more"
        raise RunEndedError(message)


def enter_run(record: RunRecord, services: Services) -> bool:
    """
    Enter a run in the register, and reserve what it may cost of its month's budgets; False if it is known.

    Raises:
        PlanError: the team, or all teams together, have not so much left.
    """
    settings = services.settings
    try:
        return services.register.add(record, Budgets(settings.team_budget_usd, settings.account_budget_usd))
    except OverBudgetError as error:
        raise PlanError([budget_problem(record, error)]) from error


def read_quotas(trials: Sequence[Expanded], services: Services) -> Quotas | None:
    """
    Return the account's quotas, those of Step Functions only where trials start executions; None of an emulator.

    AWS's defaults where they cannot be read, which the log says, too. They are kept for an hour: DynamoDB answers no
    more than about once a minute, and each run is checked twice.
    """
    if services.settings.emulator:
        return None
    quotas = _read_quotas(services)
    return quotas._replace(buckets=_read_buckets(services)) if any(trial.plan.dags for trial in trials) else quotas


def _read_quotas(services: Services) -> Quotas:
    kept: dict[str, Any] = services.register.kept(_KEPT)
    if kept:
        return Quotas(**kept, sandboxes_source="", units_source="")
    found = Quotas()
    try:
        limit = services.aws("lambda").get_account_settings()["AccountLimit"]
        found = found._replace(sandboxes=int(limit["UnreservedConcurrentExecutions"]), sandboxes_source="")
    except (BotoCoreError, ClientError):
        logger.exception("Lambda's quota could not be read")
    try:
        limits = services.aws("dynamodb").describe_limits()
        table, account = limits["TableMaxWriteCapacityUnits"], limits["AccountMaxWriteCapacityUnits"]
        found = found._replace(table_write_units=int(table), account_write_units=int(account), units_source="")
    except (BotoCoreError, ClientError):
        logger.exception("DynamoDB's quotas could not be read")
    if not found.sandboxes_source and not found.units_source:
        numbers = {name: value for name, value in found._asdict().items() if isinstance(value, int)}
        services.register.keep(_KEPT, numbers, _KEPT_S)
    return found


def _read_buckets(services: Services) -> dict[str, Bucket]:
    buckets = default_buckets(services.settings.aws_region)
    found = services.register.kept(_KEPT_BUCKETS)
    if not found:
        try:
            found = _applied_quotas(services.aws("service-quotas")) or {"none": 0}  # which is kept, too
        except (BotoCoreError, ClientError):
            logger.exception("Step Functions' quotas could not be read")
            return buckets
        services.register.keep(_KEPT_BUCKETS, found, _KEPT_S)
    for name, (size, refill) in QUOTA_NAMES.items():
        if size in found and refill in found:
            buckets[name] = Bucket(found[size], found[refill], source="")
    return buckets


def _applied_quotas(client: Any) -> dict[str, int]:  # noqa: ANN401 -- boto3's
    wanted = {quota for quotas in QUOTA_NAMES.values() for quota in quotas}
    pages = client.get_paginator("list_service_quotas").paginate(ServiceCode="states")
    quotas = [quota for page in pages for quota in page["Quotas"]]
    return {quota["QuotaName"]: int(quota["Value"]) for quota in quotas if quota.get("QuotaName") in wanted}
