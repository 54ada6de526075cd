"""
The bill of a trial of DAGs from its plan, before it runs: what its executions take beside what every trial takes.

How long a task takes nobody knows before: see `assumptions`; at most it takes its whole time-out three times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.costs import prices
from stepbench.costs.dataflow import END_MEMORY_MB, TASK_MEMORY_MB, transitions_of
from stepbench.costs.expected_load import events_of
from stepbench.costs.prices import line
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow import Dag
    from stepbench.contracts.plan import TrialPlan
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import Amount

MOST_ATTEMPTS = 3
END_S, MOST_END_S = 1.0, 60.0
ROW_WRITES, BLOBS_PER_WRITE = 2, 50
LOG_BYTES_PER_TASK = 600


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
