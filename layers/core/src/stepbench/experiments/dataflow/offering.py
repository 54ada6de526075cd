"""
What a trial of DAGs takes and needs before it runs, and what its executions have cost.

Before it runs the bill has what its executions take beside what every trial takes. How long a task takes nobody knows
then: see `assumptions`; at most it takes its whole time-out three times.

Afterwards an execution has the price of functions, orchestration and the store, as of today and of November 2022. A
server is paid by the hour: with idle hours for all of the window, shared by its executions; without for the time in
which any of them went on. Where none of the stack's stands (locally, or a server of somebody else's), the published
hosts are taken: cache.r5.large, i3.large. S3 is paid by the request, and deletions are free.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.plan import offered_plan
from stepbench.contracts.target import CassandraTarget
from stepbench.costs import assumptions, prices
from stepbench.costs.assumptions import events_of
from stepbench.costs.estimate import offered_estimate
from stepbench.costs.prices import DEFAULT_REGION, HOURS_PER_MONTH, describe_prices, find_price, instance, line
from stepbench.costs.standing import HOST_VOLUME_GB, cassandra_host, standing
from stepbench.costs.stores import ECPU_BYTES
from stepbench.errors import Problem
from stepbench.experiments.dataflow.tasks.application_parameters import named_sources, source_problem
from stepbench.experiments.protocol import Sandboxes
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.contracts.target import Target
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import Amount, CostEstimate
    from stepbench.costs.standing import Deployment
    from stepbench.settings import Settings

MOST_ATTEMPTS = 3
END_S, MOST_END_S = 1.0, 60.0
ROW_WRITES, BLOBS_PER_WRITE = 2, 50
LOG_BYTES_PER_TASK = 600
TASK_MEMORY_MB, END_MEMORY_MB = 1_769, 1_024
"""The template's defaults."""
_PUBLISHED = {"redis": "cache.r5.large", "cassandra": "i3.large"}
"""The source's servers."""
STATES, STATES_OF_LEVEL = 5, 2
"""Transitions of the DAG machine: an execution's own, and those of each level."""
MODELLED_LOCALLY = "modelled: AWS price x local time"


def estimate(trial: AnyTrial, assumed: Assumptions, region: str, *, at_most: bool) -> CostEstimate:
    """Return what the trial costs on AWS: as any trial of events, and its executions."""
    plan = offered_plan(trial)
    return offered_estimate(plan, assumed, region, dag_amounts(plan, assumed, at_most=at_most), dag_requests(plan))


def load_s(trial: AnyTrial, assumed: Assumptions) -> float:
    """Return how long executions are started, and the last of each phase takes."""
    return assumptions.load_s(offered_plan(trial), assumed)


