"""What a plan may cost, what a stack has to have for its trials (each would find out late), what emulators lack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.contracts.capacity import AutoscaledCapacity
from stepbench.contracts.function import CODE_FIELDS, PLACEHOLDER, UPLOADED_FIELDS
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.target import CassandraTarget, DsqlTarget, DynamoDbTarget
from stepbench.contracts.workload import ClusterRecord
from stepbench.costs.prices import table_date
from stepbench.drivers.dynamodb import TABLE_PERIOD_S
from stepbench.drivers.metering import metric_of, metric_parameter
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.experiments.estimates import budgeted
from stepbench.experiments.registry import experiment_of
from stepbench.planning.expansion import expanded
from stepbench.planning.problems import NOTHING
from stepbench.tuning.models import host_problems, model_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.contracts.runs import RunRecord
    from stepbench.planning.expansion import Expanded
    from stepbench.records.storage.run_register import OverBudgetError
    from stepbench.settings import Settings


def check_budget(plan: Plan, trials: Sequence[Expanded] | None = None) -> float:
    """
    Return what the plan may cost on AWS, in US dollars: with as many events, and as long reads, as it allows.

    trials: the plan's, where they are known.

    Raises:
        PlanError: the cost is above `budget_usd`; names both numbers and the biggest line.
    """
    trials = expanded(plan) if trials is None else trials
    estimates = [budgeted(trial.plan, aborts=plan.abort_on_fail) for trial in trials]
    total_usd = sum(each.total_usd for each in estimates)
    if total_usd <= plan.budget_usd:
        return total_usd
    lines = [(trial, line) for trial, each in zip(trials, estimates, strict=True) for line in each.lines]
    trial, biggest = max(lines, key=lambda entry: entry[1].usd)
    problem = Problem(
        path="budget_usd",
        value=f"{plan.budget_usd:g}",
        message=f"is below what the plan may cost, ${total_usd:,.2f} (price table of {table_date()}); the biggest line "
        f"is {biggest.quantity:,.0f} {biggest.item} in {_name_trial(plan, trial)}, ${biggest.usd:,.2f}",
        remedy=f"Set budget_usd to at least {_ceil_cents(total_usd):.2f}, or offer fewer events.",
    )
    raise PlanError([problem])


def budget_problem(record: RunRecord, error: OverBudgetError) -> Problem:
    """Return why a run costs more than its team, or all teams together, have left of its month's budget."""
    whose, parameter = ("team " + record.team, "TeamBudgetUsd") if error.whose == "team" else ("all teams", "")
    left = max(0.0, error.budget_usd - error.spent_usd)
    message = (
        f"may cost ${record.spent_usd:,.2f}, and of ${error.budget_usd:,.2f} that {whose} may spend in "
        f"{record.month}, ${left:,.2f} are left"
    )
    remedy = f"Offer fewer events, wait for the next month, or deploy with a higher {parameter or 'AccountBudgetUsd'}."
    return Problem("budget_usd", f"${record.spent_usd:,.2f}", message, remedy)


def _name_trial(plan: Plan, trial: Expanded) -> str:
    """Return `trials[0]`, and the name of one of its trials where it is expanded into several."""
    path = f"trials[{trial.source}]"
    return path if plan.trials[trial.source].copies == 1 else f"{trial.name} of {path}"


def _ceil_cents(usd: float) -> float:
    """Round up, so that the advice, once followed, is enough."""
    return (int(usd * 100) + 1) / 100


def open_problems(plan: Plan, trials: Sequence[Expanded]) -> list[Problem]:
    """Return what a valid plan still lacks: what a preset leaves to be filled in, and models that do not ship."""
    return [*placeholder_problems(trials), *model_problems(plan)]


def placeholder_problems(trials: Sequence[Expanded]) -> list[Problem]:
    """Return a problem for each place that a preset leaves to be filled in, and that still is as it was."""
    functions = {f"trials[{trial.source}].target.function.name": trial.plan.target.function for trial in trials}
    return [
        Problem(
            path=at,
            value=f'"{PLACEHOLDER}"',
            message="is to be replaced by the name of your own function",
            remedy=f"Set it ({at}=NAME) to one that the stack's parameter MeasuredFunctions allows; for a folder on "
            "your machine, `stepbench init` writes a plan.",
        )
        for at, function in functions.items()
        if function is not None and function.name == PLACEHOLDER
    ]


