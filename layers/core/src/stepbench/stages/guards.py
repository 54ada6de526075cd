"""What a plan is held against beside the stack: its account's quotas, its month's budgets, the register of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.regressions import NamedRun
from stepbench.errors import PlanError, Problem, RunEndedError
from stepbench.observability import logger
from stepbench.planning.limits import budget_problem
from stepbench.planning.quotas import QUOTA_NAMES, Bucket, Quotas, check_quotas, default_buckets
from stepbench.planning.requests import admitted
from stepbench.records.storage.run_register import Budgets, OverBudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.runs import RunRecord, RunRequest
    from stepbench.planning import Expanded
    from stepbench.planning.requests import Admitted
    from stepbench.services import Services

_KEPT, _KEPT_BUCKETS, _KEPT_S = "quotas", "orchestration", 3_600


def admit(request: RunRequest, services: Services) -> Admitted:
    """
    Return the plan that a request asks for.

    Raises:
        PlanError: it is none, stack, account or its own budget do not permit it, or its baseline is none.
    """
    found = admitted(request, services.settings)
    check_quotas(found.trials, read_quotas(found.trials, services))
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
