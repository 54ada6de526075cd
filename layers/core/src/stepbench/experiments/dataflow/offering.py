"""
The bill of a trial of DAGs from its plan, before it runs: what its executions take beside what every trial takes.

How long a task takes nobody knows before: see `assumptions`; at most it takes its whole time-out three times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.plan import offered_plan
from stepbench.costs import expected_load, prices
from stepbench.costs.estimate import offered_estimate
from stepbench.costs.expected_load import events_of
from stepbench.costs.prices import line
from stepbench.errors import Problem
from stepbench.experiments.dataflow.prices import END_MEMORY_MB, TASK_MEMORY_MB, transitions_of
from stepbench.experiments.dataflow.tasks.sources import named_sources, source_problem
from stepbench.experiments.protocol import Sandboxes
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import Amount, CostEstimate
    from stepbench.settings import Settings

MOST_ATTEMPTS = 3
END_S, MOST_END_S = 1.0, 60.0
ROW_WRITES, BLOBS_PER_WRITE = 2, 50
LOG_BYTES_PER_TASK = 600


def estimate(trial: AnyTrial, assumed: Assumptions, region: str, *, at_most: bool) -> CostEstimate:
    """Return what the trial costs on AWS: as any trial of events, and its executions."""
    plan = offered_plan(trial)
    return offered_estimate(plan, assumed, region, dag_amounts(plan, assumed, at_most=at_most), dag_requests(plan))


def load_s(trial: AnyTrial, assumed: Assumptions) -> float:
    """Return how long executions are started, and the last of each phase takes."""
    return expected_load.load_s(offered_plan(trial), assumed)


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
    puts = gets = executions = 0
    for dag, count in _executions(trial):
        mix = expected_mix(dag)
        puts, gets, executions = puts + count * mix.objects, gets + count * mix.reads, executions + count
    return (puts / executions, gets / executions) if executions else (0.0, 0.0)


def _executions(trial: TrialPlan) -> Iterator[tuple[Dag, int]]:
    for phase in trial.run_phases:
        yield trial.dag_of(phase), trial.events_of(phase)