def refuse_on_emulator(plan: Plan, where: str) -> None:
    """
    Refuse what no emulator plays: durations that only X-Ray knows, tables that scale themselves, several hosts.

    Args:
        plan: any.
        where: what does not play it: "MiniStack 1.4.3".

    Raises:
        PlanError: names each.
    """
    problems = [
        Problem(
            path=f"applications[{index}].traces",
            value=json.dumps(application.traces.name),
            message=f"needs X-Ray, which {where} does not have",
            remedy="Give the functions with their duration_ms, or run the plan on a deployed stack.",
        )
        for index, application in enumerate(plan.applications)
        if application.traces is not None and application.needs_traces
    ]
    problems += [
        Problem(
            path=f"{at}.mode",
            value="autoscaled",
            message=f"needs Application Auto Scaling, which {where} does not have",
            remedy=f'Run the plan on a deployed stack, or change it: --set \'{at}={{"mode": "on_demand"}}\'.',
        )
        for at in _autoscaled(plan)
    ]
    problems += [
        Problem(
            path=at,
            value=json.dumps(host),
            message=f"is one of several hosts of a stack, and {where} has this machine alone",
            remedy="Run the plan on a deployed stack, or have all trials here: --set 'trials[*].target.host=null'.",
        )
        for at, host in _hosts(plan).items()
    ]
    raise_problems(problems)


def _autoscaled(plan: Plan) -> Iterator[str]:
    """Yield the places of capacities that scale themselves, as often as a trial is repeated."""
    for trial in expanded(plan):
        at = f"trials[{trial.source}]"
        if isinstance(trial.plan.target, DynamoDbTarget) and isinstance(trial.plan.target.capacity, AutoscaledCapacity):
            yield f"{at}.target.capacity"
        for index, phase in enumerate(trial.plan.phases):
            if phase.scale and isinstance(phase.scale.capacity, AutoscaledCapacity):
                yield f"{at}.phases[{index}].scale.capacity"


def _hosts(plan: Plan) -> dict[str, str]:
    """Return the hosts that trials name, by their places."""
    targets = ((f"trials[{trial.source}].target.host", trial.plan.target) for trial in expanded(plan))
    cassandra = ((at, target) for at, target in targets if isinstance(target, CassandraTarget))
    return {at: target.host for at, target in cassandra if target.host is not None and target.endpoint is None}


PERIODS_NEEDED = 2
"""Any stretch of so many of the metric's periods holds a whole one."""


def check_stack(trials: Sequence[Expanded], settings: Settings) -> None:
    """
    Refuse trials that the stack cannot run.

    Raises:
        PlanError: with every store that has no server; else with all that trials lack, or that is not permitted.
    """
    raise_problems([problem for trial in trials for problem in _server_problems(trial, settings)])
    raise_problems([problem for trial in trials for problem in _problems(trial, settings)])


def _server_problems(trial: Expanded, settings: Settings) -> Iterator[Problem]:
    target = trial.plan.target
    if target.needs_endpoint and target.endpoint is None and not settings.knows_server(target.store):
        message = f"is missing, and this stack has no server of {target.store}"
        remedy = (
            "Give the endpoint of a server of your own, remove the trial, or deploy with one (see docs/servers.md)."
        )
        yield Problem(f"trials[{trial.source}].target.endpoint", NOTHING, message, remedy)