def stack_problems(at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
    """Yield what the functions that run the tasks of a trial's DAGs lack: libraries, memory, or a file."""
    for place, dag in enumerate(trial.dags):
        for path, source in named_sources(dag):
            if problem := source_problem(f"{at}.dags[{place}].{path}", source, settings):
                yield problem
        for number, stage in enumerate(dag.stages):
            found = f"{at}.dags[{place}].stages[{number}]"
            if settings.applications == "off" and stage.function != "RunTask":
                message = "needs libraries that this stack's functions do not have"
                remedy = "Use tasks of synthetic, or deploy with Applications=on (docs/deploy.md)."
                yield Problem(f"{found}.task", f'"{stage.task}"', message, remedy)
            if settings.task_memory_mb and (stage.memory_mib or 0) > settings.task_memory_mb:
                message = f"is more than this stack's functions have, {settings.task_memory_mb:,} MB"
                remedy = "Ask for less, or deploy with a larger TaskMemorySize (docs/deploy.md)."
                yield Problem(f"{found}.memory_mib", f"{stage.memory_mib}", message, remedy)


def sandboxes(trial: AnyTrial) -> Sandboxes:
    """Return those of writers, and the tasks that run at least: of the widest level, for a second's executions."""
    plan = offered_plan(trial)
    tasks = max(_tasks_at_once(plan, phase) for phase in plan.phases)
    return Sandboxes(plan.writer_sandboxes, tasks, "tasks", ("writers", plan.writers))


def _tasks_at_once(trial: TrialPlan, phase: Phase) -> int:
    executions = phase.closed.clients if phase.closed else max(step.rate_per_s for step in phase.load)
    widest = max(sum(stage.tasks for stage in level) for level in trial.dag_of(phase).levels)
    return widest * math.ceil(executions)


def dag_amounts(trial: TrialPlan, assumed: Assumptions, *, at_most: bool) -> Iterator[Amount]:
    """Yield what the executions of a trial take: with tasks as assumed, or at most."""
    for phase in trial.run_phases:
        dag, executions = trial.dag_of(phase), events_of(trial, phase, assumed)
        mix = expected_mix(dag)
        attempts = dag.tasks * (MOST_ATTEMPTS if at_most else 1)
        task_s = sum(
            stage.tasks * (stage.timeout_s * MOST_ATTEMPTS if at_most else assumed.task_of(stage))
            for stage in dag.stages
        )
        end_s = MOST_END_S if at_most else END_S
        note = f"{dag.tasks} tasks of {dag.name} in each of {executions:,} executions"
        if at_most:
            note += ", each with its whole time-out three times"
        memory_mb = max(TASK_MEMORY_MB, *(stage.memory_mib or 0 for stage in dag.stages))
        gb_s = task_s * memory_mb / 1_024 + end_s * END_MEMORY_MB / 1_024
        yield line(prices.LAMBDA_REQUEST, executions * (attempts + 1))
        yield line(prices.LAMBDA_GB_S, executions * gb_s, note)
        yield line(prices.STATE_TRANSITION, executions * transitions_of(len(dag.levels), dag.tasks, attempts))
        writes = ROW_WRITES * (attempts + 1) + (mix.objects + mix.reads) / BLOBS_PER_WRITE
        yield line(prices.RESULTS_WRITE, executions * writes)
        yield line(prices.LOGS_GB, executions * attempts * LOG_BYTES_PER_TASK / 1e9)


def dag_requests(trial: TrialPlan) -> tuple[float, float]:
    """Return how many objects an execution of the trial puts and gets, on average."""
    mixes = [(expected_mix(trial.dag_of(phase)), trial.events_of(phase)) for phase in trial.run_phases]
    executions = sum(count for _, count in mixes)
    if not executions:
        return 0.0, 0.0
    puts, gets = sum(count * mix.objects for mix, count in mixes), sum(count * mix.reads for mix, count in mixes)
    return puts / executions, gets / executions


def transitions_of(levels: int, tasks: int, attempts: int) -> int:
    """Return how many transitions an execution is billed for: each attempt is one, and each task's choice before it."""
    return STATES + STATES_OF_LEVEL * levels + tasks + attempts


class ExecutionUsage(NamedTuple):
    """
    What one execution used.

    latency_s: t4 - t0. task_s, end_s: of all attempts at its tasks, and of its end. tasks, attempts, levels: counts.
    puts, gets: requests to the store. moved_bytes: by both.
    """

    latency_s: float
    task_s: float
    end_s: float
    tasks: int
    attempts: int
    levels: int
    puts: int
    gets: int
    moved_bytes: int


class WindowUsage(NamedTuple):
    """A window's executions. busy_s: for how long any went on. whole_s: from its begin to its end, or their last."""

    executions: tuple[ExecutionUsage, ...]
    busy_s: float
    whole_s: float


class WindowCost(NamedTuple):
    """
    What its executions cost by one table.

    prices: the table's name. usd: of each. parts: means, by what it is spent on. modelled: why it was not paid; "" if
    it was.
    """

    prices: str
    idle: bool
    usd: tuple[float, ...]
    parts: dict[str, float]
    modelled: str


def window_costs(usage: WindowUsage, target: Target, deployment: Deployment) -> Iterator[WindowCost]:
    """
    Yield costs by each price table, with and without idle hours.

    Args:
        usage: of one execution at least.
        target: the store. Of hosts side by side, the trial's own is paid for.
        deployment: of the stack.
    """
    store, own_server = target.store, target.endpoint is not None
    host = target.host if isinstance(target, CassandraTarget) else None
    paid = deployment.stands(store) and not own_server
    if paid and store == "cassandra":
        hourly = tuple(cassandra_host(deployment.options, host))
    else:
        hourly = standing(deployment)[store] if paid else tuple(_published(store))
    spent = [_amounts(one, store, deployment, paid=paid) for one in usage.executions]
    region = deployment.region
    tables = ((describe_prices(region), region, False), (f"{DEFAULT_REGION}, November 2022", DEFAULT_REGION, True))
    for name, where, published in tables:
        usd = partial(_usd, region=where, published=published)
        for idle in (False, True):
            hours = (usage.whole_s if idle else usage.busy_s) / 3_600 / len(usage.executions)
            each = [{part: usd(amounts) for part, amounts in parts.items()} for parts in spent]
            for parts in each:
                parts["store"] += hours * usd(hourly)
            means = {part: sum(parts[part] for parts in each) / len(each) for part in each[0]}
            modelled = _modelled(store, deployment, paid=paid, own_server=own_server)
            yield WindowCost(name, idle, tuple(sum(parts.values()) for parts in each), means, modelled)


def _usd(amounts: Iterable[Amount], region: str, *, published: bool) -> float:
    """Price amounts in a region or, if wanted, as in November 2022 and, where there is no such price, as of today."""
    found = ((each.quantity, find_price(each.price.key, region, published=published)) for each in amounts)
    return sum(quantity * quote.usd for quantity, quote in found if quote is not None)


def _modelled(store: str, deployment: Deployment, *, paid: bool, own_server: bool) -> str:
    if deployment.emulator:
        return MODELLED_LOCALLY
    if store in _PUBLISHED and not paid:
        return f"modelled: the price of {_PUBLISHED[store]} for a server that is not the stack's"
    return "modelled: S3's prices for a server that is not the stack's" if store == "s3" and own_server else ""


def _published(store: str) -> Iterator[Amount]:
    """Yield an hour of the host that the source had."""
    if store == "redis":
        yield line(instance("elasticache", _PUBLISHED[store]), 1)
    elif store == "cassandra":
        yield line(instance("ec2", _PUBLISHED[store]), 1)
        yield line(prices.VOLUME_GB_MONTH, HOST_VOLUME_GB / HOURS_PER_MONTH)
        yield line(prices.ADDRESS_HOUR, 1)


def _amounts(one: ExecutionUsage, store: str, deployment: Deployment, *, paid: bool) -> dict[str, list[Amount]]:
    """Return what one execution takes, but for the hours of a server."""
    duration = prices.LAMBDA_ARM_GB_S if deployment.arm64 else prices.LAMBDA_GB_S
    task_gb = float(deployment.options.get("TaskMemorySize") or TASK_MEMORY_MB) / 1_024
    gb_s = one.task_s * task_gb + one.end_s * END_MEMORY_MB / 1_024
    requests = []
    if store == "s3":
        requests = [line(prices.S3_PUT, one.puts), line(prices.S3_GET, one.gets)]
    elif store == "redis" and paid and deployment.options.get("ElastiCache") == "serverless":
        units = max(one.puts + one.gets, one.moved_bytes / ECPU_BYTES)
        requests = [line(prices.ELASTICACHE_ECPU, units)]
    return {
        "functions": [line(duration, gb_s), line(prices.LAMBDA_REQUEST, one.attempts + 1)],
        "orchestration": [line(prices.STATE_TRANSITION, transitions_of(one.levels, one.tasks, one.attempts))],
        "store": requests,
    }
