"""
The bill of a trial from its plan, before it runs; `actual` has the one from its counts.

Every push event is taken to cost an invocation of its own, which batching undercuts: a budget that
holds against the estimate holds against the bill. A writer that Lambda has to start again offers its share again, which
is not foreseen. Operations invoke nothing but their writers. Where a load host runs these, its hours are billed
instead, at the price of the dearer of two types. What the trigger's filter holds back costs its write alone: no store
bills for a filter, and nothing is invoked. How long the tasks of a DAG take nobody knows: they are taken as expected,
and `upper_bound` has what they may take at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.measure import measure_of
from stepbench.contracts.phase import MAX_PRECISION_CHECKS
from stepbench.contracts.rules.load import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.transfer import TransferTrial
from stepbench.costs import prices
from stepbench.costs.dag_estimate import dag_amounts, dag_requests
from stepbench.costs.dsql import dsql_lines
from stepbench.costs.dynamodb import dynamodb_lines
from stepbench.costs.postgresql import aurora_lines
from stepbench.costs.price_table import DEFAULT_REGION
from stepbench.costs.prices import CANARIES, Offered, bill, line
from stepbench.costs.redis import elasticache_lines
from stepbench.costs.transfer import transfer_estimate
from stepbench.records.formats.t4_lines import SAMPLE_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.plan import AnyTrial, TrialPlan
    from stepbench.costs.prices import Amount, CostEstimate

FUNCTION_MEMORY_MB = 1_024
"""The template's default, and the paper's."""
RECEIVER_MS = 20
"""Billed time of a warm receiver: parse, one write to the results table."""
T4_ENTRY_BYTES = 36
T4_ITEM_BYTES = 300
LOG_BYTES_PER_INVOCATION = 400
T4_LINE_BYTES = 200
"""A line of the second source (`records.formats.t4_lines`) without its entries, CloudWatch's own 26 bytes included."""
T4_LOGGED_ENTRY_BYTES = T4_ENTRY_BYTES * 4 / 3
CONTROL_INVOCATIONS = 40
CONTROL_MS = 1_500
TRANSITIONS_PER_TRIAL = 60
TRANSITIONS_PER_PHASE = 15
TRANSITIONS_PER_ITEM = 6
TRANSITIONS_PER_CHECK = 3
CHECK_MS = 15_000
"""Some seconds in a function of three times the memory; most checks have fewer events to read than the last."""
WRITER_LEAD_S = 45
"""The billed time of a writer beside its slice: cold start, connecting, the hold until the barrier."""
FLUSH_S = 10
IDLE_S = 300
"""The time that provisioned capacity stands before and after the load."""
QUEUE_REQUESTS_PER_ITEM, QUEUE_POLL_S = 3, 5
"""A load host's: sent, received and deleted; it asks so often."""


def estimate(trial: AnyTrial, region: str = DEFAULT_REGION) -> CostEstimate:
    """
    Return an upper bound of what the trial costs on AWS at the region's list prices, from its plan alone.

    Of DAGs it is what is expected; see `upper_bound`.
    """
    if isinstance(trial, TransferTrial):
        return transfer_estimate(trial, region)
    return _estimate(trial, region, at_most=False)


def upper_bound(trial: AnyTrial, region: str = DEFAULT_REGION) -> CostEstimate:
    """Return the same with tasks of DAGs that take as long as they may, as often as they may."""
    if isinstance(trial, TransferTrial):
        return transfer_estimate(trial, region)
    return _estimate(trial, region, at_most=True)


def _estimate(trial: TrialPlan, region: str, *, at_most: bool) -> CostEstimate:
    arrives = measure_of(trial.experiment).arrives
    delivered = math.ceil(trial.events * trial.record.matching_share) if arrives else 0
    batches = _batches(trial, delivered)
    invocations = _invocations(trial, batches)
    hours = (trial.length_s + trial.drain_limit_s + IDLE_S) / 3_600
    return bill(
        *store_lines(trial, Offered(trial.events + trial.preloaded_keys, CANARIES, hours)),
        line(prices.LAMBDA_REQUEST, invocations),
        line(prices.LAMBDA_GB_S, _billed_ms(trial, batches) / 1_000 * FUNCTION_MEMORY_MB / 1_024),
        line(prices.RESULTS_WRITE, results_writes(trial, delivered, batches)),
        line(prices.DYNAMODB_READ, writer_seconds(trial)),
        line(prices.RESULTS_PUT, writer_seconds(trial) / FLUSH_S + 2 * items(trial) + 20),
        *_load_host_lines(trial),
        line(prices.STATE_TRANSITION, _transitions(trial)),
        line(prices.LOGS_GB, log_bytes(trial, delivered, batches, invocations) / 1e9),
        *(dag_amounts(trial, at_most=at_most) if trial.dags else ()),
        region=region,
    )


def store_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    """Return what the store bills for what is done, or is to be done; capacity by the hours that it is held."""
    lines = STORE_LINES.get(trial.target.store)
    return lines(trial, offered) if lines else ()