def _problems(expanded: Expanded, settings: Settings) -> Iterator[Problem]:
    at, trial, target = f"trials[{expanded.source}]", expanded.plan, expanded.plan.target
    if target.endpoint is not None and not settings.permits_addresses:
        remedy = "Remove it to use the stack's own store, or deploy with AllowCustomEndpoints=true."
        yield Problem(f"{at}.target.endpoint", f'"{target.endpoint}"', "is not permitted on this stack", remedy)
    if target.receiver == "CheckClock" and not settings.check_clock_function_arn:
        message = "needs the function CheckClock, which this stack leaves out"
        yield Problem(f"{at}.target.same_sandbox", "true", message, "Remove it, or deploy with ClockCheck=on.")
    for index, phase in enumerate(trial.phases):
        if phase.scale and target.store == "postgresql" and not settings.aurora_cluster:
            message = "needs an Aurora Serverless v2 cluster, and this stack has none"
            remedy = "Remove it, or deploy with AuroraPostgresql=serverless."
            yield Problem(f"{at}.phases[{index}].scale", "serverless_v2", message, remedy)
    if isinstance(target, CassandraTarget) and target.endpoint is None:
        yield from host_problems(f"{at}.target", target, settings)
    yield from _region_problems(at, trial, settings)
    yield from _code_problems(at, trial, settings)
    yield from experiment_of(trial.experiment).offering.stack_problems(at, trial, settings)
    yield from _load_host_problems(at, trial, settings)
    yield from _metric_problems(at, trial, settings)


def _region_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield which region of a pair to be created is the stack's own, where the pair's first cluster is by default."""
    if not isinstance(trial.target, DsqlTarget) or trial.target.region is not None:
        return
    workload = offered_plan(trial).workload
    if workload is not None and isinstance(record := workload.record, ClusterRecord):
        for field in ("peer_region", "witness_region"):
            if getattr(record, field) == settings.aws_region:
                message = "is this stack's own region, which the pair's first cluster is in"
                remedy = "Name another, or set target.region to a third one."
                yield Problem(f"{at}.workload.record.{field}", f'"{settings.aws_region}"', message, remedy)


def _code_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield why a function cannot be had from a folder: whoever may start a run could run any code on the stack."""
    function = trial.target.function
    refused = (CODE_FIELDS if settings.emulator else (*CODE_FIELDS, *UPLOADED_FIELDS)) if function else ()
    for field in refused:
        if (value := getattr(function, field)) is not None:
            message = "is for `stepbench run` on a machine of one's own, which packs and uploads it"
            remedy = 'Deploy the function, and give its "name".'
            yield Problem(f"{at}.target.function.{field}", json.dumps(value), message, remedy)


def _load_host_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    if trial.load_from != "host":
        return
    if not settings.load_host_writers:
        message = "needs a load host, and this stack has none"
        yield Problem(f"{at}.load_from", '"host"', message, "Remove it, or deploy with LoadHost=on (docs/servers.md).")
        return
    at_once = trial.most_concurrent
    if at_once > settings.load_host_writers:
        message = f"has {at_once} at once, and this stack's load host runs {settings.load_host_writers}"
        remedy = f"Lower writers or max_concurrency, or deploy with LoadHostWriters={at_once}."
        yield Problem(f"{at}.writers", str(trial.writers), message, remedy)


def _metric_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield why the utilisation that a search for a rate needs cannot be read."""
    find = trial.find_rate
    if find is None:
        return
    store = trial.target.store
    parameter = metric_parameter(store)
    try:
        metric = metric_of(offered_plan(trial).target, settings)
    except ValueError as error:
        message = f"needs this stack's metric of {store}, and {error}"
        yield Problem(f"{at}.find_rate", store, message, f"Deploy with another {parameter}.")
        return
    if metric is None and store != "dynamodb":
        message = f"needs to know how busy {store} is, and this stack knows no metric of it"
        remedy = f"Deploy with {parameter} (see docs/adaptive-load.md), or give the rates yourself."
        yield Problem(f"{at}.find_rate", store, message, remedy)
        return
    shortest_s = PERIODS_NEEDED * (metric.period_s if metric else TABLE_PERIOD_S)
    if find.probe_s < shortest_s:
        message = f"is too short: the metric of {store} comes every {shortest_s / PERIODS_NEEDED:g} s"
        remedy = f"Raise it to {shortest_s:g}: two periods hold a whole one."
        yield Problem(f"{at}.find_rate.probe_s", f"{find.probe_s:g}", message, remedy)
