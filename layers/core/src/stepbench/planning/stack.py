"""What a stack has to have for the trials of a plan: each would find out after it has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.plan import offered_plan
from stepbench.drivers.dynamodb.meter import TABLE_PERIOD_S
from stepbench.drivers.metering import metric_of, metric_parameter
from stepbench.errors import Problem, raise_problems
from stepbench.experiments.registry import experiment_of
from stepbench.planning.problems import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import AnyTrial
    from stepbench.planning.expansion import Expanded
    from stepbench.settings import Settings

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
    yield from experiment_of(trial.experiment).offering.stack_problems(at, trial, settings)
    yield from _load_host_problems(at, trial, settings)
    yield from _metric_problems(at, trial, settings)


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
