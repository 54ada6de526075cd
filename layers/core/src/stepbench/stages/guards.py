"""What a plan would need of its account, and what its month's budgets have left, asked before anything is created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.phase import MAX_PRECISION_CHECKS
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.regressions import NamedRun
from stepbench.contracts.rules.load import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs.capacity import peak_units, provisioned_units
from stepbench.errors import PlanError, Problem, RunEndedError
from stepbench.experiments.registry import experiment_of
from stepbench.observability import logger
from stepbench.planning import expanded
from stepbench.planning.orchestration import QUOTA_NAMES, Bucket, default_buckets, orchestration_problems
from stepbench.records.storage.run_register import Budgets, OverBudgetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.contracts.runs import RunRecord, RunRequest
    from stepbench.services import Services

OTHER_FUNCTIONS = 10
"""Sandboxes of a run beside writers and receivers: stages, watchers, the API."""
HISTORY_EVENTS = 25_000
"""Of an execution; it fails at the next one. Step Functions' quota, which cannot be raised."""
EVENTS_PER_STATE, STATES_PER_TRIAL, STATES_PER_PHASE, STATES_PER_LOOK, LANES = 6, 60, 30, 4, 2
WATCH_S = 600
"""So long a round of a watcher's loop takes at least; loads are watched for hours."""
_KEPT, _KEPT_BUCKETS, _KEPT_S = "quotas", "orchestration", 3_600
_DEFAULT = "which is AWS's default, since the account's own could not be read"


class Quotas(NamedTuple):
    """An account's quotas in the stack's region; `source` says where a number comes from if it is AWS's default."""

    sandboxes: int = 1_000
    table_write_units: int = 40_000
    account_write_units: int = 80_000
    sandboxes_source: str = _DEFAULT
    units_source: str = _DEFAULT


def check_quotas(plan: Plan, services: Services) -> None:
    """
    Refuse a plan that needs more than its account has; an emulator has no account.

    Raises:
        PlanError: with every trial that needs more.
    """
    problems = list(_history_problems(plan))
    if not services.settings.emulator:
        quotas = read_quotas(services)
        problems += [*_sandbox_problems(plan, quotas), *_unit_problems(plan, quotas)]
        if any(trial.dags for trial in plan.trials):
            problems += orchestration_problems(plan, read_buckets(services))
    if problems:
        raise PlanError(tuple(dict.fromkeys(problems)))  # once, however often a trial is repeated


def check_baseline(request: RunRequest, plan: str, services: Services) -> None:
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
        whose, parameter = ("team " + record.team, "TeamBudgetUsd") if error.whose == "team" else ("all teams", "")
        left = max(0.0, error.budget_usd - error.spent_usd)
        message = (
            f"may cost ${record.spent_usd:,.2f}, and of ${error.budget_usd:,.2f} that {whose} may spend in "
            f"{record.month}, ${left:,.2f} are left"
        )
        remedy = (
            f"Offer fewer events, wait for the next month, or deploy with a higher {parameter or 'AccountBudgetUsd'}."
        )
        raise PlanError([Problem("budget_usd", f"${record.spent_usd:,.2f}", message, remedy)]) from error


def read_quotas(services: Services) -> Quotas:
    """
    Return the account's quotas; AWS's defaults where they cannot be read, which the log tells, too.

    They are kept for an hour: DynamoDB answers no more than about once a minute, and each run is checked twice.
    """
    if kept := services.register.kept(_KEPT):
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


def read_buckets(services: Services) -> dict[str, Bucket]:
    """Return what the account's token buckets of Step Functions hold; they are kept for an hour, too."""
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


def history_events(trial: AnyTrial) -> int:
    """Return how many events the trial machine's history has, at most; writers have histories of their own."""
    looks = MAX_PRECISION_CHECKS * sum(phase.until is not None for phase in trial.phases)
    looks += METRICS_WAIT_S // METRICS_LOOP_S * sum(phase.probe or phase.uses_found_rate for phase in trial.phases)
    rounds = LANES * trial.length_s / WATCH_S if trial.pull else 0
    states = STATES_PER_TRIAL + STATES_PER_PHASE * len(trial.phases) + STATES_PER_LOOK * (looks + rounds)
    return math.ceil(EVENTS_PER_STATE * states)


def _history_problems(plan: Plan) -> Iterator[Problem]:
    for trial in expanded(plan):
        events = history_events(trial.plan)
        if events > HISTORY_EVENTS:
            message = (
                f"would make some {events:,} events in the history of an execution, which takes {HISTORY_EVENTS:,}"
            )
            yield Problem(f"trials[{trial.source}].phases", str(len(trial.plan.phases)), message, "Split the trial.")


def _sandbox_problems(plan: Plan, quotas: Quotas) -> Iterator[Problem]:
    for trial in expanded(plan):
        found = experiment_of(trial.plan.experiment).offering.sandboxes(trial.plan)
        needed = found.writers + found.others + OTHER_FUNCTIONS
        if needed <= quotas.sandboxes:
            continue
        message = (
            f"needs {needed:,} concurrent executions of Lambda ({found.writers:,} writers, {found.others:,} "
            f"{found.others_name}, {OTHER_FUNCTIONS} others), and the account has "
            f"{_told(quotas.sandboxes, quotas.sandboxes_source)}"
        )
        remedy = "Lower writers or max_concurrency, offer less, or have Lambda's quota Concurrent executions raised."
        field, value = found.field
        yield Problem(f"trials[{trial.source}].{field}", str(value), message, remedy)


def _unit_problems(plan: Plan, quotas: Quotas) -> Iterator[Problem]:
    for trial in expanded(plan):
        target = trial.plan.target
        if not isinstance(target, DynamoDbTarget) or target.endpoint is not None:
            continue
        at, most = f"trials[{trial.source}].target.capacity", quotas.table_write_units
        units = provisioned_units(trial.plan)
        if units is not None and units > min(most, quotas.account_write_units):
            told = _told(min(most, quotas.account_write_units), quotas.units_source)
            message = f"asks for {units:,} write units, and the account gives a table {told}"
            yield Problem(at, f"{units}", message, "Lower it, or have DynamoDB's quota of write throughput raised.")
        peak = math.ceil(peak_units(offered_plan(trial.plan)))
        if units is None and peak > most:
            message = f"is offered {peak:,} write units a second, and a table of the account takes"
            remedy = "Offer less, or have DynamoDB's quota of table-level write throughput raised."
            yield Problem(at, target.capacity.mode, f"{message} {_told(most, quotas.units_source)}", remedy)


def _told(quota: int, source: str) -> str:
    return f"{quota:,}, {source}" if source else f"{quota:,}"