def _load_host_lines(trial: TrialPlan) -> tuple[Amount, ...]:
    """A host is billed while it is there, which for a trial is while the trial goes on."""
    if trial.load_from == "lambda":
        return ()
    there_s = _watch_s(trial)
    return line(prices.LOAD_HOST, there_s / 3_600), line(prices.LOAD_QUEUE, queue_requests(trial, there_s))


def queue_requests(trial: TrialPlan, there_s: float) -> float:
    """Return what the queue of a load host is asked while the host is there."""
    return QUEUE_REQUESTS_PER_ITEM * items(trial) + there_s / QUEUE_POLL_S


def _s3_lines(trial: TrialPlan, offered: Offered) -> tuple[Amount, ...]:
    if not trial.dags:
        return (line(prices.S3_PUT, offered.number + offered.canaries),)
    puts, gets = dag_requests(trial)
    note = "as the DAG says, of all executions"
    return line(prices.S3_PUT, puts * offered.number, note), line(prices.S3_GET, gets * offered.number, note)


STORE_LINES: Mapping[str, Callable[[TrialPlan, Offered], tuple[Amount, ...]]] = {
    "s3": _s3_lines,
    "dynamodb": dynamodb_lines,
    "postgresql": aurora_lines,
    "dsql": dsql_lines,
    "redis": elasticache_lines,
}
"""Stores that bill by what is done, by name; what the others cost by the hour is not a trial's."""


def _batches(trial: TrialPlan, delivered: int) -> int:
    """A watcher writes what it saw once a second at most; a push receiver may run once per event; operations: none."""
    if not measure_of(trial.experiment).arrives:
        return 0
    return min(delivered, math.ceil(2 * _watch_s(trial))) if trial.pull else delivered + CANARIES


def _invocations(trial: TrialPlan, batches: int) -> int:
    receivers = 0 if trial.pull else batches + _invoked_writes(trial)
    return receivers + _invoked_items(trial) + CONTROL_INVOCATIONS + _precision_checks(trial)


def _billed_ms(trial: TrialPlan, batches: int) -> float:
    writers_ms = (writer_seconds(trial) + WRITER_LEAD_S * items(trial)) * 1_000 if _invoked_items(trial) else 0
    pushed_ms = (batches + _invoked_writes(trial)) * RECEIVER_MS
    receivers_ms = 2 * _watch_s(trial) * 1_000 if trial.pull else pushed_ms
    return writers_ms + receivers_ms + CONTROL_INVOCATIONS * CONTROL_MS + _precision_checks(trial) * CHECK_MS


def _invoked_writes(trial: TrialPlan) -> int:
    """Count the writes that are invocations themselves, of `CheckClock`."""
    return trial.events + CANARIES if trial.target.receiver == "CheckClock" else 0


def results_writes(trial: TrialPlan, delivered: int, batches: int) -> float:
    """Return write units: each batch has one packed item, each writer a heartbeat a second and a pointer per flush."""
    t4 = batches * math.ceil((T4_ITEM_BYTES + T4_ENTRY_BYTES * delivered / max(batches, 1)) / 1_024)
    return t4 + writer_seconds(trial) * (1 + 1 / FLUSH_S) + 100


def log_bytes(trial: TrialPlan, delivered: int, batches: int, invocations: int) -> float:
    """Return what invocations and logged arrivals write into the log."""
    share = {"all": 1.0, "sample": 1 / SAMPLE_EVERY, "none": 0.0}[trial.log_t4]
    return invocations * LOG_BYTES_PER_INVOCATION + share * (
        batches * T4_LINE_BYTES + delivered * T4_LOGGED_ENTRY_BYTES
    )


def _transitions(trial: TrialPlan) -> int:
    loops = TRANSITIONS_PER_PHASE * len(trial.phases) + TRANSITIONS_PER_CHECK * _precision_checks(trial)
    return TRANSITIONS_PER_TRIAL + loops + TRANSITIONS_PER_ITEM * items(trial)


def _precision_checks(trial: TrialPlan) -> int:
    """Count the checks of precision and utilisation, at most: utilisations may come late."""
    waits = METRICS_WAIT_S // METRICS_LOOP_S
    measured = sum(phase.probe or phase.uses_found_rate for phase in trial.phases)
    return sum(MAX_PRECISION_CHECKS for phase in trial.phases if phase.until) + measured * waits


def items(trial: TrialPlan) -> int:
    """Count the slices that writers run."""
    return sum(phase.slices * trial.writers for phase in trial.phases)


def _invoked_items(trial: TrialPlan) -> int:
    """Count the items that Lambda runs: all, or none where a load host does."""
    return items(trial) if trial.load_from == "lambda" else 0


def writer_seconds(trial: TrialPlan) -> float:
    """Return how long all writers together offer load."""
    return sum(phase.length_s for phase in trial.phases) * trial.writers


def _watch_s(trial: TrialPlan) -> float:
    """A watcher is there from the canaries to the drain limit."""
    return trial.length_s + trial.drain_limit_s + WRITER_LEAD_S * (1 + len(trial.phases))
